// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// withCKS lets clusters of CKS be made in a CloudStack.
func withCKS(w *simulator.World) {
	w.Settings = map[string]string{"endpoint.url": "http://192.0.2.1:8080/client/api"}
	w.ServiceOfferings = append(w.ServiceOfferings, simulator.ServiceOffering{Name: "CKS", CPUs: 2, CPUSpeed: 1000, Memory: 2048})
	w.KubernetesVersions = append(w.KubernetesVersions, simulator.KubernetesVersion{Semantic: "1.37.1"})
}

func nobody(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// owner is a client of the account that has the nodes.
func (w *world) owner(t *testing.T) *cloudapi.Client {
	t.Helper()
	client, err := cloudapi.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	return client
}

// await waits for a job.
func (w *world) await(t *testing.T, client *cloudapi.Client, s cloudstack.Submitted, err error) string {
	t.Helper()
	require.NoError(t, err)
	_, err = client.Jobs().Wait(t.Context(), "a command", s.JobID)
	require.NoError(t, err)
	return s.ID
}

// cks replaces the nodes by those of a cluster of CKS.
func (w *world) cks(t *testing.T) *cloudapi.KubernetesCluster {
	t.Helper()
	client := w.owner(t)
	zones, err := client.ListZones(t.Context())
	require.NoError(t, err)
	versions, err := client.ListKubernetesVersions(t.Context(), "")
	require.NoError(t, err)
	offerings, err := client.ListServiceOfferings(t.Context(), "")
	require.NoError(t, err)
	s, err := client.Submit(t.Context(), "createKubernetesCluster", cloudapi.CreateClusterRequest{
		Name: "c1", ZoneID: zones[0].ID, VersionID: versions[0].ID, OfferingID: offerings[len(offerings)-1].ID, ControlNodes: 1, Size: 1,
	}.Params())
	w.await(t, client, s, err)
	clusters, err := client.ListKubernetesClusters(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, clusters, 1)
	for _, n := range []string{"demo-cp-1", "demo-worker-1", "demo-worker-2"} {
		require.NoError(t, w.kube.CoreV1().Nodes().Delete(t.Context(), n, metav1.DeleteOptions{}))
	}
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{NetworkID: clusters[0].NetworkID})
	require.NoError(t, err)
	for _, vm := range vms {
		n := w.node(vm.Name, vm.NICs[0].IPv4)
		n.Spec.ProviderID = "external-cloudstack://" + vm.ID
		w.add(t, n)
	}
	return &clusters[0]
}

// apiServer answers at the clusters' endpoints, with a certificate for 127.0.0.1 that is good until 2084.
func apiServer(t *testing.T) ckscheck.Dial {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
}

// cksFaults are those of clusters that CKS made.
func cksFaults() []fault {
	return []fault{
		{code: "CKS-002", outcome: check.Failed, says: "it is Stopped, not Running", inject: func(t *testing.T, w *world) {
			w.order(t, "stopVirtualMachine", url.Values{"id": {w.cks(t).Nodes[1].ID}})
		}},
		{code: "CKS-002", outcome: check.Failed, says: "it did not join the cluster", inject: func(t *testing.T, w *world) {
			require.NoError(t, w.kube.CoreV1().Nodes().Delete(t.Context(), w.cks(t).Nodes[1].Name, metav1.DeleteOptions{}))
		}},
		{code: "CKS-003", outcome: check.Warning, says: "not 203.0.113.", inject: func(t *testing.T, w *world) {
			w.cks(t)
			w.env.DialAPI = apiServer(t)
		}},
		{code: "CKS-003", outcome: check.Failed, says: "it expired on 2084-01-29 (https://github.com/apache/cloudstack/issues/9418)", inject: func(t *testing.T, w *world) {
			w.cks(t)
			w.env.DialAPI = apiServer(t)
			w.env.Clock = clocktesting.NewFakeClock(time.Date(2084, 2, 1, 0, 0, 0, 0, time.UTC))
		}},
		{code: "CKS-004", outcome: check.Warning, says: "is for protocol icmp and has no ports", inject: func(t *testing.T, w *world) {
			client, k := w.owner(t), w.cks(t)
			s, err := client.CreateFirewallRule(t.Context(), cloudstack.CreateFirewallRuleRequest{PublicIPID: k.IPAddressID, Protocol: "icmp", CIDRs: []string{"192.0.2.0/24"}})
			w.await(t, client, s, err)
		}},
		{code: "CKS-005", outcome: check.Warning, says: "acquired for default/gone, which is gone", inject: func(t *testing.T, w *world) {
			w.acquired(t, w.cks(t), thisCluster, "default/web", "01234567-89ab-cdef-0123-456789abcdef")
			w.acquired(t, w.cluster(t), thisCluster, "default/gone", "11111111-89ab-cdef-0123-456789abcdef")
		}},
	}
}

func (w *world) cluster(t *testing.T) *cloudapi.KubernetesCluster {
	t.Helper()
	clusters, err := w.owner(t).ListKubernetesClusters(t.Context(), "")
	require.NoError(t, err)
	return &clusters[0]
}

// thisCluster is the id of the cluster in tags.
const thisCluster = "5ca1ab1e-0000-4000-8000-000000000001"

// acquired adds an address that the controller of a cluster acquired for a Service.
func (w *world) acquired(t *testing.T, k *cloudapi.KubernetesCluster, by, service, uid string) {
	t.Helper()
	client := w.owner(t)
	s, err := client.AssociateIP(t.Context(), cloudstack.AssociateIPRequest{NetworkID: k.NetworkID})
	id := w.await(t, client, s, err)
	s, err = client.CreateTags(t.Context(), "PublicIpAddress", []string{id}, map[string]string{
		"csccm-cluster": by, "csccm-service": service, "csccm-service-uid": uid, "csccm-managed-by": "cloudstack-ccm", "csccm-allocated-by": "cloudstack-ccm",
	})
	w.await(t, client, s, err)
}

// TestCKSHealthy: a cluster of CKS in which nothing is wrong, and what looking at it costs: two calls.
func TestCKSHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.cks(t)
	w.acquired(t, k, thisCluster, "default/web", "01234567-89ab-cdef-0123-456789abcdef")
	w.acquired(t, k, "another-cluster", "default/gone", "11111111-89ab-cdef-0123-456789abcdef")
	w.sim.Ledger().Reset()
	got := byCode(inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil))
	for code, says := range map[string]string{
		"CKS-002": "all VMs of the cluster run", "CKS-004": "nothing known is in the way", "CKS-005": "would leave 1 address of its Services behind: `csccm cks delete --remove-services`",
	} {
		require.Equal(t, check.OK, got[code].Outcome, "%+v", got[code])
		require.Contains(t, got[code].Message, says)
	}
	require.Equal(t, check.Skipped, got["CKS-003"].Outcome)
	require.Equal(t, "not checked: the certificate of the API server: the API server at "+strings.TrimSuffix(strings.TrimPrefix(k.Endpoint, "https://"), "/")+" does not answer: connection refused", got["CKS-003"].Message)
	require.Equal(t, 1, w.sim.Ledger().Count("listKubernetesClusters"))
	require.Equal(t, 2, w.sim.Ledger().Count("listFirewallRules"), "of the cluster's address, and of all for LB-001")
}

// TestNotCKS: on other clusters the checks are skipped, with the reason, and cost nothing.
func TestNotCKS(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(t *testing.T, w *world)
		why    string
		calls  int
	}{
		"other names": {func(*testing.T, *world) {}, "not made by CKS: no node has such a name", 0},
		"names like CKS's": {func(t *testing.T, w *world) { w.add(t, w.node("c-control-19a2b3c4d5e", "10.1.1.50")) },
			"not made by CKS: none of its clusters has these nodes", 1},
		"listed only": {func(t *testing.T, w *world) {
			nodes, err := w.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			client := w.owner(t)
			zones, err := client.ListZones(t.Context())
			require.NoError(t, err)
			id, err := client.CreateExternalCluster(t.Context(), cloudstack.ExternalClusterRequest{Name: "c1", ZoneID: zones[0].ID})
			require.NoError(t, err)
			var vms []string
			for _, n := range nodes.Items {
				vms = append(vms, strings.TrimPrefix(n.Spec.ProviderID, "external-cloudstack://"))
			}
			require.NoError(t, client.AddClusterVMs(t.Context(), id, vms, false))
			w.add(t, w.node("c-control-19a2b3c4d5e", "10.1.1.50"))
		}, "not made by CKS: CloudStack only lists it", 1},
		"a role that may not ask": {func(t *testing.T, w *world) {
			w.add(t, w.node("c-control-19a2b3c4d5e", "10.1.1.50"))
			w.sim.Inject(simulator.Fault{Command: "listKubernetesClusters", Kind: simulator.FaultErrorBefore, HTTPStatus: 432, Text: "The API [listKubernetesClusters] does not exist or is not available for the account"})
		}, "not checked: the role of the keys may not list the clusters of CKS", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.change(t, w)
			w.sim.Ledger().Reset()
			got := byCode(inspect.Run(t.Context(), w.env, check.Selection{Only: []string{"CKS"}, Skip: []string{"CKS-001"}}, nil))
			require.Len(t, got, 4)
			for code, c := range got {
				require.Equal(t, check.Skipped, c.Outcome, code)
				require.Equal(t, tc.why, c.Message, code)
			}
			require.Equal(t, tc.calls, w.sim.Ledger().Count("listKubernetesClusters"))
			require.LessOrEqual(t, w.sim.Ledger().Count("listFirewallRules"), 1, "LB-001's alone")
		})
	}
}
