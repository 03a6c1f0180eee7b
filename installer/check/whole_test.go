// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
)

// world is a cluster in a fake clientset with a simulated CloudStack below it.
type world struct {
	sim     *simulator.Simulator
	kube    *fake.Clientset
	env     *check.Env
	kubelet func(node string) string // its --cloud-provider
}

func newNode(name, ip string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)), Annotations: map[string]string{}, Labels: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = "v1.37.1", "linux"
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	return n
}

// deployment is the release's controller with one ready Pod, and its lease.
func deployment() []runtime.Object {
	labels := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "cloudstack-ccm"}
	one, seconds, holder, renewed := int32(1), int32(15), "ccm-1_x", metav1.NowMicro()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloudstack-cloud-controller-manager", Labels: labels}}
	d.Spec.Replicas, d.Spec.Selector, d.Status.ReadyReplicas = &one, &metav1.LabelSelector{MatchLabels: labels}, 1
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm-1", Labels: labels}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"}}
	l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &holder, &renewed, &seconds
	return []runtime.Object{d, p, l}
}

// newWorld is the example world with its nodes initialised and the old rules renamed.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{kubelet: func(string) string { return "external" }}
	var err error
	w.sim, err = simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	t.Cleanup(w.sim.Close)
	cs := httptest.NewServer(w.sim.Handler())
	t.Cleanup(cs.Close)
	apiKey, secretKey, known := w.sim.Keys("k8s-owner")
	require.True(t, known)
	cfg := &cloudstack.Config{APIURL: cs.URL + "/client/api", APIKey: apiKey, SecretKey: secretKey, Zone: "zone-1"}
	client, err := cloudstack.NewClient(cfg)
	require.NoError(t, err)

	rules, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	for _, r := range rules {
		s, err := client.UpdateLoadBalancerRule(t.Context(), cloudstack.UpdateLoadBalancerRuleRequest{
			ID: r.ID, Protocol: "tcp", Algorithm: r.Algorithm, Name: strings.Replace(r.Name, "-", "-tcp-", 1),
		})
		require.NoError(t, err)
		_, err = client.Jobs().Wait(t.Context(), "updateLoadBalancerRule", s.JobID)
		require.NoError(t, err)
	}
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)

	objects := append(deployment(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	for _, vm := range vms {
		n := newNode(vm.Name, vm.NICs[0].IPv4)
		n.Spec.ProviderID = "external-cloudstack://" + vm.ID
		if vm.Name == "demo-cp-1" {
			n.Labels[corev1.LabelNodeExcludeBalancers] = ""
		}
		objects = append(objects, n)
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "01234567-89ab-cdef-0123-456789abcdef", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}, {Port: 443, NodePort: 30443}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	release := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "sh.helm.release.v1.cloudstack-ccm.v1", Labels: map[string]string{"owner": "helm", "name": "cloudstack-ccm", "status": "deployed", "version": "1"}}, Type: "helm.sh/release.v1"}
	release.Data = map[string][]byte{"release": []byte("H4sIAAAAAAAAA6uuBQBDv6ajAgAAAA==")} // {}
	objects = append(objects, svc, release)

	w.kube = fake.NewClientset(objects...)
	w.kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kversion.Info{GitVersion: "v1.37.1"}
	w.kube.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	})
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		node := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/proxy/flagz")
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1", "flags": map[string]string{"cloud-provider": w.kubelet(node)}})
	}))
	t.Cleanup(proxy.Close)
	w.env = &check.Env{
		Cluster: cluster.NewForTest(w.kube, &rest.Config{Host: proxy.URL}), CloudStack: client, CloudConfig: cfg, Namespace: "kube-system",
		Release: "cloudstack-ccm", RequiredCommands: provider.RequiredCommands, OptionalCommands: provider.OptionalCommands,
	}
	return w
}

func byCode(r check.Report) map[string]check.Result {
	m := map[string]check.Result{}
	for _, c := range r.Checks {
		m[c.Code] = c
	}
	return m
}

func TestHealthyClusterIsGreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim.Ledger().Reset()
	for _, phase := range []check.Phase{check.PhaseInstalled, check.PhasePreflight} {
		r := check.Run(t.Context(), w.env, check.Selection{Phase: phase}, nil)
		for _, c := range r.Checks {
			if c.Code == "HELM-002" { // nothing is about to be applied
				require.Equal(t, check.Skipped, c.Outcome)
				continue
			}
			require.Equal(t, check.OK, c.Outcome, "%s %s: %s %v", c.Code, c.Title, c.Message, c.Objects)
		}
		require.Zero(t, r.ExitCode(check.SeverityWarning))
		require.GreaterOrEqual(t, len(r.Checks), 20)
	}
	// Facts are shared: two runs with two rules cost this much, whatever the number of checks.
	for command, limit := range map[string]int{
		"listVirtualMachines": 2, "listCapabilities": 2, "listApis": 2, "listZones": 2, "listNetworks": 2, "listPublicIpAddresses": 2,
		"listLoadBalancerRules": 2, "listLoadBalancerRuleInstances": 4, "listProjects": 0,
	} {
		require.LessOrEqual(t, w.sim.Ledger().Count(command), limit, command)
	}
	for _, c := range w.sim.Ledger().Calls() {
		require.True(t, strings.HasPrefix(c.Command, "list"), "checks change nothing: %s", c.Command)
	}
}

// Each fault is found by its code.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	node := func(t *testing.T, w *world, name string, change func(n *corev1.Node)) {
		t.Helper()
		n, err := w.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		change(n)
		_, err = w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	add := func(t *testing.T, w *world, o runtime.Object) {
		t.Helper()
		require.NoError(t, w.kube.Tracker().Add(o))
	}
	wrongKeys := func(t *testing.T, w *world, change func(c *cloudstack.Config)) {
		t.Helper()
		cfg := *w.env.CloudConfig
		change(&cfg)
		client, err := cloudstack.NewClient(&cfg)
		require.NoError(t, err)
		w.env.CloudStack, w.env.CloudConfig = client, &cfg
	}
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: effect}}
		}
	}
	tests := []struct {
		code    string
		outcome check.Outcome
		fault   func(t *testing.T, w *world)
	}{
		{"K8S-001", check.Failed, func(_ *testing.T, w *world) {
			w.kube.PrependReactor("get", "version", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, fmt.Errorf("refused") })
		}},
		{"K8S-002", check.Failed, func(_ *testing.T, w *world) {
			w.kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kversion.Info{GitVersion: "v1.20.0"}
		}},
		{"K8S-004", check.Warning, func(t *testing.T, w *world) {
			node(t, w, "demo-cp-1", func(n *corev1.Node) {
				n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Hour))
			})
		}},
		{"K8S-005", check.Failed, func(t *testing.T, w *world) {
			ns, err := w.kube.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
			require.NoError(t, err)
			ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
			_, err = w.kube.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		{"HELM-001", check.Failed, func(t *testing.T, w *world) {
			add(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "v2", Labels: map[string]string{"owner": "helm", "name": "cloudstack-ccm", "status": "pending-upgrade", "version": "2"}}, Type: "helm.sh/release.v1"})
		}},
		{"CS-001", check.Failed, func(t *testing.T, w *world) {
			wrongKeys(t, w, func(c *cloudstack.Config) { c.APIURL = "http://127.0.0.1:1/client/api" })
		}},
		{"CS-002", check.Failed, func(t *testing.T, w *world) {
			wrongKeys(t, w, func(c *cloudstack.Config) { c.SecretKey = "wrong" })
		}},
		{"CS-002", check.Warning, func(t *testing.T, w *world) {
			wrongKeys(t, w, func(c *cloudstack.Config) { c.APIKey, c.SecretKey, _ = w.sim.Keys("admin") })
		}},
		{"CS-003", check.Failed, func(_ *testing.T, w *world) {
			w.env.RequiredCommands = append([]string{"destroyEverything"}, w.env.RequiredCommands...)
		}},
		{"CS-004", check.Failed, func(t *testing.T, w *world) { wrongKeys(t, w, func(c *cloudstack.Config) { c.Zone = "mars" }) }},
		{"CS-004", check.Failed, func(t *testing.T, w *world) { wrongKeys(t, w, func(c *cloudstack.Config) { c.ProjectID = "none" }) }},
		{"NODE-001", check.Warning, func(_ *testing.T, w *world) { w.kubelet = func(string) string { return "" } }},
		{"NODE-002", check.Failed, func(t *testing.T, w *world) { add(t, w, newNode("lost", "10.9.9.9")) }},
		{"NODE-003", check.Failed, func(t *testing.T, w *world) {
			node(t, w, "demo-cp-1", func(n *corev1.Node) { n.Spec.ProviderID = "cloudstack:///99999999-0000-4000-8000-000000000000" })
		}},
		{"NODE-004", check.Failed, func(t *testing.T, w *world) {
			node(t, w, "demo-worker-1", taint(corev1.TaintEffectNoSchedule))
			w.env.Clock = clocktesting.NewFakeClock(time.Now().Add(5 * time.Minute))
		}},
		{"NODE-005", check.Failed, func(t *testing.T, w *world) { node(t, w, "demo-worker-1", taint(corev1.TaintEffectNoExecute)) }},
		{"NODE-008", check.Failed, func(t *testing.T, w *world) {
			n := newNode("lost", "10.9.9.9")
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			add(t, w, n)
		}},
		{"CCM-001", check.Failed, func(t *testing.T, w *world) {
			require.NoError(t, w.kube.AppsV1().Deployments("kube-system").Delete(t.Context(), "cloudstack-cloud-controller-manager", metav1.DeleteOptions{}))
		}},
		{"CCM-002", check.Failed, func(t *testing.T, w *world) {
			require.NoError(t, w.kube.CoordinationV1().Leases("kube-system").Delete(t.Context(), "cloud-controller-manager", metav1.DeleteOptions{}))
		}},
		{"CCM-003", check.Failed, func(t *testing.T, w *world) {
			d := deployment()[0].(*appsv1.Deployment)
			d.Name, d.Labels = "cloud-controller-manager", nil
			add(t, w, d)
		}},
		{"CCM-005", check.Warning, func(t *testing.T, w *world) {
			add(t, w, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Type: "Warning", Reason: "SyncLoadBalancerFailed", LastTimestamp: metav1.Now(), Source: corev1.EventSource{Component: "service-controller"}})
		}},
		{"LB-001", check.Failed, func(t *testing.T, w *world) {
			node(t, w, "demo-worker-1", func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "true" })
		}},
		{"LB-003", check.Warning, func(t *testing.T, w *world) {
			require.NoError(t, w.kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.code+" "+string(tt.outcome), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.fault(t, w)
			r := check.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
			c := byCode(r)[tt.code]
			require.Equal(t, tt.outcome, c.Outcome, "%+v", c)
			require.NotEmpty(t, c.Message)
			require.NotEmpty(t, c.Remedy)
			if tt.outcome == check.Failed {
				require.Equal(t, 3, r.ExitCode(check.SeverityError))
			}
			var b bytes.Buffer
			require.NoError(t, r.WriteJSON(&b))
			require.NoError(t, r.WriteText(&b, check.TextOptions{Verbose: true}))
			require.NotContains(t, b.String(), w.env.CloudConfig.SecretKey+"\"", "no key in a report")
			require.NotContains(t, b.String(), w.env.CloudConfig.APIKey)
		})
	}
}

// A hundred nodes, each asked through the node proxy, are checked in a few seconds.
func TestHundredNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 100 {
		require.NoError(t, w.kube.Tracker().Add(newNode(fmt.Sprintf("extra-%03d", i), "10.2.0.1")))
	}
	began := time.Now()
	r := check.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
	t.Logf("checks of %d nodes: %s", len(byCode(r)["NODE-001"].Evidence), time.Since(began).Round(time.Millisecond))
	require.Less(t, time.Since(began), 30*time.Second, "generous: -race on a busy machine; the goal is 5 s on a free one")
	require.Equal(t, check.OK, byCode(r)["NODE-001"].Outcome)
	require.Len(t, byCode(r)["NODE-002"].Objects, 100)
}
