// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// withNode starts a CloudStack with cluster demo in network own-net, to which VM gpu-1 was added as a worker.
func withNode(t *testing.T) (*testenv.Cloud, *Service, *testenv.Env) {
	t.Helper()
	world := testenv.CKSWorld(t)
	for _, name := range []string{"gpu-1", "gpu-2"} {
		world.VirtualMachines = append(world.VirtualMachines,
			simulator.VirtualMachine{
				Name:        name,
				Account:     "k8s",
				Offering:    "node",
				RootDiskGiB: 8,
				NICs:        []simulator.NIC{{Network: "own-net"}},
			})
	}

	cloud := testenv.NewCloud(t, world)
	nets, err := cloud.Client(t, "").ListNetworks(t.Context(), cloudstack.NetworkQuery{})
	require.NoError(t, err)
	own := testenv.Named(t, nets, "own-net", func(n cloudstack.Network) string { return n.Name })
	cloud.Cluster(t, "demo", func(r *cloudapi.CreateClusterRequest) { r.NetworkID = own.ID })
	s, e := serviceOf(t, cloud)
	require.NoError(t, s.Run(t.Context(), AddNodes, "demo", Options{VMs: []string{"gpu-1"}, ManualUpgrade: true}))
	cloud.Ledger().Reset()
	return cloud, s, e
}

func TestAddNodes(t *testing.T) {
	t.Parallel()
	cloud, s, e := withNode(t)
	require.Contains(t, e.Said(), "VM gpu-1    a worker; CloudStack configures and restarts the VM")
	k, err := s.cluster(t.Context(), "demo")
	require.NoError(t, err)
	require.True(t, k.Nodes[len(k.Nodes)-1].External)
	require.NoError(t, s.Run(t.Context(), AddNodes, "demo", Options{VMs: []string{"gpu-1"}})) // nothing to do
	require.Zero(t, cloud.Ledger().Count("addNodesToKubernetesCluster"))

	require.NoError(t, s.Run(t.Context(), Upgrade, "demo", Options{Version: "1.33.4"}))
	info, err := s.Show(t.Context(), "demo")
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, info.Write(&text, report.Style{}))
	require.Regexp(t, `gpu-1 +worker \(added\) +Running +1.33.1`, text.String())
	require.Contains(t, text.String(), "CloudStack does not show which")
	require.Contains(t, e.Said(), "CloudStack leaves it out if it was marked for manual upgrade")

	err = s.Run(t.Context(), AddNodes, "demo", Options{VMs: []string{"nosuch"}})
	testenv.RequireRefusal(t, err, `there is no VM "nosuch"`, "gpu-1", report.ExitUsage)
	cloud.Cluster(t, "other", nil)
	err = s.Run(t.Context(), AddNodes, "other", Options{VMs: []string{"gpu-1"}})
	testenv.RequireRefusal(t, err, "VM gpu-1 is a node of cluster demo; nothing was changed", "", report.ExitUsage)
	err = s.Run(t.Context(), AddNodes, "other", Options{VMs: []string{"gpu-2"}})
	testenv.RequireRefusal(t, err, "VM gpu-2: it has none in the cluster's network other-network", "vm-network",
		report.ExitCheckFailed)
	err = s.Run(t.Context(), AddNodes, "other", Options{VMs: []string{"gpu-2"}, Ignore: []string{"vm-network"}})
	require.ErrorContains(t, err, "VM gpu-2 has no NIC in the cluster's network")
	require.Contains(t, report.RemedyOf(err), "its setting cloud.kubernetes.cluster.add.node.timeout")
}

// A node is cordoned and drained before the call to CloudStack, and the plan lists the Pods to evict.
func TestRemoveNodes(t *testing.T) {
	t.Parallel()
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{NodeName: "gpu-1"},
		}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}}
		if change != nil {
			change(p)
		}
		return p
	}
	emptyDir := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
	}
	for name, tc := range map[string]struct {
		pods    []runtime.Object
		ignore  []string
		noKube  bool
		stays   bool // the Pods do not terminate
		refused string
		code    int
	}{
		"with a Pod":   {pods: []runtime.Object{pod("web-1", nil)}},
		"with nothing": {},
		"with data": {
			pods:    []runtime.Object{pod("web-1", emptyDir)},
			refused: "node gpu-1: not all of its Pods can move: cannot delete Pods with local storage",
			code:    3,
		},
		"with data that may be lost": {
			pods:   []runtime.Object{pod("web-1", emptyDir)},
			ignore: []string{"pods-lost"},
		},
		"with a Pod of nobody": {
			pods:    []runtime.Object{pod("x", func(p *corev1.Pod) { p.OwnerReferences = nil })},
			refused: "cannot delete Pods that declare no controller",
			code:    3,
		},
		"with a Pod that cannot be moved": {
			pods:    []runtime.Object{pod("web-1", nil)},
			stays:   true,
			refused: "node gpu-1 is not drained, and no node was removed",
			code:    1,
		},
		"without an answer":           {noKube: true, refused: "what runs on the nodes is not known", code: 3},
		"without an answer, by force": {noKube: true, ignore: []string{"node-drain"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, s, e := withNode(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}}
			kube := fake.NewClientset(append(slices.Clone(tc.pods), node)...)
			kube.Resources = []*metav1.APIResourceList{{GroupVersion: "policy/v1"}, {
				GroupVersion: "v1",
				APIResources: []metav1.APIResource{
					{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1"},
				},
			}}
			kube.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
				if a.GetSubresource() != "eviction" {
					return false, nil, nil
				}
				require.Zero(t, cloud.Ledger().Count("removeNodesFromKubernetesCluster"))
				// This reactor runs under a lock of the client, so it reads from the tracker.
				n, err := kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "gpu-1")
				require.NoError(t, err)
				node, ok := n.(*corev1.Node)
				require.True(t, ok && node.Spec.Unschedulable, "it is cordoned first")
				if tc.stays {
					return true, nil, context.DeadlineExceeded
				}
				return true, nil, kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default",
					"web-1")
			})
			s.Kube = func(string) (kubernetes.Interface, error) {
				if tc.noKube {
					return nil, context.DeadlineExceeded
				}
				return kube, nil
			}
			err := s.Run(t.Context(), RemoveNodes, "demo", Options{VMs: []string{"gpu-1"}, Ignore: tc.ignore})
			k, kerr := s.cluster(t.Context(), "demo")
			require.NoError(t, kerr)
			if tc.refused != "" {
				testenv.RequireRefusal(t, err, tc.refused, "", tc.code)
				require.Zero(t, cloud.Ledger().Count("removeNodesFromKubernetesCluster"))
				require.Len(t, k.Nodes, 4)
				return
			}
			require.NoError(t, err)
			require.Len(t, k.Nodes, 3)
			if len(tc.pods) > 0 {
				require.Regexp(t, `before that, drain gpu-1 +evict 1 Pod: default/web-1`, e.Said())
			}
			journal, err := os.ReadFile(e.Journal)
			require.NoError(t, err)
			require.Equal(t, !tc.noKube, strings.Contains(string(journal), "cordon and drain node gpu-1"))
		})
	}

	_, s, _ := withNode(t)
	k, err := s.cluster(t.Context(), "demo")
	require.NoError(t, err)
	err = s.Run(t.Context(), RemoveNodes, "demo", Options{VMs: []string{k.Nodes[1].Name}})
	testenv.RequireRefusal(t, err, "CloudStack created node "+k.Nodes[1].Name, "csccm cks scale demo", report.ExitUsage)
}

func TestValidateVersion(t *testing.T) {
	t.Parallel()
	const iso = "https://example.org/x.iso"

	for name, tc := range map[string]struct {
		number string
		o      Options
		wrong  string
	}{
		"well":              {"1.34.1", Options{URL: iso, Checksum: "{SHA-256}" + strings.Repeat("a", 64)}, ""},
		"MD5":               {"1.34.1", Options{URL: iso, Checksum: strings.Repeat("a", 32)}, ""},
		"two numbers":       {"1.34", Options{URL: iso}, "not a version"},
		"no URL":            {"1.34.1", Options{}, "--url"},
		"a file":            {"1.34.1", Options{URL: "file:///x.iso"}, "--url"},
		"no ISO":            {"1.34.1", Options{URL: "https://example.org/x.tar"}, "--url"},
		"a short checksum":  {"1.34.1", Options{URL: iso, Checksum: "{SHA-256}abc"}, "--checksum"},
		"another algorithm": {"1.34.1", Options{URL: iso, Checksum: "{CRC}abc"}, "--checksum"},
		"one CPU":           {"1.34.1", Options{URL: iso, MinCPUs: 1}, "2 CPUs"},
	} {
		err := tc.o.ValidateVersion(tc.number)
		if tc.wrong == "" {
			require.NoError(t, err, name)
			continue
		}

		testenv.RequireRefusal(t, err, tc.wrong, "", report.ExitUsage)
	}
}

// AddVersion waits for the ISO, and a second run continues to wait for the same ISO.
func TestAddVersion(t *testing.T) {
	t.Parallel()
	world := testenv.CKSWorld(t)
	cloud := testenv.NewCloud(t, world)
	e := testenv.New(t)
	e.Cluster = nil
	s := &Service{Env: e.Env, API: cloud.Admin(t)}
	o := &Options{URL: "http://192.0.2.1/x.iso", Zone: "zone-1"}
	require.NoError(t, s.AddVersion(t.Context(), "1.35.0", o))
	require.NoError(t, s.AddVersion(t.Context(), "1.35.0", o))
	require.Equal(t, 1, cloud.Ledger().Count("addKubernetesSupportedVersion"))
	require.Contains(t, e.Said(), "without a checksum CloudStack accepts whatever the URL serves")
	require.Contains(t, e.Said(), "ISO of version 1.35.0: Ready")
	require.Contains(t, e.Said(), "Version 1.35.0: nothing to do")

	require.NoError(t, s.SetVersion(t.Context(), "1.35.0", "disable"))
	v, err := s.namedVersion(t.Context(), "1.35.0")
	require.NoError(t, err)
	require.Equal(t, "Disabled", v.State)

	cloud.Cluster(t, "demo", nil)
	err = s.DeleteVersion(t.Context(), "1.33.1")
	testenv.RequireRefusal(t, err, "cluster demo of account k8s: it has the version", "", report.ExitCheckFailed)
	require.Zero(t, cloud.Ledger().Count("deleteKubernetesSupportedVersion"))
	require.NoError(t, s.DeleteVersion(t.Context(), "1.35.0"))
	_, err = s.namedVersion(t.Context(), "1.35.0")
	require.Error(t, err)

	user, _ := serviceOf(t, cloud)
	err = user.AddVersion(t.Context(), "1.35.0", &Options{URL: "http://192.0.2.1/x.iso"})
	require.ErrorContains(t, err, "addKubernetesSupportedVersion")
	require.Contains(t, report.RemedyOf(err), "credentials whose role allows this")
}

// Only the dashboard is served, and only for requests whose Host is this machine.
func TestDashboardServesNothingElse(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "API "+r.URL.Path)
	}))
	t.Cleanup(api.Close)

	handler, err := onlyDashboard(&rest.Config{Host: api.URL})
	require.NoError(t, err)

	for _, tc := range []struct {
		host, path string
		code       int
	}{
		{"127.0.0.1:8001", dashboardPath, 200},
		{"localhost:8001", dashboardPath + "static/app.js", 200},
		{"evil.example:8001", dashboardPath, 403},
		{"127.0.0.1:8001", "/api/v1/secrets", 403},
		{"127.0.0.1:8001", dashboardPath + "../../../../secrets", 403},
		{"127.0.0.1:8001", dashboardPath + "%2e%2e/%2e%2e/secrets", 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+tc.host+tc.path, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)

		require.Equal(t, tc.code, w.Code, tc)
		if tc.code == 200 {
			require.Equal(t, "API "+tc.path, w.Body.String())
		}
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	cloud.Cluster(t, "demo", nil)
	s, _ := serviceOf(t, cloud)
	kube := fake.NewClientset()
	s.Kube = func(string) (kubernetes.Interface, error) { return kube, nil }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	err := s.Dashboard(ctx, "demo", 0, func(string) {})
	testenv.RequireRefusal(t, err, "cluster demo has no dashboard", "kubernetes.io/docs", report.ExitCheckFailed)

	require.NoError(t,
		kube.Tracker().Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: dashboard, Name: dashboard}}))
	require.NoError(t, s.Dashboard(ctx, "demo", 0, func(url string) {
		require.Regexp(t, `^http://127\.0\.0\.1:\d+/api/v1/namespaces/kubernetes-dashboard/`, url)
		cancel()
	}))
}
