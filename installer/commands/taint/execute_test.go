// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/stepclock"
)

// world is an API server with a controller that initialises tainted nodes,
// except the broken ones.
type world struct {
	kube  *fake.Clientset
	clock *stepclock.Clock

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
	w := &world{kube: fake.NewClientset(objects...), broken: broken}
	w.clock = stepclock.New(func() { w.controller(t) })
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
	return w
}

// controller initialises what is tainted, as the cloud-node-controller does.
func (w *world) controller(t *testing.T) {
	t.Helper()
	list, err := w.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Errorf("listing the nodes: %v", err)
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
		if _, err := w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
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
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
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
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
	e := &Executor{Kube: w.kube, Clock: w.clock}
	err := e.Canary(t.Context(), p)
	var late *report.Error
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
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
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
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
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
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
	e := &Executor{Kube: w.kube, Clock: w.clock}
	var blocked *report.Error
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
	require.NoError(t, e.Canary(t.Context(), NewPlan(Facts{Nodes: nodes, VMs: vms})))
	require.Equal(t, 3, lost)
}
