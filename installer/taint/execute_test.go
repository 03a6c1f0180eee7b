// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/stepclock"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
)

// env is an API server with a controller that initialises tainted nodes, except the broken ones, and csccm beside it.
type env struct {
	*Executor
	t    *testing.T
	kube *fake.Clientset

	mu     sync.Mutex
	log    []string // "taint w-1", "init w-1", "untaint w-1"
	broken string
	busy   int      // nodes that are tainted and not yet initialised
	most   int      // maximum of busy
	noted  []string // notes of the steps of initialise
}

func newEnv(t *testing.T, nodes ...corev1.Node) *env {
	t.Helper()
	e := &env{t: t, kube: fake.NewClientset()}
	for i := range nodes {
		require.NoError(t, e.kube.Tracker().Add(&nodes[i]))
	}

	e.Executor = &Executor{
		Env: &engine.Env{
			Cluster:  fakecluster.New(e.kube),
			Clock:    stepclock.New(e.controller),
			Progress: report.NoProgress(),
			Out:      io.Discard,
			Yes:      true,
		},
	}

	e.kube.PrependReactor("patch", "nodes", func(a ktesting.Action) (bool, kruntime.Object, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		patch, _ := a.(ktesting.PatchAction)
		if !strings.Contains(string(patch.GetPatch()), `"csccm.io/tainted-at":"`) {
			e.log = append(e.log, "untaint "+patch.GetName())
			return false, nil, nil
		}
		e.log = append(e.log, "taint "+patch.GetName())
		e.busy++
		e.most = max(e.most, e.busy)
		return false, nil, nil
	})

	return e
}

// controller initialises what is tainted, as the cloud-node-controller does.
func (e *env) controller() {
	nodes := e.all()
	for i := range nodes {
		n := &nodes[i]
		if !node.HasTaint(n) || n.Name == e.broken {
			continue
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == Key })
		done(n)
		e.mu.Lock()
		e.log = append(e.log, "init "+n.Name)
		e.busy--
		e.mu.Unlock()
		// Not under mu: the clientset calls reactors, which take mu, under a lock of its own.
		_, err := e.kube.CoreV1().Nodes().Update(e.t.Context(), n, metav1.UpdateOptions{})
		assert.NoError(e.t, err)
	}
}

func (e *env) node(name string) *corev1.Node {
	e.t.Helper()
	n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), name, metav1.GetOptions{})
	require.NoError(e.t, err)
	return n
}

func (e *env) all() []corev1.Node {
	e.t.Helper()
	list, err := e.kube.CoreV1().Nodes().List(e.t.Context(), metav1.ListOptions{})
	assert.NoError(e.t, err)
	return list.Items
}

func (e *env) initialise() error {
	plan := &engine.Plan{}
	err := e.Run(e.t.Context(), engine.Operation{Plan: plan, Steps: []engine.Step{{
		Do: func(ctx context.Context) error { return e.Initialise(ctx, planOf(e.all()...)) },
	}}})
	e.noted = plan.Done
	return err
}

// undo runs csccm taint --undo.
func (e *env) undo() engine.Plan {
	e.t.Helper()
	var out bytes.Buffer
	e.Out, e.Yes, e.Output = &out, true, "json"
	require.NoError(e.t, Undo(e.t.Context(), e.Env))
	var p engine.Plan
	require.NoError(e.t, json.Unmarshal(out.Bytes(), &p))
	return p
}

// three returns an env with a control plane node and two workers, one of which has a taint of another program.
func three(t *testing.T) *env {
	t.Helper()
	return newEnv(t, aNode("cp-1", "10.1.1.11", controlPlane), aNode("w-1", "10.1.1.21", otherTaint("dedicated")),
		aNode("w-2", "10.1.1.22"))
}

func TestExecuteOneByOne(t *testing.T) {
	t.Parallel()
	e := three(t)
	require.NoError(t, e.initialise())
	require.Equal(t, []string{"initialised w-1", "initialised w-2", "initialised cp-1"}, e.noted)
	require.Equal(t, []string{"taint w-1", "init w-1", "taint w-2", "init w-2", "taint cp-1", "init cp-1"}, e.log)
	require.Equal(t, 1, e.most)
	n := e.node("w-1")
	require.Len(t, n.Spec.Taints, 1, "the other taint stays")
	require.Equal(t, "dedicated", n.Spec.Taints[0].Key)
	require.NotEmpty(t, n.Annotations[MarkAnnotation])
}

func TestExecuteInParallel(t *testing.T) {
	t.Parallel()
	var nodes []corev1.Node
	var list []cloudstack.VirtualMachine
	for i := range 8 {
		name, ip := fmt.Sprintf("n-%d", i), fmt.Sprintf("10.1.1.%d", i+1)
		nodes = append(nodes, aNode(name, ip))
		list = append(list, vm(name, strings.Repeat(fmt.Sprint(i), 8)+id1[8:], ip))
	}
	e := newEnv(t, nodes...)
	e.MaxParallel = 3
	p := NewPlan(Facts{Nodes: nodes, VMs: lookup(list...)})
	require.NoError(t, e.Initialise(t.Context(), p))
	require.Equal(t, []string{"taint n-0", "init n-0"}, e.log[:2], "the canary is alone")
	require.LessOrEqual(t, e.most, 3)
	for _, n := range e.all() {
		require.True(t, Initialised(&n), n.Name)
	}
}

// If the controller does not initialise the first node, or after an interrupt (^C), the taint is removed again, and no
// other node has been changed.
func TestExecuteTimeOut(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{"time out": nil, "interrupt": errors.New("stop")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := three(t)
			e.broken = "w-1"
			ctx, cancel := context.WithCancelCause(t.Context())
			e.kube.PrependReactor("get", "nodes", func(ktesting.Action) (bool, kruntime.Object, error) {
				e.mu.Lock()
				defer e.mu.Unlock()
				if why != nil && slices.Contains(e.log, "taint w-1") {
					cancel(why)
				}
				return false, nil, nil
			})

			err := e.Initialise(ctx, planOf(e.all()...))
			if why == nil {
				why = report.CheckFailed(
					"look for the node's name in the controller's log, and run csccm doctor; no other node was "+
						"touched after it",
					"node w-1 was not initialised within 1m0s: it still has the taint %s", Key,
				)
			}

			require.Equal(t, why, err)
			require.Equal(t, []string{"taint w-1", "untaint w-1"}, e.log)
			n := e.node("w-1")
			require.Equal(t, []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}, n.Spec.Taints)
			require.NotContains(t, n.Annotations, MarkAnnotation)
			require.NotContains(t, n.Annotations, BeforeAnnotation)
		})
	}
}

// csccm waits for a node that has the kubelet's own taint, but never removes this taint.
func TestExecuteLeavesForeignTaint(t *testing.T) {
	t.Parallel()
	p := planOf(aNode("w-1", "10.1.1.21"))
	// somebody has set the taint since the plan
	e := newEnv(t, aNode("w-1", "10.1.1.21", tainted(corev1.TaintEffectNoSchedule)))
	e.broken = "w-1"
	require.Error(t, e.Initialise(t.Context(), p))
	require.Empty(t, e.log)
	require.Len(t, e.node("w-1").Spec.Taints, 1)
}

func TestExecuteRefusesBlockedPlan(t *testing.T) {
	t.Parallel()
	e := newEnv(t, aNode("w-1", "10.1.1.21"), aNode("w-2", "10.1.1.22", notReady))
	require.ErrorContains(t, e.initialise(), "node w-2 is not Ready")
	require.Empty(t, e.log)
}

// Somebody changes the node between read and patch: read again, patch again.
func TestExecuteRetriesLostRace(t *testing.T) {
	t.Parallel()
	e := newEnv(t, aNode("w-1", "10.1.1.21"))
	var lost int
	e.kube.PrependReactor("patch", "nodes", func(ktesting.Action) (bool, kruntime.Object, error) {
		if lost++; lost < 3 {
			return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), "w-1", nil)
		}
		return false, nil, nil
	})
	require.NoError(t, e.initialise())
	require.Equal(t, 3, lost)
}

// A node that is named is initialised again, and no other is touched.
func TestNamedNodeIsInitialisedAgain(t *testing.T) {
	t.Parallel()
	e := three(t)
	require.NoError(t, e.initialise())
	nodes := e.all()
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == "w-1" })
	nodes[i].Labels[corev1.LabelTopologyZone] = "mars"
	require.Empty(t, planOf(nodes...).Order)

	p := NewPlan(Facts{Nodes: nodes, VMs: vms, Only: []string{"w-1"}})
	require.Equal(t, []string{"w-1"}, p.Order)
	require.Len(t, p.Items, 1)
	require.Contains(t, p.Items[0].Notes[0], "label topology.kubernetes.io/zone changes from mars to zone-1")
}

func TestUndo(t *testing.T) {
	t.Parallel()
	e := newEnv(t, aNode("cp-1", "10.1.1.11", controlPlane),
		aNode("w-1", "10.1.1.21", otherTaint("dedicated"), label(corev1.LabelTopologyZone, "old")),
		aNode("w-2", "10.1.1.22"))
	require.NoError(t, e.Initialise(t.Context(), planOf(*e.node("w-1"))))
	require.Equal(t, "zone-1", e.node("w-1").Labels[corev1.LabelTopologyZone])
	require.NoError(t, e.one(t.Context(), "w-1"), "another run does not hide what was before")
	n1Type := e.node("w-1").Labels[corev1.LabelInstanceTypeStable]
	undone := e.undo()
	require.Equal(t, []string{"restore w-1"}, undone.Done, "the others were not tainted by csccm")
	require.Equal(t, []engine.Change{{Part: "Node", Text: "w-1", Lines: []string{
		`topology.kubernetes.io/zone from "zone-1" to "old"`,
		corev1.LabelInstanceTypeStable + "=" + n1Type + " is removed",
		"the provider ID external-cloudstack://" + id2 + " stays",
	}}}, undone.Changes)

	n := e.node("w-1")
	require.Equal(t, "old", n.Labels[corev1.LabelTopologyZone])
	require.NotContains(t, n.Labels, corev1.LabelInstanceTypeStable)
	require.NotContains(t, n.Annotations, MarkAnnotation)
	require.NotContains(t, n.Annotations, BeforeAnnotation)
	require.Len(t, n.Spec.Taints, 1, "the other taint stays")
	require.Empty(t, e.undo().Done)
}

// An undo removes a taint that a killed csccm left behind.
func TestUndoTakesOwnTaintBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t, aNode("w-1", "10.1.1.21"))
	require.NoError(t, e.patch(t.Context(), "w-1", "", e.add))
	require.Contains(t, e.undo().Changes[0].Lines, "taint "+Key+" is removed")
	require.Empty(t, e.node("w-1").Spec.Taints)
	require.NotContains(t, e.node("w-1").Annotations, BeforeAnnotation)
}
