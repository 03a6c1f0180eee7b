// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What is remembered of a Node holds for this version of it and for this list of VMs.
func TestMembers(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(2))
	vms, err := p.VMs.VMs(t.Context(), 0)
	require.NoError(t, err)
	n := func(name, version string) *corev1.Node {
		out := k8sNode(name, "")
		out.UID, out.ResourceVersion = types.UID("uid-"+name), version
		return out
	}
	var memo Members
	for range 2 {
		members, failed := memo.Match(vms, []*corev1.Node{n("w2", "1"), n("w1", "1"), n("w9", "1")})
		require.Len(t, members, 2)
		assert.Equal(t, []string{testVMID(2), testVMID(1)}, []string{members[0].VMID, members[1].VMID}, "in the order of the nodes")
		require.Len(t, failed, 1)
		assert.Equal(t, "w9", failed[0].Node.Name)
	}
	renamed := n("w1", "2")
	renamed.Name = "w8"
	_, failed := memo.Match(vms, []*corev1.Node{renamed})
	assert.Len(t, failed, 1, "another version")

	p.api.vms = p.api.vms[:1]
	p.VMs.Forget()
	fewer, err := p.VMs.VMs(t.Context(), 0)
	require.NoError(t, err)
	_, failed = memo.Match(fewer, []*corev1.Node{n("w2", "1")})
	assert.Len(t, failed, 1, "another list of VMs")
	members, _ := memo.Match(vms, []*corev1.Node{n("w2", "1")})
	assert.Len(t, members, 1)
}

func TestMembersKey(t *testing.T) {
	t.Parallel()
	var memo Members
	nodes := initialised(3)
	for i, n := range nodes {
		n.UID, n.ResourceVersion = types.UID(fmt.Sprint(i)), "1"
	}
	all := memo.Key(nodes, nil)
	assert.Equal(t, all, memo.Key([]*corev1.Node{nodes[2], nodes[0], nodes[1]}, nil), "in any order")
	assert.NotEqual(t, all, memo.Key(nodes[:2], nil))
	moved := nodes[1].DeepCopy()
	moved.ResourceVersion = "2"
	assert.Equal(t, all, memo.Key([]*corev1.Node{nodes[0], moved, nodes[2]}, nil), "nothing that matters has changed")
	moved.ResourceVersion, moved.Spec.ProviderID = "3", "external-cloudstack://other"
	assert.NotEqual(t, all, memo.Key([]*corev1.Node{nodes[0], moved, nodes[2]}, nil))
	for i := range 100 {
		others := initialised(3)
		for k, n := range others {
			n.UID, n.ResourceVersion = types.UID(fmt.Sprint(i, k)), "1"
		}
		memo.Key(others, nil)
	}
	assert.LessOrEqual(t, len(memo.digests.values), 3*len(nodes), "nodes that are gone are forgotten")
}
