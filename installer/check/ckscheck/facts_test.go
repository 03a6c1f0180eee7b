// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// TestCalls: an operation reads only what it needs, each thing once.
func TestCalls(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.request()
	inNetwork := r
	inNetwork.NetworkID = e.network("cks-net")
	calls := func(read func() (*ckscheck.Facts, error)) (out []string) {
		e.Ledger().Reset()
		_, err := read()
		require.NoError(t, err)
		for _, c := range e.Ledger().Calls() {
			out = append(out, c.Command)
		}
		slices.Sort(out)
		return out
	}
	require.Equal(t, []string{"listAccounts", "listKubernetesSupportedVersions", "listPublicIpAddresses", "listServiceOfferings"},
		calls(func() (*ckscheck.Facts, error) { return e.reader().Create(t.Context(), r) }))
	k := e.create(inNetwork)
	scale := func(q cloudapi.ScaleClusterRequest) []string {
		return calls(func() (*ckscheck.Facts, error) { return e.reader().Scale(t.Context(), k, q) })
	}
	require.Equal(t, []string{"listAccounts", "listFirewallRules", "listServiceOfferings"}, scale(cloudapi.ScaleClusterRequest{Size: 2}))
	require.Equal(t, []string{"listAccounts", "listServiceOfferings"}, scale(cloudapi.ScaleClusterRequest{OfferingID: "x"}))
	require.Equal(t, []string{"listKubernetesSupportedVersions", "listServiceOfferings"}, calls(func() (*ckscheck.Facts, error) { return e.reader().Upgrade(t.Context(), k) }))
	require.Equal(t, []string{"listFirewallRules", "listLoadBalancerRules", "listNetworks", "listPublicIpAddresses", "listVirtualMachines"},
		calls(func() (*ckscheck.Facts, error) { return e.reader().Delete(t.Context(), k) }))
}

// TestWell: a cluster of the simulator in which nothing is wrong has no findings; what cannot be read is named.
func TestWell(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.request()
	f, err := e.reader().Create(t.Context(), r)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Create(f, r)))
	k := e.create(r)
	var nodes []string
	for _, vm := range k.Nodes {
		nodes = append(nodes, vm.Name)
	}
	e.kube = ready(nodes...)
	scale := cloudapi.ScaleClusterRequest{ID: k.ID, Size: 2}
	f, err = e.reader().Scale(t.Context(), k, scale)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Scale(f, scale)))
	require.Equal(t, map[ckscheck.Subject]string{ckscheck.SubjectCertificate: "the API server at " + k.IPAddress + ":6443 does not answer: connection refused"}, f.Unread)
	require.Empty(t, e.done(e.user.Submit(t.Context(), "scaleKubernetesCluster", scale.Params())))
	f, err = e.reader().Delete(t.Context(), e.cluster())
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Delete(f, false)))
	require.Empty(t, e.done(e.user.Submit(t.Context(), "deleteKubernetesCluster", cloudstack.Params{"id": k.ID})))
}

// ready is an API server with Ready Nodes.
func ready(names ...string) *fake.Clientset {
	kube := fake.NewClientset()
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_ = kube.Tracker().Add(n)
	}
	return kube
}

// TestRefusedByTheServer: what the preflight finds before a create, the server refuses, or fails at with the cluster half made.
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	limit := func(w *simulator.World) { w.Accounts[0].Limits = map[string]int64{"virtualMachines": 1} }
	cpus := func(w *simulator.World) { w.Accounts[0].Limits = map[string]int64{"cpus": 3} }
	for name, tc := range map[string]struct {
		world  func(w *simulator.World)
		change func(e *env, r *cloudapi.CreateClusterRequest)
		code   string
		server string
	}{
		"limit of VMs":  {limit, func(*env, *cloudapi.CreateClusterRequest) {}, "limit", "Maximum amount of resources of Type = 'user_vm'"},
		"limit of CPUs": {cpus, func(*env, *cloudapi.CreateClusterRequest) {}, "limit", "Maximum amount of resources of Type = 'cpu'"},
		"one address, which another network has": {func(w *simulator.World) { w.Zones[0].PublicRanges = []string{"203.0.113.10-203.0.113.10"} },
			func(e *env, _ *cloudapi.CreateClusterRequest) {
				require.Empty(e.t, e.done(e.user.AssociateIP(e.t.Context(), cloudstack.AssociateIPRequest{NetworkID: e.network("cks-net")})))
			}, "no-free-address", "no public IP found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var worlds []func(*simulator.World)
			if tc.world != nil {
				worlds = append(worlds, tc.world)
			}
			e := newEnv(t, worlds...)
			r := e.request()
			tc.change(e, &r)
			f, err := e.reader().Create(t.Context(), r)
			require.NoError(t, err)
			found := only(t, ckscheck.Create(f, r), tc.code)
			require.Equal(t, ckscheck.Error, found.Severity)
			require.NotEmpty(t, found.Remedy)
			require.Contains(t, e.done(e.user.Submit(t.Context(), "createKubernetesCluster", r.Params())), tc.server)
		})
	}
}

// TestScaleLimit: without the finding CloudStack stops half-way, with a new VM that is no node (apache/cloudstack#12123).
func TestScaleLimit(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(w *simulator.World) { w.Accounts[0].Limits = map[string]int64{"virtualMachines": 3} })
	k := e.create(e.request())
	scale := cloudapi.ScaleClusterRequest{ID: k.ID, Size: 3}
	f, err := e.reader().Scale(t.Context(), k, scale)
	require.NoError(t, err)
	found := only(t, ckscheck.Scale(f, scale), "limit")
	require.Equal(t, "account owner: 2 VMs are needed, and 1 of 3 are left", found.String())
	require.Equal(t, "https://github.com/apache/cloudstack/issues/12123", found.Reference)
	require.NotEmpty(t, e.done(e.user.Submit(t.Context(), "scaleKubernetesCluster", scale.Params())))
}

// TestRoleOfCKS: the keys that CKS gives to a project's clusters may read little. That is said, and nothing is an error.
func TestRoleOfCKS(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	projects, err := e.user.ListProjects(t.Context())
	require.NoError(t, err)
	project := projects[0].ID
	r := e.request()
	r.ProjectID = project
	require.Empty(t, e.done(e.user.Submit(t.Context(), "createKubernetesCluster", r.Params())))
	all, err := e.user.ListKubernetesClusters(t.Context(), project)
	require.NoError(t, err)
	require.Len(t, all, 1)
	k := &all[0]

	var user string
	for _, u := range e.Users() {
		if u.Name != "owner" && u.Name != "admin" {
			user = u.Name
		}
	}
	reader := &ckscheck.Reader{API: e.Client(t, user), ProjectID: project, NoKube: errors.New("there is no kubeconfig"), Clock: clock.RealClock{}, Dial: e.reader().Dial}
	scale := cloudapi.ScaleClusterRequest{ID: k.ID, Size: 2}
	f, err := reader.Scale(t.Context(), k, scale)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Scale(f, scale)))
	refused := "the role of the keys does not allow it"
	for _, s := range []ckscheck.Subject{ckscheck.SubjectOfferings, ckscheck.SubjectQuota} {
		require.Equal(t, refused, f.Unread[s], s)
	}
	require.Len(t, f.Firewall, 2, "which the role does allow")
	f, err = reader.Delete(t.Context(), k)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Delete(f, false)))
	require.Equal(t, map[ckscheck.Subject]string{ckscheck.SubjectServices: "there is no kubeconfig"}, f.Unread)

	e.Inject(simulator.Fault{Command: "listNetworks", Kind: simulator.FaultErrorBefore, HTTPStatus: 401})
	_, err = reader.Delete(t.Context(), k)
	require.ErrorContains(t, err, "read the network: ", "no refusal by the role")
}
