// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/stepclock"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
)

// bench is a cluster and a CloudStack for installs: a fake clientset in which
// the installed controller initialises nodes, and the simulator.
type bench struct {
	sim   *simulator.Simulator
	url   string
	kube  *fake.Clientset
	clock *stepclock.Clock
	helm  *fakeHelm
	out   bytes.Buffer // results
	err   bytes.Buffer // questions and progress

	vms map[string]string // ids by name

	mu       sync.Mutex
	running  bool // the controller
	failing  []check.Result
	diff     func(context.Context, string, string, string) ([]diff.Change, error)
	verdicts func([]corev1.Node) []kubelet.NodeVerdict
}

func newBench(t *testing.T, nodes ...*corev1.Node) *bench {
	t.Helper()
	return newBenchOf(t, simulator.ExampleWorld(), "k8s-owner", nodes...)
}

// newBenchOf works with a CloudStack in which owner is a user of the account with the nodes' VMs.
func newBenchOf(t *testing.T, world *simulator.World, owner string, nodes ...*corev1.Node) *bench {
	t.Helper()
	sim, err := simulator.New(simulator.Options{World: world})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { server.Close(); sim.Close() })
	b := &bench{sim: sim, url: server.URL + "/client/api"}
	b.clock = stepclock.New(func() { b.controller(t.Context()) })
	b.vms = map[string]string{}
	api, secret, ok := sim.Keys(owner)
	require.True(t, ok)
	cfg := cloudconfig.Default()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey = b.url, api, secret
	client, err := cloudstack.NewClient(&cfg)
	require.NoError(t, err)
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	for i := range vms {
		b.vms[vms[i].Name] = vms[i].ID
	}
	sim.Ledger().Reset()
	objects := make([]kruntime.Object, 0, len(nodes))
	for _, n := range nodes {
		objects = append(objects, n)
	}
	b.kube = fake.NewClientset(objects...)
	discovery, ok := b.kube.Discovery().(*discoveryfake.FakeDiscovery)
	require.True(t, ok)
	discovery.FakedServerVersion = &version.Info{GitVersion: "v1.37.1", Major: "1", Minor: "37"}
	b.helm = &fakeHelm{bench: b}
	b.verdicts = func(nodes []corev1.Node) []kubelet.NodeVerdict {
		var out []kubelet.NodeVerdict
		for i := range nodes {
			out = append(out, kubelet.NodeVerdict{Node: nodes[i].Name, Verdict: kubelet.External})
		}
		return out
	}
	return b
}

// controller initialises tainted nodes while it runs.
func (b *bench) controller(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return
	}
	list, err := b.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		n := &list.Items[i]
		before := len(n.Spec.Taints)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key })
		if len(n.Spec.Taints) == before {
			continue
		}
		n.Spec.ProviderID = "external-cloudstack://" + b.vms[n.Name]
		n.Labels[corev1.LabelTopologyZone] = "zone-1"
		n.Labels[corev1.LabelInstanceTypeStable] = "Small_Instance"
		_, _ = b.kube.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	}
}

func aNode(name, ip string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

var byKubelet = corev1.Taint{Key: taint.Key, Value: "true", Effect: corev1.TaintEffectNoSchedule}

// demoNodes are the example world's: one new, two that were there before.
func demoNodes() []*corev1.Node {
	cp := aNode("demo-cp-1", "10.1.1.11")
	cp.Labels["node-role.kubernetes.io/control-plane"] = ""
	return []*corev1.Node{
		cp, aNode("demo-worker-1", "10.1.1.21"), aNode("demo-worker-2", "10.1.1.22", byKubelet),
	}
}

// fakeHelm keeps one release, and starts the controller with it.
type fakeHelm struct {
	bench   *bench
	release *helm.Release
	applied int
	fail    error
	real    bool                                   // renders the chart
	tests   []string                               // manifests of the chart's tests
	pods    func(*appsv1.Deployment) []*corev1.Pod // what the Deployment becomes; nil = ready at once
}

func (h *fakeHelm) Get(context.Context, string) (*helm.Release, error) {
	if h.release == nil {
		return nil, helm.ErrReleaseNotFound
	}
	return h.release, nil
}

func (h *fakeHelm) Template(ctx context.Context, r helm.ApplyRequest) (string, error) {
	if h.real {
		return helm.Template(ctx, "kube-system", helm.ApplyRequest{Name: r.Name, Chart: r.Chart, Values: r.Values, KubeVersion: "v1.37.1"})
	}
	if len(r.Values) == 0 {
		r.Values = map[string]any{}
	}
	b, err := json.Marshal(r.Values)
	return "manifest " + r.Chart.Version() + string(b), err
}

func (h *fakeHelm) Apply(ctx context.Context, r helm.ApplyRequest) (_ *helm.Release, err error) {
	h.applied++
	if h.fail != nil {
		return nil, h.fail
	}
	manifest, err := h.Template(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.release.Status = "failed"
		}
	}()
	h.release = &helm.Release{
		Name: r.Name, Namespace: "kube-system", Revision: h.applied, Status: "deployed",
		ChartVersion: r.Chart.Version(), AppVersion: r.Chart.AppVersion(), Manifest: manifest, Values: r.Values, Tests: h.tests,
	}
	replicas := int32(2)
	labels := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": r.Name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloudstack-cloud-controller-manager", Labels: labels, Generation: 1},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "cloud-controller-manager", Args: []string{"--leader-elect=true"}}},
		}}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2, ReadyReplicas: 2},
	}
	if h.pods != nil {
		for _, p := range h.pods(d) {
			p.Namespace, p.Labels = "kube-system", labels
			if _, err := h.bench.kube.CoreV1().Pods("kube-system").Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return nil, err
			}
		}
	}
	_, err = h.bench.kube.AppsV1().Deployments("kube-system").Create(ctx, d, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	err = nil
	h.bench.mu.Lock()
	h.bench.running = d.Status.AvailableReplicas > 0
	h.bench.mu.Unlock()
	return h.release, nil
}

func (b *bench) installer(t *testing.T, o Options) *Installer {
	t.Helper()
	chart, err := helm.Embedded()
	require.NoError(t, err)
	if o.Chart == nil {
		o.Chart = chart
	}
	return &Installer{
		Options: o, Cluster: cluster.NewForTest(b.kube), Helm: b.helm, Prompt: prompt.NewRefusing(),
		Progress: report.NewProgress(&b.err, report.Style{}, b.clock), Out: &b.out, ErrOut: &b.err, Clock: b.clock,
		Connect: func(cfg *cloudstack.Config) (CloudStack, error) { return cloudstack.NewClient(cfg) },
		Login: func(ctx context.Context, cfg *cloudstack.Config, user, password, domain string) (AdminSession, error) {
			return cloudstack.Login(ctx, cfg, user, password, domain)
		},
		Required: provider.RequiredCommands, Optional: provider.OptionalCommands,
		Checks: func(_ context.Context, env *check.Env, sel check.Selection, _ func(check.Result)) check.Report {
			if env.CloudStack == nil && env.NoCloudStack == "" {
				t.Error("checks without CloudStack must say why")
			}
			r := check.Report{Phase: sel.Phase, Summary: check.Summary{OK: 1}}
			for _, f := range b.failing {
				if !slices.Contains(sel.Skip, f.Code) {
					r.Checks = append(r.Checks, f)
					r.Summary.Failed++
				}
			}
			return r
		},
		Kubelets: func(_ context.Context, _ *cluster.Cluster, nodes []corev1.Node) []kubelet.NodeVerdict {
			return b.verdicts(nodes)
		},
	}
}

func (b *bench) admin() Options {
	return Options{
		Credentials: CredentialOptions{APIURL: b.url, AdminUser: "admin", AdminPassword: "password", Account: "k8s"},
		Zone:        "zone-1", Yes: true, Values: map[string]any{"hostNetwork": false},
		ValueFlags: []string{"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)"},
	}
}

func (b *bench) keys(t *testing.T) Options {
	t.Helper()
	api, secret, ok := b.sim.Keys("k8s-owner")
	require.True(t, ok)
	return Options{Credentials: CredentialOptions{APIURL: b.url, Keys: Keys{api, secret}}, Yes: true}
}

// secrets must be in no output.
func (b *bench) requireNoSecrets(t *testing.T, more ...string) {
	t.Helper()
	secret, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), credentials.SecretName, metav1.GetOptions{})
	words := more
	if err == nil {
		cfg, err := cloudconfig.Parse(bytes.NewReader(secret.Data[credentials.SecretKey]))
		require.NoError(t, err)
		words = append(words, cfg.APIKey, cfg.SecretKey)
	}
	for _, w := range words {
		require.NotContains(t, b.out.String()+b.err.String(), w)
	}
}

func (b *bench) initialised(t *testing.T) int {
	t.Helper()
	list, err := b.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	n := 0
	for i := range list.Items {
		if taint.Initialised(&list.Items[i]) {
			n++
		}
	}
	return n
}
