// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/internal/stepclock"
	"github.com/csccm/csccm/pkg/cloudstack"
)

type lookup []cloudstack.VirtualMachine

func (l lookup) ByID(id string) (cloudstack.VirtualMachine, bool) {
	for i := range l {
		if l[i].ID == id {
			return l[i], true
		}
	}
	return cloudstack.VirtualMachine{}, false
}

func (l lookup) ByName(name string) []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for i := range l {
		if strings.EqualFold(l[i].Name, name) {
			out = append(out, l[i])
		}
	}
	return out
}

func vm(name, id, ip string) cloudstack.VirtualMachine {
	return cloudstack.VirtualMachine{
		ID: id, Name: name, State: cloudstack.VMRunning, ZoneName: "zone-1", ServiceOfferingName: "Small Instance",
		NICs: []cloudstack.NIC{{Default: true, IPv4: ip}},
	}
}

const (
	id1 = "11111111-1111-1111-1111-111111111111"
	id2 = "22222222-2222-2222-2222-222222222222"
	id3 = "33333333-3333-3333-3333-333333333333"
)

var cloud = lookup{vm("cp-1", id1, "10.1.1.11"), vm("w-1", id2, "10.1.1.21"), vm("w-2", id3, "10.1.1.22")}

type change func(*corev1.Node)

func aNode(name, ip string, changes ...change) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range changes {
		c(&n)
	}
	return n
}

func controlPlane(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }
func notReady(n *corev1.Node)     { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func done(n *corev1.Node) {
	n.Spec.ProviderID = "external-cloudstack://" + id2
	n.Labels[corev1.LabelTopologyZone] = "zone-1"
	n.Labels[corev1.LabelInstanceTypeStable] = "Small_Instance"
}

func tainted(effect corev1.TaintEffect) change {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: Key, Value: "true", Effect: effect})
	}
}
func providerID(id string) change { return func(n *corev1.Node) { n.Spec.ProviderID = id } }
func label(k, v string) change    { return func(n *corev1.Node) { n.Labels[k] = v } }
func annotation(k, v string) change {
	return func(n *corev1.Node) { n.Annotations = map[string]string{k: v} }
}
func otherTaint(key string) change {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}
func gates(p *Plan) (gates []string) {
	for _, pr := range p.Problems {
		gates = append(gates, pr.Gate+" "+pr.Node)
	}
	return gates
}
func states(p *Plan) map[string]State {
	m := map[string]State{}
	for _, it := range p.Items {
		m[it.Name] = it.State
	}
	return m
}
func notes(p *Plan, node string) []string {
	for _, it := range p.Items {
		if it.Name == node {
			return it.Notes
		}
	}
	return nil
}

func TestPlan(t *testing.T) {
	t.Parallel()
	cp, w1, w2 := aNode("cp-1", "10.1.1.11", controlPlane), aNode("w-1", "10.1.1.21"), aNode("w-2", "10.1.1.22")
	tests := map[string]struct {
		nodes  []corev1.Node
		vms    lookup
		others []string
		canary string
		rest   []string
		gates  []string
		states map[string]State
	}{
		"worker first, control plane last": {
			nodes: []corev1.Node{cp, w2, w1}, canary: "w-1", rest: []string{"w-2", "cp-1"},
			states: map[string]State{"cp-1": StateNeeds, "w-1": StateNeeds, "w-2": StateNeeds},
		},
		"control plane alone is its own canary": {nodes: []corev1.Node{cp}, canary: "cp-1", rest: []string{}},
		"nothing to do": {
			nodes:  []corev1.Node{aNode("w-1", "10.1.1.21", done), aNode("w-2", "10.1.1.22", tainted(corev1.TaintEffectNoSchedule))},
			states: map[string]State{"w-1": StateDone, "w-2": StateWaiting},
		},
		"provider ID by the kubelet, but no labels": {
			nodes: []corev1.Node{aNode("w-1", "10.1.1.21", providerID("cloudstack:///"+id2))}, canary: "w-1", rest: []string{},
		},
		"foreign provider ID is left alone": {
			nodes:  []corev1.Node{aNode("w-1", "10.1.1.21", providerID("k3s://w-1")), w2},
			canary: "w-2", rest: []string{}, states: map[string]State{"w-1": StateForeign, "w-2": StateNeeds},
		},
		"NoExecute stops it": {
			nodes:  []corev1.Node{aNode("w-1", "10.1.1.21", tainted(corev1.TaintEffectNoExecute)), w2},
			canary: "w-2", rest: []string{}, gates: []string{"no-execute w-1"},
		},
		"NoExecute stops it even with nothing to taint": {
			nodes: []corev1.Node{aNode("w-1", "10.1.1.21", tainted(corev1.TaintEffectNoExecute))}, gates: []string{"no-execute w-1"},
		},
		"not ready": {nodes: []corev1.Node{w1, aNode("w-2", "10.1.1.22", notReady)}, canary: "w-1", rest: []string{"w-2"}, gates: []string{"ready w-2"}},
		"not ready because it waits": {
			nodes: []corev1.Node{w1, aNode("w-2", "10.1.1.22", notReady, tainted(corev1.TaintEffectNoSchedule))}, canary: "w-1", rest: []string{},
		},
		"no VM": {nodes: []corev1.Node{w1, aNode("stranger", "10.9.9.9")}, canary: "stranger", rest: []string{"w-1"}, gates: []string{"vm stranger"}},
		"two VMs of the name": {
			nodes: []corev1.Node{w1}, vms: lookup{vm("w-1", id2, "10.1.1.21"), vm("W-1", id3, "10.1.1.22")},
			canary: "w-1", rest: []string{}, gates: []string{"vm w-1"},
		},
		"the InternalIP would change": {
			nodes: []corev1.Node{aNode("w-1", "192.168.0.5")}, canary: "w-1", rest: []string{}, gates: []string{"internal-ip w-1"},
		},
		"a node without InternalIP gets its first": {
			nodes:  []corev1.Node{aNode("w-1", "", func(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[1:] })},
			canary: "w-1", rest: []string{},
		},
		"node IP that the VM has not": {
			nodes:  []corev1.Node{aNode("w-1", "10.1.1.21", annotation("alpha.kubernetes.io/provided-node-ip", "10.1.1.99"))},
			canary: "w-1", rest: []string{}, gates: []string{"node-ip w-1"},
		},
		"another controller": {nodes: []corev1.Node{w1}, others: []string{"Deployment kube-system/other"}, canary: "w-1", rest: []string{}, gates: []string{"other-controller "}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vms := cloud
			if tc.vms != nil {
				vms = tc.vms
			}
			p := NewPlan(Facts{Nodes: tc.nodes, VMs: vms, OtherControllers: tc.others})
			require.Equal(t, tc.canary, p.Canary)
			require.Equal(t, tc.rest, p.Rest)
			require.Equal(t, tc.gates, gates(p))
			if tc.states != nil {
				require.Equal(t, tc.states, states(p))
			}
			for _, pr := range p.Problems {
				require.NotEmpty(t, pr.Text)
				require.NotEmpty(t, pr.Remedy)
			}
			require.Equal(t, p, NewPlan(Facts{Nodes: tc.nodes, VMs: vms, OtherControllers: tc.others}), "same facts, same plan")
		})
	}
}

func TestPlanNotesChangedLabels(t *testing.T) {
	t.Parallel()
	p := NewPlan(Facts{Nodes: []corev1.Node{aNode("w-1", "10.1.1.21", label(corev1.LabelTopologyZone, "old"))}, VMs: cloud})
	require.Empty(t, p.Problems)
	require.Len(t, notes(p, "w-1"), 1)
	require.Contains(t, notes(p, "w-1")[0], "changes from old to zone-1")
}

// world is an API server with a controller that initialises tainted nodes,
// except the broken ones.
type world struct {
	kube  *fake.Clientset
	clock *clocktesting.FakeClock

	mu     sync.Mutex
	log    []string // "taint w-1", "init w-1", "untaint w-1"
	broken []string
	busy   int // nodes tainted and not yet initialised
	most   int // at the same time
}

func newWorld(t *testing.T, broken []string, nodes ...corev1.Node) *world {
	t.Helper()
	objects := make([]kruntime.Object, len(nodes))
	for i := range nodes {
		objects[i] = &nodes[i]
	}
	w := &world{kube: fake.NewClientset(objects...), clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), broken: broken}
	w.kube.PrependReactor("patch", "nodes", func(a ktesting.Action) (bool, kruntime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		patch, _ := a.(ktesting.PatchAction)
		body := string(patch.GetPatch())
		switch {
		case strings.Contains(body, `"remove"`):
			w.log = append(w.log, "untaint "+patch.GetName())
		case strings.Contains(body, "uninitialized"):
			w.log = append(w.log, "taint "+patch.GetName())
			w.busy++
			w.most = max(w.most, w.busy)
		}
		return false, nil, nil
	})
	stepclock.Run(t, w.clock, pollInterval, func(ctx context.Context) { w.controller(ctx, t) })
	return w
}

// controller initialises what is tainted, as the cloud-node-controller does.
func (w *world) controller(ctx context.Context, t *testing.T) {
	list, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		n := &list.Items[i]
		if !hasKey(n) || slices.Contains(w.broken, n.Name) {
			continue
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == Key })
		done(n)
		w.mu.Lock()
		w.log = append(w.log, "init "+n.Name)
		w.busy--
		w.mu.Unlock()
		// Not under mu: the clientset calls reactors, which take mu, under a lock of its own.
		if _, err := w.kube.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
			t.Errorf("updating %s: %v", n.Name, err)
		}
	}
}

func (w *world) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return n
}

func threeNodes() []corev1.Node {
	return []corev1.Node{aNode("cp-1", "10.1.1.11", controlPlane), aNode("w-1", "10.1.1.21", otherTaint("dedicated")), aNode("w-2", "10.1.1.22")}
}

func TestExecuteOneByOne(t *testing.T) {
	t.Parallel()
	nodes := threeNodes()
	w := newWorld(t, nil, nodes...)
	p := NewPlan(Facts{Nodes: nodes, VMs: cloud})
	var reported []string
	e := &Executor{Kube: w.kube, Clock: w.clock, Report: func(n string, _ time.Duration) { reported = append(reported, n) }}
	require.NoError(t, e.Canary(t.Context(), p))
	require.Equal(t, []string{"w-1"}, reported)
	require.Empty(t, w.node(t, "w-2").Spec.Taints, "nothing else is touched before the canary is ready")
	require.NoError(t, e.Rest(t.Context(), p))
	require.Equal(t, []string{"w-1", "w-2", "cp-1"}, reported)
	require.Equal(t, []string{"taint w-1", "init w-1", "taint w-2", "init w-2", "taint cp-1", "init cp-1"}, w.log)
	require.Equal(t, 1, w.most)
	n := w.node(t, "w-1")
	require.Len(t, n.Spec.Taints, 1, "the other taint stays")
	require.Equal(t, "dedicated", n.Spec.Taints[0].Key)
	require.NotEmpty(t, n.Annotations[MarkAnnotation])
}

func TestExecuteInParallel(t *testing.T) {
	t.Parallel()
	var nodes []corev1.Node
	vms := lookup{}
	for _, c := range "abcdefgh" {
		name := "n-" + string(c)
		ip := "10.1.1." + string('0'+(c-'a')+1)
		nodes = append(nodes, aNode(name, ip))
		vms = append(vms, vm(name, strings.Repeat(string(c), 8)+id1[8:], ip))
	}
	w := newWorld(t, nil, nodes...)
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
	e := &Executor{Kube: w.kube, Clock: w.clock, MaxParallel: 3}
	require.NoError(t, e.Canary(t.Context(), p))
	require.NoError(t, e.Rest(t.Context(), p))
	require.LessOrEqual(t, w.most, 3)
	for _, n := range nodes {
		require.True(t, Initialised(w.node(t, n.Name)), n.Name)
	}
}

// A controller that does not initialise the canary: its taint goes, the other
// nodes were never touched.
func TestExecuteTimeOut(t *testing.T) {
	t.Parallel()
	nodes := threeNodes()
	w := newWorld(t, []string{"w-1"}, nodes...)
	p := NewPlan(Facts{Nodes: nodes, VMs: cloud})
	e := &Executor{Kube: w.kube, Clock: w.clock}
	err := e.Canary(t.Context(), p)
	var late *NotInitialisedError
	require.ErrorAs(t, err, &late)
	require.EqualError(t, err, "node w-1 was not initialised within 1m0s: it still has the taint node.cloudprovider.kubernetes.io/uninitialized")
	require.Equal(t, 3, late.ExitCode())
	require.Equal(t, []string{"taint w-1", "untaint w-1"}, w.log)
	n := w.node(t, "w-1")
	require.Equal(t, []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}, n.Spec.Taints)
	require.NotContains(t, n.Annotations, MarkAnnotation)
}

// The kubelet's own taint is waited for, but never taken back.
func TestExecuteLeavesForeignTaint(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{aNode("w-1", "10.1.1.21")}
	p := NewPlan(Facts{Nodes: nodes, VMs: cloud})
	nodes[0].Spec.Taints = []corev1.Taint{{Key: Key, Value: "true", Effect: corev1.TaintEffectNoSchedule}} // set since
	w := newWorld(t, []string{"w-1"}, nodes...)
	e := &Executor{Kube: w.kube, Clock: w.clock}
	require.Error(t, e.Canary(t.Context(), p))
	require.Empty(t, w.log)
	require.Len(t, w.node(t, "w-1").Spec.Taints, 1)
}

func TestExecuteInterrupted(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{aNode("w-1", "10.1.1.21")}
	p := NewPlan(Facts{Nodes: nodes, VMs: cloud})
	w := newWorld(t, []string{"w-1"}, nodes...)
	why := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	w.kube.PrependReactor("get", "nodes", func(ktesting.Action) (bool, kruntime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if slices.Contains(w.log, "taint w-1") {
			cancel(why)
		}
		return false, nil, nil
	})
	e := &Executor{Kube: w.kube, Clock: w.clock}
	require.ErrorIs(t, e.Canary(ctx, p), why)
	require.Equal(t, []string{"taint w-1", "untaint w-1"}, w.log)
	require.Empty(t, w.node(t, "w-1").Spec.Taints)
}

func TestExecuteRefusesBlockedPlan(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{aNode("w-1", "10.1.1.21"), aNode("w-2", "10.1.1.22", notReady)}
	w := newWorld(t, nil, nodes...)
	p := NewPlan(Facts{Nodes: nodes, VMs: cloud})
	e := &Executor{Kube: w.kube, Clock: w.clock}
	var blocked *BlockedError
	require.ErrorAs(t, e.Canary(t.Context(), p), &blocked)
	require.ErrorAs(t, e.Rest(t.Context(), p), &blocked)
	require.Empty(t, w.log)
	require.Contains(t, blocked.Error(), "node w-2 is not Ready")
}

// Somebody changes the node between read and patch: read again, patch again.
func TestExecuteRetriesLostRace(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{aNode("w-1", "10.1.1.21")}
	w := newWorld(t, nil, nodes...)
	var lost int
	w.kube.PrependReactor("patch", "nodes", func(ktesting.Action) (bool, kruntime.Object, error) {
		if lost++; lost < 3 {
			return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "w-1", nil)
		}
		return false, nil, nil
	})
	e := &Executor{Kube: w.kube, Clock: w.clock}
	require.NoError(t, e.Canary(t.Context(), NewPlan(Facts{Nodes: nodes, VMs: cloud})))
	require.Equal(t, 3, lost)
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	nodes := threeNodes()
	nodes[0].Annotations = map[string]string{"anything": "may hold a secret"}
	s := TakeSnapshot(nodes, "https://api", time.Unix(1_700_000_000, 0))
	dir := t.TempDir() + "/a/b"
	path, err := s.Write(dir)
	require.NoError(t, err)
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(body), "may hold a secret")
	var back Snapshot
	require.NoError(t, json.Unmarshal(body, &back))
	require.Empty(t, cmp.Diff(*s, back))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
