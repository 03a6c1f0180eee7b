// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/pkg/node"
)

// The steps of CKS are played here on the content of an ISO, in the order of docs/cks.md: what has been applied, what
// can be scheduled, and whether what CKS waits for ever comes. There is no kubelet. What is modelled: taints and
// tolerations, the network of a node, images that are on the ISO (nodes have no internet), Secrets that Pods mount.

type cksNode struct {
	name       string
	control    bool
	ready      bool
	external   bool // taint until a controller initialises it
	providerID bool
}

func (n *cksNode) taints() (out []corev1.Taint) {
	add := func(is bool, key string) {
		if is {
			out = append(out, corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule})
		}
	}
	if n.control {
		out = append(out, corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule})
	}
	add(!n.ready, corev1.TaintNodeNotReady)
	add(n.external && !n.providerID, node.TaintKey)
	return out
}

type workload struct {
	kind, namespace, name string
	spec                  corev1.PodSpec
	on                    []string // nodes with a running Pod
}

// cluster is a cluster that CKS makes.
type cluster struct {
	disk      testenv.Files // the ISO; nil when it is detached
	external  bool          // what the kubelets' drop-in says
	copied    testenv.Files // /tmp/k8sconfigscripts and /opt/provider of the first control node
	images    []string
	nodes     []*cksNode
	workloads []*workload
	secrets   []string
	trace     []string
}

// setup is setup-kube-system on one node.
func (c *cluster) setup() error {
	for _, pattern := range needed {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.disk)), func(p string) bool { ok, _ := path.Match(pattern, p); return ok }) {
			return fmt.Errorf("setup-kube-system: no %s", pattern)
		}
	}
	c.external = strings.Contains(string(c.disk["10-kubeadm.conf"]), "--cloud-provider=external")
	c.copied = testenv.Files{}
	files := fstest.MapFS{}
	for p, body := range c.disk {
		files[p] = &fstest.MapFile{Data: body}
		if path.Ext(p) == ".yaml" && path.Dir(p) == "." {
			c.copied[p] = body
		}
	}
	for p := range c.disk {
		if path.Dir(p) == imageFolder {
			c.images = append(c.images, imagesOfArchive(files, p)...)
		}
	}
	return nil
}

func (c *cluster) join(name string, control bool) {
	c.nodes = append(c.nodes, &cksNode{name: name, control: control, external: c.external})
}

// apply is kubectl apply -f.
func (c *cluster) apply(manifest []byte) error {
	objects, err := diff.Parse(string(manifest))
	if err != nil {
		return err
	}
	for i := range objects {
		o := &objects[i]
		if o.GetKind() == "Secret" {
			c.secrets = append(c.secrets, o.GetNamespace()+"/"+o.GetName())
		}
		if spec, is := podSpec(o); is {
			c.workloads = append(c.workloads, &workload{kind: o.GetKind(), namespace: o.GetNamespace(), name: o.GetName(), spec: spec})
		}
	}
	return nil
}

func podSpec(o *unstructured.Unstructured) (spec corev1.PodSpec, is bool) {
	raw, is, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	return spec, is && runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec) == nil
}

// settle lets everything run that can.
func (c *cluster) settle() {
	for changed := true; changed; {
		changed = false
		for _, w := range c.workloads {
			for _, n := range c.nodes {
				if slices.Contains(w.on, n.name) || w.kind != "DaemonSet" && len(w.on) > 0 || !c.runs(w, n) {
					continue
				}
				w.on, changed = append(w.on, n.name), true
				n.ready = n.ready || w.name == "calico-node"
			}
		}
		for _, w := range c.workloads {
			if len(w.on) == 0 || !strings.Contains(w.name, "cloudstack-cloud-controller-manager") {
				continue
			}
			adopts := slices.Contains(w.spec.Containers[0].Args, "--adopt-nodes=true")
			for _, n := range c.nodes {
				if !n.providerID && (n.external || adopts) {
					n.providerID, changed = true, true
				}
			}
		}
	}
}

func (c *cluster) runs(w *workload, n *cksNode) bool {
	for _, taint := range n.taints() {
		own := w.kind == "DaemonSet" && taint.Key == corev1.TaintNodeNotReady // the DaemonSet controller adds it
		tolerates := slices.ContainsFunc(w.spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &taint, false)
		})
		if !own && !tolerates {
			return false
		}
	}
	for _, v := range w.spec.Volumes {
		if v.Secret != nil && !slices.Contains(c.secrets, w.namespace+"/"+v.Secret.SecretName) {
			return false
		}
	}
	return (w.spec.HostNetwork || n.ready) &&
		!slices.ContainsFunc(w.spec.Containers, func(x corev1.Container) bool { return !slices.Contains(c.images, canonical(x.Image)) })
}

// running reports whether "kubectl get pods" shows a Pod of the namespace with such a name as Running; any namespace for "".
func (c *cluster) running(namespace, name string) bool {
	return slices.ContainsFunc(c.workloads, func(w *workload) bool {
		return (namespace == "" || w.namespace == namespace) && strings.Contains(w.name, name) && len(w.on) > 0
	})
}

// wait settles, and says what there is when CKS looks.
func (c *cluster) wait(what string, comes func() bool) error {
	c.settle()
	var pods, nodes []string
	for _, w := range c.workloads {
		if len(w.on) > 0 {
			pods = append(pods, w.name)
		}
	}
	for _, n := range c.nodes {
		text := n.name
		if n.ready {
			text += " Ready"
		}
		if n.providerID {
			text += " with provider ID"
		}
		nodes = append(nodes, text)
	}
	c.trace = append(c.trace, fmt.Sprintf("%s: %s; %s", what, strings.Join(nodes, ", "), strings.Join(pods, ", ")))
	if !comes() {
		return fmt.Errorf("CKS waits for ever: %s", what)
	}
	return nil
}

// deployProvider is what the management server does over ssh: deploy-provider, and if that fails, deploy-cloudstack-secret
// and deploy-provider once more.
func (c *cluster) deployProvider() error {
	for range 2 {
		if slices.ContainsFunc(c.workloads, func(w *workload) bool { return strings.Contains(w.namespace+" "+w.name, "cloud-controller-manager") }) {
			return nil
		}
		if slices.Contains(c.secrets, "kube-system/cloudstack-secret") {
			return c.apply(c.copied[providerFile])
		}
		c.secrets = append(c.secrets, "kube-system/cloudstack-secret")
	}
	return errors.New("deploy-provider failed")
}

// make plays the steps until CKS says Running.
func (c *cluster) make(headlamp bool) error {
	if err := c.setup(); err != nil { // alike on each node
		return err
	}
	c.join("control", true) // kubeadm init, with its addons
	coreDNS := &workload{kind: "Deployment", namespace: "kube-system", name: "coredns"}
	coreDNS.spec.Tolerations = []corev1.Toleration{
		{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
		{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
	}
	c.workloads = append(c.workloads, coreDNS)
	for _, p := range []string{"network.yaml", "dashboard.yaml"} {
		if p == "dashboard.yaml" && headlamp && c.copied["headlamp.yaml"] != nil {
			p = "headlamp.yaml"
		}
		if c.copied[p] == nil {
			return fmt.Errorf("deploy-kube-system: no %s", p)
		}
		if err := c.apply(c.copied[p]); err != nil {
			return err
		}
	}
	c.join("worker", false)
	if err := c.wait("nodes are Ready", func() bool {
		return !slices.ContainsFunc(c.nodes, func(n *cksNode) bool { return !n.ready })
	}); err != nil {
		return err
	}
	c.disk = nil // the ISO is detached
	if err := c.wait("dashboard runs", func() bool {
		return headlamp && c.running("kube-system", "headlamp") || c.running("kubernetes-dashboard", "kubernetes-dashboard")
	}); err != nil {
		return err
	}
	return c.deployProvider()
}

func TestStepsOfCKS(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	headlamp := strings.NewReplacer("secretName: kubernetes-dashboard", "secretName: headlamp", "namespace: kubernetes-dashboard", "namespace: kube-system", "name: kubernetes-dashboard", "name: headlamp")
	for name, c := range map[string]struct {
		from     testenv.Files
		headlamp bool // a release of CloudStack that knows Headlamp
		want     []string
	}{
		"default": {from: upstream, want: []string{
			"nodes are Ready: control Ready, worker Ready; coredns, calico-node, calico-kube-controllers, kubernetes-dashboard, dashboard-metrics-scraper",
			"dashboard runs: control Ready, worker Ready; coredns, calico-node, calico-kube-controllers, kubernetes-dashboard, dashboard-metrics-scraper",
			"Running: control Ready with provider ID, worker Ready with provider ID; coredns, calico-node, calico-kube-controllers, " +
				"kubernetes-dashboard, dashboard-metrics-scraper, cloudstack-cloud-controller-manager",
		}},
		"Headlamp": {
			from: upstream.With(testenv.Files{"headlamp.yaml": []byte(headlamp.Replace(string(upstream["dashboard.yaml"])))}), headlamp: true,
			want: []string{
				"nodes are Ready: control Ready, worker Ready; coredns, calico-node, calico-kube-controllers, headlamp, dashboard-metrics-scraper",
				"dashboard runs: control Ready, worker Ready; coredns, calico-node, calico-kube-controllers, headlamp, dashboard-metrics-scraper",
				"Running: control Ready with provider ID, worker Ready with provider ID; coredns, calico-node, calico-kube-controllers, " +
					"headlamp, dashboard-metrics-scraper, cloudstack-cloud-controller-manager",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, c.from.ISO(t))
			_, files := made(t, o)
			env := &cluster{disk: files}
			require.NoError(t, env.make(c.headlamp))
			require.NoError(t, env.wait("Running", func() bool { return true }))
			require.Equal(t, c.want, env.trace)

			// CKS scales the cluster: the node gets a provider ID too, and CKS leaves the controller alone.
			before := len(env.workloads)
			env.join("worker-2", false)
			require.NoError(t, env.deployProvider())
			require.Len(t, env.workloads, before)
			env.settle()
			require.True(t, env.nodes[2].ready && env.nodes[2].providerID)
		})
	}
}

// The kubelet's flag alone is a deadlock: the provider comes after the dashboard, and the dashboard after the provider. The
// manifest cannot come earlier either, because CKS then finds its Pod and makes no Secret.
func TestStepsOfCKSThatDeadlock(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	o := options(t, upstream.ISO(t))
	_, files := made(t, o)
	env := &cluster{disk: files.With(testenv.Files{"10-kubeadm.conf": []byte("ExecStart=/opt/bin/kubelet --cloud-provider=external\n")})}
	require.EqualError(t, env.make(false), "CKS waits for ever: dashboard runs")

	early := slices.Concat(files["network.yaml"], []byte("---\n"), files["provider.yaml"])
	env = &cluster{disk: files.With(testenv.Files{"network.yaml": early})}
	require.NoError(t, env.make(false))
	require.NoError(t, env.wait("Running", func() bool { return true }))
	require.False(t, env.running("kube-system", "cloud-controller-manager"))

	// Without --from's images a cluster without internet has no network.
	env = &cluster{disk: upstream.With(testenv.Files{"docker/node:v3.30.0.tar": nil})}
	require.EqualError(t, env.make(false), "CKS waits for ever: nodes are Ready")
}

// The chart's own Pods start where nothing is initialised: hostNetwork, and every taint of a new node tolerated.
func TestTheProviderStartsOnNewNodes(t *testing.T) {
	t.Parallel()
	o := options(t, "")
	manifest, err := Provider(t.Context(), o.Chart, nil, "v1.33.1")
	require.NoError(t, err)
	objects, err := diff.Parse(manifest)
	require.NoError(t, err)
	i := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	spec, is := podSpec(&objects[i])
	require.True(t, is && spec.HostNetwork)
	env := &cluster{secrets: []string{"kube-system/cloudstack-secret"}, images: []string{canonical(spec.Containers[0].Image)}}
	w := &workload{kind: "Deployment", namespace: "kube-system", spec: spec}
	require.True(t, env.runs(w, &cksNode{control: true, external: true}))
}
