// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
)

func fakeClockOptions() (*clocktesting.FakeClock, Options) {
	c := clocktesting.NewFakeClock(time.Now())
	o := DefaultOptions()
	o.Clock = c
	return c, o
}

func TestInstanceMetadataIsOneListForAllNodes(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	api := &fakeCloud{vms: machines(5)}
	p, _ := newTestProvider(t, api, o)
	for round := range 3 {
		for i := 1; i <= 5; i++ {
			m, err := p.instances.InstanceMetadata(t.Context(), k8sNode(fmt.Sprintf("w%d", i), ""))
			require.NoError(t, err)
			assert.Equal(t, "external-cloudstack://"+vmID(i), m.ProviderID)
			assert.Equal(t, "Small_Instance", m.InstanceType)
			assert.Equal(t, "zone-1", m.Zone)
		}
		lists, byID := api.counts()
		assert.Equal(t, round+1, lists)
		assert.Zero(t, byID)
		c.Step(5 * time.Minute)
	}
}

func TestUnknownNodesShareTheirLists(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	api := &fakeCloud{vms: machines(1)}
	p, events := newTestProvider(t, api, o)
	_, err := p.instances.InstanceMetadata(t.Context(), k8sNode("w1", ""))
	require.NoError(t, err)
	c.Step(missAge + time.Second)
	api.set(func(f *fakeCloud) { f.vms = machines(6) })
	for i := 2; i <= 6; i++ {
		_, err := p.instances.InstanceMetadata(t.Context(), k8sNode(fmt.Sprintf("w%d", i), ""))
		require.NoError(t, err)
	}
	lists, byID := api.counts()
	assert.Equal(t, 2, lists, "five new Nodes, one new list")
	assert.Zero(t, byID)

	for i := range 5 {
		_, err := p.instances.InstanceMetadata(t.Context(), k8sNode(fmt.Sprintf("nobody%d", i), ""))
		var missing *node.NotFoundError
		require.ErrorAs(t, err, &missing)
	}
	lists, _ = api.counts()
	assert.Equal(t, 2, lists, "Nodes that stay unknown cause no list within missAge")
	assert.Len(t, drain(events), 5)
}

// Of many pages, one VM by its id is cheaper; of as many VMs as pages, the list is.
func TestUnknownNodesByIDInALargeAccount(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	api := &fakeCloud{vms: machines(1001)}
	p, _ := newTestProvider(t, api, o)
	_, err := p.instances.InstanceMetadata(t.Context(), k8sNode("w1", ""))
	require.NoError(t, err)
	c.Step(missAge + time.Second)
	api.set(func(f *fakeCloud) { f.vms = machines(1010) })
	for i := 1002; i <= 1010; i++ {
		_, err := p.instances.InstanceMetadata(t.Context(), k8sNode("n", node.ProviderID(node.FormClusterAPI, vmID(i))))
		require.NoError(t, err)
	}
	lists, byID := api.counts()
	assert.Equal(t, 2, lists)
	assert.Equal(t, 3, byID)
}

func TestInstanceMetadataErrors(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	api := &fakeCloud{vms: append(machines(2), cloudstack.VirtualMachine{ID: vmID(9), Name: "W2", ZoneName: "zone-2", State: cloudstack.VMRunning})}
	p, events := newTestProvider(t, api, o)

	_, err := p.instances.InstanceMetadata(t.Context(), k8sNode("lost.example.org", ""))
	require.ErrorContains(t, err, `node "lost.example.org" has no VM: no VM with the name "lost.example.org" or "lost" in the API key's own account, all zones (3 VMs)`)
	onlyOne(t, events, "Warning NodeWithoutVM", `no VM with the name "lost.example.org" or "lost"`)

	for range 3 {
		_, err = p.instances.InstanceMetadata(t.Context(), k8sNode("w2", ""))
		require.ErrorContains(t, err, vmID(9))
	}
	onlyOne(t, events, "Warning AmbiguousVM", vmID(2), vmID(9))
	c.Step(event.NodePause)
	_, err = p.instances.InstanceMetadata(t.Context(), k8sNode("w2", ""))
	require.Error(t, err)
	onlyOne(t, events, "AmbiguousVM")

	_, err = p.instances.InstanceMetadata(t.Context(), k8sNode("w1", "cloudstack:///w1"))
	require.ErrorContains(t, err, `node "w1": provider id "cloudstack:///w1"`)
	onlyOne(t, events, "Warning InvalidProviderID")

	api.set(func(f *fakeCloud) {
		f.listErr = &cloudstack.Error{Kind: cloudstack.KindAuth, Command: "listVirtualMachines"}
	})
	c.Step(time.Hour)
	_, err = p.instances.InstanceMetadata(t.Context(), k8sNode("w1", ""))
	assert.True(t, cloudstack.IsKind(err, cloudstack.KindAuth))
	assert.Empty(t, drain(events), "what is wrong with CloudStack is no Event on every Node")
}

func TestInstanceShutdown(t *testing.T) {
	t.Parallel()
	_, o := fakeClockOptions()
	api := &fakeCloud{vms: machines(3)}
	api.setState("w2", cloudstack.VMStopped)
	api.setState("w3", cloudstack.VMShutdown)
	p, _ := newTestProvider(t, api, o)
	for name, want := range map[string]bool{"w1": false, "w2": true, "w3": true} {
		got, err := p.instances.InstanceShutdown(t.Context(), k8sNode(name, ""))
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
	got, err := p.instances.InstanceShutdown(t.Context(), k8sNode("w2", "k3s://w2"))
	require.NoError(t, err)
	assert.True(t, got, "a foreign provider id: by name")
	got, err = p.instances.InstanceShutdown(t.Context(), k8sNode("metal", "k3s://metal"))
	require.NoError(t, err)
	assert.False(t, got)
	_, err = p.instances.InstanceShutdown(t.Context(), k8sNode("metal", ""))
	require.Error(t, err)
	for _, s := range []cloudstack.VMState{cloudstack.VMStarting, cloudstack.VMStopping, cloudstack.VMMigrating, cloudstack.VMError} {
		assert.False(t, node.Off(s), s)
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
		{name: "destroyed, seen by an admin", change: func(f *fakeCloud) { f.vms[0].State = cloudstack.VMDestroyed }, want: false},
		{name: "expunging, seen by an admin", change: func(f *fakeCloud) { f.vms[0].State = cloudstack.VMExpunging }, want: false},
		{name: "gone, one of two", change: func(f *fakeCloud) { f.vms = f.vms[1:] }, nodes: 2, want: false},
		{name: "the id is not known to the server", change: func(f *fakeCloud) { f.vms = f.vms[1:]; f.idErr = failure(cloudstack.KindNotFound) }, want: false},
		{name: "not in the list, but there by id", change: hide("w1"), want: true},
		{name: "none in the list, but there by id", change: hide(""), err: "none of the 10 nodes", event: string(event.NodeDeletionRefused)},
		{name: "the list is refused", change: func(f *fakeCloud) { f.listErr = failure(cloudstack.KindAuth) }, err: "list the VMs"},
		{name: "the list needs another role", change: func(f *fakeCloud) { f.listErr = failure(cloudstack.KindNotPermitted) }, err: "list the VMs"},
		{name: "the list breaks off", change: func(f *fakeCloud) { f.vms = nil; f.listErr = errors.New("page 2: timeout") }, err: "page 2: timeout"},
		{name: "the look-up is refused", change: func(f *fakeCloud) { f.vms = f.vms[1:]; f.idErr = failure(cloudstack.KindAuth) }, err: "look up VM"},
		{name: "the look-up fails", change: func(f *fakeCloud) { f.vms = f.vms[1:]; f.idErr = failure(cloudstack.KindTransient) }, err: "look up VM"},
		{name: "an empty list", change: func(f *fakeCloud) { f.vms = nil }, err: "none of the 10 nodes", event: string(event.NodeDeletionRefused)},
		{name: "an empty list, one node", change: func(f *fakeCloud) { f.vms = nil }, nodes: 1, err: "none of the 1 nodes", event: string(event.NodeDeletionRefused)},
		{
			name: "too many at once", change: func(f *fakeCloud) { f.vms = f.vms[3:] },
			err: "3 of 10 nodes (w1, w2, w3) lost their VMs within 10m0s, more than 20 %", event: string(event.NodeDeletionRefused),
		},
		{name: "two of ten may go", change: func(f *fakeCloud) { f.vms = f.vms[2:] }, want: false},
		{name: "not a CloudStack id", node: k8sNode("w1", "cloudstack:///w1"), err: "no UUID", event: string(event.InvalidProviderID)},
		{name: "k3s's own id", node: k8sNode("elsewhere", "k3s://elsewhere"), want: true},
		{name: "another cloud's id", node: k8sNode("elsewhere", "aws:///i-1"), want: true},
		{name: "no id, by name", node: k8sNode("w1", ""), want: true},
		{name: "no id, no VM", node: k8sNode("elsewhere", ""), err: "existence cannot be judged without a provider id"},
	} {
		parallel(t, c.name, func(t *testing.T) {
			_, o := fakeClockOptions()
			n := c.nodes
			if n == 0 {
				n = total
			}
			api := &fakeCloud{vms: machines(n)}
			if c.change != nil {
				api.set(c.change)
			}
			nodes := initialised(n)
			p, events := newTestProvider(t, api, o, nodes...)
			if c.node == nil {
				c.node = nodes[0]
			}
			got, err := p.instances.InstanceExists(t.Context(), c.node)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				assert.False(t, got)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
			}
			if c.event == "" {
				assert.Empty(t, drain(events))
			} else {
				onlyOne(t, events, "Warning "+c.event)
			}
		})
	}
}

// hide keeps the VM of that name, or all of them, out of whole lists.
func hide(name string) func(*fakeCloud) {
	return func(f *fakeCloud) {
		f.hidden = func(vm cloudstack.VirtualMachine) bool { return name == "" || vm.Name == name }
	}
}

// The framework may ask again before it has seen that the Node is gone: what was proved holds as long as the list
// that it was proved with would be believed.
func TestGoneIsProvedOncePerList(t *testing.T) {
	t.Parallel()
	clock, o := fakeClockOptions()
	nodes := initialised(10)
	api := &fakeCloud{vms: machines(10)}
	api.remove("w1")
	p, _ := newTestProvider(t, api, o, nodes...)
	exists := func() bool {
		t.Helper()
		got, err := p.instances.InstanceExists(t.Context(), nodes[0])
		require.NoError(t, err)
		return got
	}
	for range 3 {
		assert.False(t, exists())
	}
	lists, byID := api.counts()
	assert.Equal(t, []int{1, 1}, []int{lists, byID})

	clock.SetTime(clock.Now().Add(missAge + time.Second))
	assert.False(t, exists())
	lists, byID = api.counts()
	assert.Equal(t, []int{2, 2}, []int{lists, byID}, "the list is too old, and the proof with it")

	p.inventory.Forget() // as with a new key
	assert.False(t, exists())
	lists, byID = api.counts()
	assert.Equal(t, []int{3, 3}, []int{lists, byID})

	clock.SetTime(clock.Now().Add(missAge + time.Second))
	api.set(func(f *fakeCloud) { f.vms = machines(10) })
	hide("w1")(api)
	assert.True(t, exists(), "it is there again, whatever was proved")
}

func TestInstanceExistsNeedsTheListOfNodes(t *testing.T) {
	t.Parallel()
	_, o := fakeClockOptions()
	p, _ := newTestProvider(t, &fakeCloud{}, o)
	p.instances.nodes = p.nodes // no informers yet
	_, err := p.instances.InstanceExists(t.Context(), initialised(1)[0])
	require.ErrorIs(t, err, errNoNodes)
}

func TestGuardCountsDeletionsWithinItsWindow(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	api := &fakeCloud{vms: machines(10)}
	nodes := initialised(10)
	p, events := newTestProvider(t, api, o)
	p.instances.nodes = func() ([]*corev1.Node, error) { return nodes, nil }
	exists := func(i int) (bool, error) {
		c.Step(vmAge + time.Second)
		return p.instances.InstanceExists(t.Context(), initialised(10)[i-1])
	}
	for i := 1; i <= 2; i++ { // one after the other, and the framework deletes their Nodes
		api.remove(fmt.Sprintf("w%d", i))
		got, err := exists(i)
		require.NoError(t, err)
		assert.False(t, got)
		nodes = nodes[1:]
	}
	api.remove("w3")
	_, err := exists(3)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, 3, refused.Missing)
	assert.Equal(t, 10, refused.Total)
	onlyOne(t, events, string(event.NodeDeletionRefused), "kubectl")
	assert.InDelta(t, 1, testutil.ToFloat64(p.metrics.deletionsRefused), 0)
	assert.InDelta(t, 1, testutil.ToFloat64(p.metrics.deletionsBlocked), 0)
	assert.InDelta(t, 1, testutil.ToFloat64(p.metrics.withoutVM), 0, "the two others have no Node any more")

	before, _ := api.counts()
	for range 5 { // a standing refusal costs no call while the list is young enough
		_, err := p.instances.InstanceExists(t.Context(), initialised(10)[2])
		require.ErrorAs(t, err, &refused)
		c.Step(5 * time.Second)
	}
	after, byID := api.counts()
	assert.Equal(t, before, after)
	assert.Equal(t, 2, byID, "only for the two that were given up")

	c.Step(o.DeletionGuard.Window)
	got, err := exists(3)
	require.NoError(t, err)
	assert.False(t, got, "the others are forgotten by now")
	assert.InDelta(t, 0, testutil.ToFloat64(p.metrics.deletionsBlocked), 0)
}

func TestGuardAllowsARejoinedNode(t *testing.T) {
	t.Parallel()
	c, o := fakeClockOptions()
	api := &fakeCloud{vms: machines(10)}
	nodes := initialised(10)
	p, _ := newTestProvider(t, api, o, nodes...)
	p.instances.guard.deleting("w9")
	p.instances.guard.deleting("w10") // both are back
	api.remove("w1")
	c.Step(time.Second)
	got, err := p.instances.InstanceExists(t.Context(), nodes[0])
	require.NoError(t, err)
	assert.False(t, got)
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	require.NoError(t, o.Validate())
	o.DriftPeriod = 0
	require.NoError(t, o.Validate())
	bad := Options{ProviderIDFormat: "x", InstanceTypeFormat: "y", DriftPeriod: time.Second, DeletionGuard: GuardOptions{Percent: 101, Window: -1}}
	err := bad.Validate()
	for _, part := range []string{"--provider-id-format", "--instance-type-format", "--drift-period", "--node-deletion-limit", "--node-deletion-window"} {
		require.ErrorContains(t, err, part)
	}
}
