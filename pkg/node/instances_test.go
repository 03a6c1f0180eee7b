// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node/failover"
)

func TestInstanceShutdown(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(3))
	p.api.vms[1].State, p.api.vms[2].State = cloudstack.VMStopped, cloudstack.VMShutdown
	for _, c := range []struct {
		name, id string
		want     bool
	}{
		{"w1", "", false},
		{"w2", "", true},
		{"w3", "", true},
		{"w2", "k3s://w2", true}, // a foreign provider id; found by name
		{"metal", "k3s://metal", false},
	} {
		got, err := p.InstanceShutdown(t.Context(), k8sNode(c.name, c.id))
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%s %s", c.name, c.id)
	}

	_, err := p.InstanceShutdown(t.Context(), k8sNode("metal", ""))
	require.Error(t, err)
	for _, s := range []cloudstack.VMState{cloudstack.VMStarting, cloudstack.VMStopping, cloudstack.VMMigrating,
		cloudstack.VMError} {
		assert.False(t, Off(s), s)
	}
}

func TestInstanceExists(t *testing.T) {
	t.Parallel()
	failure := func(k cloudstack.Kind) error { return &cloudstack.Error{Kind: k, Command: "listVirtualMachines"} }
	const total = 10
	for _, c := range []struct {
		name   string
		change func(f *fakeCloud)
		node   *corev1.Node // w1 when nil
		nodes  int          // total when zero
		want   bool
		err    string
		event  string
	}{
		{name: "running", want: true},
		{name: "stopped", change: func(f *fakeCloud) { f.vms[0].State = cloudstack.VMStopped }, want: true},
		{name: "in error", change: func(f *fakeCloud) { f.vms[0].State = cloudstack.VMError }, want: true},
		{name: "migrating", change: func(f *fakeCloud) { f.vms[0].State = cloudstack.VMMigrating }, want: true},
		{name: "in another zone", change: func(f *fakeCloud) { f.vms[0].ZoneName = "zone-2" }, want: true},
		{name: "renamed", change: func(f *fakeCloud) { f.vms[0].Name = "other" }, want: true},
		{name: "gone", change: func(f *fakeCloud) { f.vms = f.vms[1:] }, want: false},
		{
			name:   "destroyed, seen by an admin",
			change: func(f *fakeCloud) { f.vms[0].State = cloudstack.VMDestroyed },
			want:   false,
		},
		{
			name:   "expunging, seen by an admin",
			change: func(f *fakeCloud) { f.vms[0].State = cloudstack.VMExpunging },
			want:   false,
		},
		{name: "gone, one of two", change: func(f *fakeCloud) { f.vms = f.vms[1:] }, nodes: 2, want: false},
		{
			name:   "the id is not known to the server",
			change: func(f *fakeCloud) { f.vms = f.vms[1:]; f.idErr = failure(cloudstack.KindNotFound) },
			want:   false,
		},
		{name: "not in the list, but there by id", change: hide("w1"), want: true},
		{
			name:   "none in the list, but there by id",
			change: hide(""),
			err:    "none of the 10 nodes",
			event:  string(ReasonDeletionRefused),
		},
		{
			name:   "the list is refused",
			change: func(f *fakeCloud) { f.listErr = failure(cloudstack.KindAuth) },
			err:    "list the VMs",
		},
		{
			name:   "the list needs another role",
			change: func(f *fakeCloud) { f.listErr = failure(cloudstack.KindNotPermitted) },
			err:    "list the VMs",
		},
		{
			name:   "the list breaks off",
			change: func(f *fakeCloud) { f.vms = nil; f.listErr = errors.New("page 2: timeout") },
			err:    "page 2: timeout",
		},
		{
			name:   "the look-up is refused",
			change: func(f *fakeCloud) { f.vms = f.vms[1:]; f.idErr = failure(cloudstack.KindAuth) },
			err:    "look up VM",
		},
		{
			name:   "the look-up fails",
			change: func(f *fakeCloud) { f.vms = f.vms[1:]; f.idErr = failure(cloudstack.KindTransient) },
			err:    "look up VM",
		},
		{
			name:   "an empty list",
			change: func(f *fakeCloud) { f.vms = nil },
			err:    "none of the 10 nodes",
			event:  string(ReasonDeletionRefused),
		},
		{
			name:   "an empty list, one node",
			change: func(f *fakeCloud) { f.vms = nil },
			nodes:  1,
			err:    "none of the 1 nodes",
			event:  string(ReasonDeletionRefused),
		},
		{
			name: "too many at once", change: func(f *fakeCloud) { f.vms = f.vms[3:] },
			err:   "3 of 10 nodes (w1, w2, w3) lost their VMs within 10m0s, more than 20 %",
			event: string(ReasonDeletionRefused),
		},
		{name: "two of ten may go", change: func(f *fakeCloud) { f.vms = f.vms[2:] }, want: false},
		{
			name:  "not a CloudStack id",
			node:  k8sNode("w1", "cloudstack:///w1"),
			err:   "not a UUID",
			event: string(ReasonInvalidProviderID),
		},
		{name: "k3s's own id", node: k8sNode("elsewhere", "k3s://elsewhere"), want: true},
		{name: "another cloud's id", node: k8sNode("elsewhere", "aws:///i-1"), want: true},
		{name: "no id, by name", node: k8sNode("w1", ""), want: true},
		{name: "no id, no VM", node: k8sNode("elsewhere", ""), err: "existence cannot be judged without a provider id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := cmp.Or(c.nodes, total)
			nodes := initialised(n)
			p := newFakeNodes(t, machines(n), nodes...)
			if c.change != nil {
				p.api.set(c.change)
			}

			if c.node == nil {
				c.node = nodes[0]
			}

			got, err := p.InstanceExists(t.Context(), c.node)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				assert.False(t, got)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
			}

			if c.event == "" {
				assert.Empty(t, drain(p.events))
			} else {
				onlyOne(t, p.events, "Warning "+c.event)
			}
		})
	}
}

// hide removes the VM of that name, or all VMs, from complete lists.
func hide(name string) func(*fakeCloud) {
	return func(f *fakeCloud) {
		f.hidden = func(vm cloudstack.VirtualMachine) bool { return name == "" || vm.Name == name }
	}
}

// The framework may ask again before it has seen that the Node is deleted. The proof that a VM is gone is reused
// for as long as the list of VMs on which it is based.
func TestGoneIsProvedOncePerList(t *testing.T) {
	t.Parallel()
	nodes := initialised(10)
	p := newFakeNodes(t, machines(10), nodes...)
	p.api.remove("w1")
	for range 3 {
		assert.False(t, p.exists(nodes[0]))
	}

	p.spent(1, 1, "")
	p.clock.Step(MissAge + time.Second)
	assert.False(t, p.exists(nodes[0]))
	p.spent(2, 2, "the list is too old, and the proof with it")
	p.VMs.Reset() // as when the API key changes
	assert.False(t, p.exists(nodes[0]))
	p.spent(3, 3, "")
	p.clock.Step(MissAge + time.Second)
	p.api.set(func(f *fakeCloud) { f.vms = machines(10) })
	hide("w1")(p.api)
	assert.True(t, p.exists(nodes[0]), "it is there again, whatever was proved")
}

func TestInstanceExistsNeedsTheListOfNodes(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, nil)
	notLoaded := errors.New("the list of Nodes is not loaded yet")
	p.List = func() ([]*corev1.Node, error) { return nil, notLoaded }
	_, err := p.InstanceExists(t.Context(), initialised(1)[0])
	require.ErrorIs(t, err, notLoaded)
}

func TestGuardCountsDeletionsWithinItsWindow(t *testing.T) {
	t.Parallel()
	nodes := initialised(10)
	p := newFakeNodes(t, machines(10))
	p.List = func() ([]*corev1.Node, error) { return nodes, nil }
	all := initialised(10)
	for i := range 2 { // two VMs vanish one after the other, and the framework deletes their Nodes
		p.api.remove(all[i].Name)
		p.clock.Step(VMAge + time.Second)
		assert.False(t, p.exists(all[i]))
		nodes = nodes[1:]
	}
	p.api.remove("w3")
	p.clock.Step(VMAge + time.Second)
	_, err := p.InstanceExists(t.Context(), all[2])
	require.ErrorContains(t, err, "3 of 10 nodes")
	onlyOne(t, p.events, string(ReasonDeletionRefused), "kubectl")
	assert.InDelta(t, 1, testutil.ToFloat64(p.refused), 0)
	assert.Equal(t, 1, p.guard.blocked())
	assert.Equal(t, 1, p.withoutVM(), "the two others have no Node any more")

	lists, _ := p.api.counts()
	for range 5 { // asking again costs no call while the list is recent
		_, err := p.InstanceExists(t.Context(), all[2])
		require.Equal(t, ReasonDeletionRefused, ReasonOf(err))
		p.clock.Step(5 * time.Second)
	}
	p.spent(lists, 2, "by id only the two that were given up")

	p.clock.Step(testLimit.Window + VMAge)
	assert.False(t, p.exists(all[2]), "the others are forgotten by now")
	assert.Zero(t, p.guard.blocked())
}

// VMs of Nodes with the cluster autoscaler's taint may vanish all at once, and do not count towards the limit for other
// Nodes later. If no VM is found at all, the taint has no effect.
func TestGuardAllowsAnnouncedDeletions(t *testing.T) {
	t.Parallel()
	nodes := initialised(12)
	for _, n := range nodes[:6] {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: failover.TaintBeingDeleted})
	}
	for _, n := range nodes[6:] { // only candidates for deletion
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "DeletionCandidateOfClusterAutoscaler"})
	}
	p := newFakeNodes(t, machines(12))
	p.List = func() ([]*corev1.Node, error) { return nodes, nil }
	lose := func(lost []*corev1.Node) {
		for _, n := range lost {
			p.api.remove(n.Name)
		}
		p.clock.Step(VMAge + time.Second)
	}
	lose(nodes[:6])
	for _, n := range nodes[:6] {
		assert.False(t, p.exists(n), n.Name)
	}
	nodes = nodes[6:] // the framework has deleted them
	lose(nodes[:1])
	assert.False(t, p.exists(nodes[0]), "one of six")
	lose(nodes[1:3])
	_, err := p.InstanceExists(t.Context(), nodes[1])
	require.ErrorContains(t, err, "3 of 6 nodes", "a candidate is not marked yet")

	last := initialised(2)
	for _, n := range last {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: failover.TaintBeingDeleted})
	}
	blind := newFakeNodes(t, nil)
	blind.List = func() ([]*corev1.Node, error) { return last, nil }
	_, err = blind.InstanceExists(t.Context(), last[0])
	require.ErrorContains(t, err, "none of the 2 nodes")
}

func TestGuardAllowsARejoinedNode(t *testing.T) {
	t.Parallel()
	nodes := initialised(10)
	p := newFakeNodes(t, machines(10), nodes...)
	p.guard.deleting(nodes[8])
	p.guard.deleting(nodes[9]) // w9 and w10 joined again
	p.api.remove("w1")
	assert.False(t, p.exists(nodes[0]))
}

// A VM is down only if both the look-up by its ID and a complete list show that.
func TestDownNeedsTwoProofs(t *testing.T) {
	t.Parallel()
	set := func(byID, listed cloudstack.VMState) func(f *fakeCloud) {
		return func(f *fakeCloud) {
			f.vms[1].State = byID
			other := f.vms[1]
			other.State = listed
			f.hidden = func(vm cloudstack.VirtualMachine) bool { return vm.ID == other.ID && vm.State != listed }
			if listed != "" && listed != byID {
				f.vms = append(f.vms, other) // a look-up by ID finds the VM before it
			}
		}
	}

	for name, c := range map[string]struct {
		change func(f *fakeCloud)
		state  string
		fails  bool
	}{
		"stopped":                     {change: set(cloudstack.VMStopped, cloudstack.VMStopped), state: "Stopped"},
		"stopped by id, runs by list": {change: set(cloudstack.VMStopped, cloudstack.VMRunning)},
		"runs by id, stopped by list": {change: set(cloudstack.VMRunning, cloudstack.VMStopped)},
		"starting":                    {change: set(cloudstack.VMStarting, cloudstack.VMStarting)},
		"migrating":                   {change: set(cloudstack.VMMigrating, cloudstack.VMMigrating)},
		"destroyed":                   {change: set(cloudstack.VMDestroyed, cloudstack.VMDestroyed), state: "gone"},
		"gone": {
			change: func(f *fakeCloud) { f.vms = slices.Delete(f.vms, 1, 2) },
			state:  "gone",
		},
		"stopped, the list is partial": {
			change: func(f *fakeCloud) {
				f.vms[1].State, f.listErr = cloudstack.VMStopped, errors.New("page 2 is missing")
			},
			fails: true,
		},
		"the server refuses":            {change: func(f *fakeCloud) { f.idErr = errors.New("401") }, fails: true},
		"half of the Nodes have no VMs": {change: func(f *fakeCloud) { f.vms = f.vms[2:5] }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFakeNodes(t, machines(6), initialised(6)...)
			p.api.set(c.change)
			state, err := p.down(t.Context(), initialised(6)[1])
			assert.Equal(t, c.fails, err != nil, "%v", err)
			if err == nil {
				assert.Equal(t, c.state, state)
			}
		})
	}
}
