// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// env is a CloudStack with a user's keys.
type env struct {
	*testenv.Cloud
	t      *testing.T
	user   *cloudapi.Client
	reader ckscheck.Reader // no program listens at the clusters' endpoints
}

func newEnv(t *testing.T, change ...func(w *simulator.World)) *env {
	t.Helper()
	w := testenv.CKSWorld(t)
	for _, f := range change {
		f(w)
	}
	e := &env{Cloud: testenv.NewCloud(t, w), t: t}
	e.user = e.Client(t, "")
	e.reader = ckscheck.Reader{API: e.user, NoKube: errors.New("there is no kubeconfig"), Clock: clock.RealClock{}}
	e.reader.Dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}
	return e
}

func limits(name string, limit int64) func(w *simulator.World) {
	return func(w *simulator.World) { w.Accounts[0].Limits = map[string]int64{name: limit} }
}

// version returns the id of a version that clusters can be upgraded to.
func (e *env) version() string {
	e.t.Helper()
	all, err := e.user.ListKubernetesVersions(e.t.Context(), "")
	require.NoError(e.t, err)
	return testenv.Named(e.t, all, "1.33.4", func(v cloudapi.KubernetesVersion) string { return v.Semantic }).ID
}

func (e *env) offering(name string) string {
	e.t.Helper()
	all, err := e.user.ListServiceOfferings(e.t.Context(), "")
	require.NoError(e.t, err)
	return testenv.Named(e.t, all, name, func(v cloudapi.ServiceOffering) string { return v.Name }).ID
}

func (e *env) network() string {
	e.t.Helper()
	all, err := e.user.ListNetworks(e.t.Context(), cloudstack.NetworkQuery{})
	require.NoError(e.t, err)
	return testenv.Named(e.t, all, "own-net", func(v cloudstack.Network) string { return v.Name }).ID
}

// does runs a command, and returns the error text of the call or of its job.
func (e *env) does(command string, p cloudstack.Params) string {
	e.t.Helper()
	s, err := e.user.Submit(e.t.Context(), command, p)
	if err == nil {
		_, err = e.user.Jobs().Wait(e.t.Context(), command, s.JobID)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// cluster returns the only cluster.
func (e *env) cluster(project string) *cloudapi.KubernetesCluster {
	e.t.Helper()
	all, err := e.user.ListKubernetesClusters(e.t.Context(), project)
	require.NoError(e.t, err)
	require.Len(e.t, all, 1)
	return &all[0]
}

// only returns the finding with a code.
func only(t *testing.T, all []ckscheck.Finding, code string) ckscheck.Finding {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(all), func(f ckscheck.Finding) bool { return f.Code != code })
	require.Len(t, found, 1, "%s in %+v", code, all)
	return found[0]
}

// problems returns the codes of errors and warnings.
func problems(all []ckscheck.Finding) (codes []string) {
	for _, f := range all {
		if f.Severity != ckscheck.NotChecked {
			codes = append(codes, string(f.Severity)+" "+f.Code)
		}
	}
	return codes
}

// TestCalls: an operation reads only what it needs, and reads nothing twice.
func TestCalls(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	k := e.Cluster(t, "c1", func(r *cloudapi.CreateClusterRequest) { r.NetworkID = e.network() })
	r := e.ClusterRequest(t, "c2")
	scale := func(q cloudapi.ScaleClusterRequest) func() (*ckscheck.Facts, error) {
		return func() (*ckscheck.Facts, error) { return e.reader.Scale(t.Context(), k, q) }
	}
	for _, tc := range []struct {
		read  func() (*ckscheck.Facts, error)
		calls []string
	}{
		{
			func() (*ckscheck.Facts, error) { return e.reader.Create(t.Context(), r) },
			[]string{"listAccounts", "listKubernetesSupportedVersions", "listPublicIpAddresses",
				"listServiceOfferings"},
		},
		{scale(cloudapi.ScaleClusterRequest{Size: 2}),
			[]string{"listAccounts", "listFirewallRules", "listServiceOfferings"}},
		{scale(cloudapi.ScaleClusterRequest{OfferingID: "x"}), []string{"listAccounts", "listServiceOfferings"}},
		{
			func() (*ckscheck.Facts, error) { return e.reader.Upgrade(t.Context(), k) },
			[]string{"listKubernetesSupportedVersions", "listServiceOfferings"},
		},
		{
			func() (*ckscheck.Facts, error) { return e.reader.Delete(t.Context(), k) },
			[]string{"listFirewallRules", "listLoadBalancerRules", "listNetworks", "listPublicIpAddresses",
				"listVirtualMachines"},
		},
	} {
		e.Ledger().Reset()
		_, err := tc.read()
		require.NoError(t, err)
		var calls []string
		for _, c := range e.Ledger().Calls() {
			calls = append(calls, c.Command)
		}

		slices.Sort(calls)
		require.Equal(t, tc.calls, calls)
	}
}

// TestWell: a healthy cluster of the simulator has no findings, and findings name what could not be read.
func TestWell(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.ClusterRequest(t, "c1")
	f, err := e.reader.Create(t.Context(), r)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Create(f, r)))
	k := e.Cluster(t, "c1", nil)
	kube := fake.NewClientset()
	for _, vm := range k.Nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vm.Name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		require.NoError(t, kube.Tracker().Add(n))
	}

	e.reader.Kube = kube
	scale := cloudapi.ScaleClusterRequest{ID: k.ID, Size: 3}
	f, err = e.reader.Scale(t.Context(), k, scale)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Scale(f, scale)))
	require.Equal(t,
		map[ckscheck.Subject]string{
			ckscheck.SubjectCertificate: "the API server at " + k.IPAddress +
				":6443 does not answer: connection refused",
		}, f.Unread)

	require.Empty(t, e.does("scaleKubernetesCluster", scale.Params()))
	f, err = e.reader.Delete(t.Context(), e.cluster(""))
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Delete(f, false)))
}

// TestRefusedByTheServer: what the preflight finds is a real problem: the server refuses the operation, or stops
// half-way and leaves an incomplete cluster or a VM that is not a node (apache/cloudstack#12123).
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	for server, world := range map[string]func(w *simulator.World){
		"Maximum amount of resources of Type = 'user_vm'": limits("virtualMachines", 1),
		"Maximum amount of resources of Type = 'cpu'":     limits("cpus", 3),
		"no public IP found": func(w *simulator.World) {
			w.Zones[0].PublicRanges = []string{"203.0.113.10-203.0.113.10"}
		},
	} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			e, code := newEnv(t, world), "limit"
			if server == "no public IP found" {
				require.Empty(t, e.does("associateIpAddress", cloudstack.Params{"networkid": e.network()}))
				code = "no-free-address"
			}
			r := e.ClusterRequest(t, "c1")
			f, err := e.reader.Create(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, []string{"error " + code}, problems(ckscheck.Create(f, r)))
			require.Contains(t, e.does("createKubernetesCluster", r.Params()), server)
		})
	}

	e := newEnv(t, limits("virtualMachines", 4))
	k := e.Cluster(t, "c1", nil)
	scale := cloudapi.ScaleClusterRequest{ID: k.ID, Size: 4}
	f, err := e.reader.Scale(t.Context(), k, scale)
	require.NoError(t, err)
	found := only(t, ckscheck.Scale(f, scale), "limit")
	require.Equal(t, "account k8s: 2 VMs are needed, and 1 of 4 are left", found.String())
	require.NotEmpty(t, e.does("scaleKubernetesCluster", scale.Params()))
}

// TestRoleOfCKS: the keys that CKS gives to a project's clusters may read little. The findings say so, and none is an
// error.
func TestRoleOfCKS(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	projects, err := e.user.ListProjects(t.Context())
	require.NoError(t, err)
	project := projects[0].ID
	e.Cluster(t, "c1", func(r *cloudapi.CreateClusterRequest) { r.ProjectID = project })
	k := e.cluster(project)
	for _, u := range e.Users() {
		if u.Name != testenv.Owner && u.Name != "admin" {
			e.reader.API = e.Client(t, u.Name)
		}
	}
	e.reader.ProjectID = project
	scale := cloudapi.ScaleClusterRequest{ID: k.ID, Size: 3}
	f, err := e.reader.Scale(t.Context(), k, scale)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Scale(f, scale)))
	for _, s := range []ckscheck.Subject{ckscheck.SubjectOfferings, ckscheck.SubjectQuota} {
		require.Equal(t, "the role of the keys does not allow it", f.Unread[s], s)
	}
	require.Len(t, f.Firewall, 2, "which the role does allow")
	f, err = e.reader.Delete(t.Context(), k)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Delete(f, false)))
	require.Equal(t, map[ckscheck.Subject]string{ckscheck.SubjectServices: "there is no kubeconfig"}, f.Unread)

	e.Inject(simulator.Fault{Command: "listNetworks", Kind: simulator.FaultErrorBefore, HTTPStatus: 401})
	_, err = e.reader.Delete(t.Context(), k)
	require.ErrorContains(t, err, "read the network: ", "no refusal by the role")
}

// TestIssue14148 upgrades a cluster that was created with an offering for each kind of node and without a common
// offering.
func TestIssue14148(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	k := e.Cluster(t, "c1", func(r *cloudapi.CreateClusterRequest) {
		r.OfferingID, r.ControlOfferingID, r.WorkerOfferingID = "", r.OfferingID, e.offering("big")
	})
	f, err := e.reader.Upgrade(t.Context(), k)
	require.NoError(t, err)
	found := only(t, ckscheck.Upgrade(f, e.version()), "offering-missing")
	require.Contains(t, found.What, "created without an offering for all nodes")
	require.Contains(t, found.Remedy, "csccm cks scale c1")
	upgrade := cloudstack.Params{"id": k.ID, "kubernetesversionid": e.version()}
	require.Contains(
		t, e.does("upgradeKubernetesCluster", upgrade),
		"Invalid service offering associated with Kubernetes cluster : c1",
	)

	require.Empty(
		t, e.does("scaleKubernetesCluster", cloudstack.Params{"id": k.ID, "serviceofferingid": e.offering("big")}),
		"the remedy",
	)
	f, err = e.reader.Upgrade(t.Context(), e.cluster(""))
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Upgrade(f, e.version())))
	require.Empty(t, e.does("upgradeKubernetesCluster", upgrade))
}

// issued is when kubeadm created the certificates, which are valid for a year.
var issued = time.Date(2026, 1, 10, 8, 22, 0, 0, time.UTC)

// serve presents a certificate for an address to every client.
func serve(t *testing.T, address string) ckscheck.Dial {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    issued,
		NotAfter:     issued.AddDate(1, 0, 0),
		DNSNames:     []string{"kubernetes.default"},
		IPAddresses:  []net.IP{net.ParseIP(address)},
	}

	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		s := tls.Server(
			server,
			&tls.Config{
				Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
				MinVersion:   tls.VersionTLS12,
			},
		)
		go func() { _ = s.Handshake(); _ = s.Close() }()
		return client, nil
	}
}

// TestIssue9418: the certificates of a cluster expire, because CloudStack never renews them.
func TestIssue9418(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	k := e.Cluster(t, "c1", nil)
	e.reader.Dial = serve(t, k.IPAddress)

	for days, want := range map[int][]string{
		-31: nil,
		-10: {"warning certificate-expires"},
		1:   {"error certificate-expired"},
	} {
		now := issued.AddDate(1, 0, days)
		e.reader.Clock = clocktesting.NewFakePassiveClock(now)
		f, err := e.reader.Upgrade(t.Context(), k)
		require.NoError(t, err)
		require.WithinDuration(t, now, f.Now, time.Minute, "CloudStack's clock is this machine's")
		found := ckscheck.Upgrade(f, e.version())
		require.Equal(t, want, problems(found))

		if days > 0 {
			expired := only(t, found, "certificate-expired")
			require.Equal(t, "it expired on 2027-01-10", expired.What)
			require.Contains(t, expired.Remedy, "ssh -p 2222 cloud@"+k.IPAddress)
		}
	}
}

func TestServing(t *testing.T) {
	t.Parallel()
	c, err := ckscheck.Serving(t.Context(), serve(t, "203.0.113.10"), "https://KUBERNETES.default/")
	require.NoError(t, err)
	require.Equal(t, &ckscheck.Certificate{NotBefore: issued, NotAfter: issued.AddDate(1, 0, 0)}, c)
	c, err = ckscheck.Serving(t.Context(), serve(t, "203.0.113.10"), "https://203.0.113.99/")
	require.NoError(t, err)
	require.ErrorContains(t, c.WrongHost, "certificate is valid for 203.0.113.10, not 203.0.113.99")
	for endpoint, want := range map[string]string{
		"":                           "has no endpoint",
		"c1":                         "has no endpoint",
		"https://203.0.113.10:6443/": "the API server at 203.0.113.10:6443 does not answer",
		"https://[2001:db8::1]/":     "at [2001:db8::1]:443 does not answer",
	} {
		_, err := ckscheck.Serving(t.Context(),
			func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }, endpoint)
		require.ErrorContains(t, err, want)
	}

	_, err = ckscheck.Serving(t.Context(), func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		return a, b.Close()
	}, "https://203.0.113.10:6443/")
	require.ErrorContains(t, err, "refuses TLS")
}
