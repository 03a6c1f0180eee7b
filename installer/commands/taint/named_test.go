// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// A node that is named is initialised again, and no other is touched.
func TestNamedNodeIsInitialisedAgain(t *testing.T) {
	t.Parallel()
	nodes := threeNodes()
	w := newWorld(t, nil, nodes...)
	e := &Executor{Kube: w.kube, Clock: w.clock}
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
	require.NoError(t, e.Canary(t.Context(), p))
	done := *w.node(t, "w-1")
	done.Labels[corev1.LabelTopologyZone] = "mars"
	nodes = []corev1.Node{nodes[0], done, nodes[2]}
	require.Equal(t, "w-2", NewPlan(Facts{Nodes: nodes, VMs: vms}).Canary)

	p = NewPlan(Facts{Nodes: nodes, VMs: vms, Only: []string{"w-1"}})
	require.Equal(t, "w-1", p.Canary)
	require.Empty(t, p.Rest)
	require.Len(t, p.Items, 1)
	require.Contains(t, p.Items[0].Notes[0], "label topology.kubernetes.io/zone changes from mars to zone-1")
}

// A taint that evicts Pods is replaced by one that does not; the controller initialises the node by it.
func TestReplaceNoExecute(t *testing.T) {
	t.Parallel()
	nodes := threeNodes()
	nodes[1].Spec.Taints = append(nodes[1].Spec.Taints, corev1.Taint{Key: Key, Value: Value, Effect: corev1.TaintEffectNoExecute})
	p := NewPlan(Facts{Nodes: nodes, VMs: vms})
	require.Equal(t, "find out who sets it, then: csccm taint --replace-no-execute", p.Problems[0].Remedy)

	w := newWorld(t, nil, nodes...)
	e := &Executor{Kube: w.kube, Clock: w.clock}
	p = NewPlan(Facts{Nodes: nodes[1:2], VMs: vms, ReplaceNoExecute: true})
	require.True(t, p.Needed())
	require.Empty(t, p.Problems)
	require.NoError(t, e.Soften(t.Context(), p))
	taints := w.node(t, "w-1").Spec.Taints
	require.Len(t, taints, 2)
	require.Equal(t, "dedicated", taints[0].Key)
	require.Equal(t, Effect, taints[1].Effect)
}
