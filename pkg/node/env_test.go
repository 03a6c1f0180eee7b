// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/inventory"
)

var machines, testVMID, k8sNode, drain = testenv.Machines, testenv.VMID, testenv.Node, testenv.Drain

// fakeCloud is the part of CloudStack that Nodes use, with faults for tests.
type fakeCloud struct {
	testenv.Elsewhere
	mu      sync.Mutex
	vms     []cloudstack.VirtualMachine
	listErr error                                   // of complete lists
	idErr   error                                   // of look-ups by id
	hidden  func(vm cloudstack.VirtualMachine) bool // VMs that complete lists lack
	lists   int
	byID    []string // the IDs of the look-ups so far
}

func (f *fakeCloud) set(change func(f *fakeCloud)) { f.mu.Lock(); defer f.mu.Unlock(); change(f) }

func (f *fakeCloud) counts() (lists, byID int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists, len(f.byID)
}

func (f *fakeCloud) ListVirtualMachines(_ context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.ID == "" {
		f.lists++
		var list []cloudstack.VirtualMachine
		for _, vm := range f.vms {
			if f.hidden == nil || !f.hidden(vm) {
				list = append(list, vm)
			}
		}
		return list, f.listErr
	}

	f.byID = append(f.byID, q.ID)
	for _, vm := range f.vms {
		if vm.ID == q.ID {
			return []cloudstack.VirtualMachine{vm}, f.idErr
		}
	}

	return nil, f.idErr
}

func (f *fakeCloud) remove(name string) {
	f.set(func(f *fakeCloud) {
		f.vms = slices.DeleteFunc(f.vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name })
	})
}

// initialised returns the Nodes of machines(n) as they are after their initialisation.
func initialised(n int) []*corev1.Node {
	var out []*corev1.Node
	for i := 1; i <= n; i++ {
		out = append(out, k8sNode(fmt.Sprintf("w%d", i), ProviderID(FormUpstream, testVMID(i))))
	}
	return out
}

// fakeNodes are Nodes on a fake cloud.
type fakeNodes struct {
	*Nodes
	t      *testing.T
	api    *fakeCloud
	clock  *clocktesting.FakeClock
	events chan string
}

var testLimit = DeletionLimit{Percent: 20, Window: 10 * time.Minute}

// newFakeNodes returns fakeNodes with these VMs and Node objects, in all zones.
func newFakeNodes(t *testing.T, vms []cloudstack.VirtualMachine, nodes ...*corev1.Node) *fakeNodes {
	t.Helper()
	return newFakeNodesIn(t, "", vms, nodes...)
}

func newFakeNodesIn(t *testing.T, zone string, vms []cloudstack.VirtualMachine, nodes ...*corev1.Node) *fakeNodes {
	t.Helper()
	clock, recorder := clocktesting.NewFakeClock(time.Now()), record.NewFakeRecorder(1000)
	f := &fakeNodes{t: t, api: &fakeCloud{vms: vms}, clock: clock, events: recorder.Events}
	f.Nodes = New(Deps{
		VMs:          inventory.New(f.api, inventory.Options{Zone: zone, Clock: clock}),
		List:         func() ([]*corev1.Node, error) { return nodes, nil },
		Limit:        testLimit,
		OutOfService: OutOfServiceWorkers,
		Clock:        clock,
	})
	f.Nodes.events.recorder = recorder
	return f
}

// describe returns the metadata of a Node.
func (p *fakeNodes) describe(n *corev1.Node) *cloudprovider.InstanceMetadata {
	p.t.Helper()
	m, err := p.InstanceMetadata(p.t.Context(), n)
	require.NoError(p.t, err)
	return m
}

// unknown returns the error of a Node that has no metadata.
func (p *fakeNodes) unknown(n *corev1.Node) error {
	p.t.Helper()
	_, err := p.InstanceMetadata(p.t.Context(), n)
	require.Error(p.t, err)
	return err
}

// spent checks the number of calls so far: complete lists, and look-ups by ID.
func (p *fakeNodes) spent(lists, byID int, why string) {
	p.t.Helper()
	gotLists, gotByID := p.api.counts()
	assert.Equal(p.t, []int{lists, byID}, []int{gotLists, gotByID}, why)
}

// exists reports whether the VM of a Node exists.
func (p *fakeNodes) exists(n *corev1.Node) bool {
	p.t.Helper()
	exists, err := p.InstanceExists(p.t.Context(), n)
	require.NoError(p.t, err)
	return exists
}

func onlyOne(t *testing.T, events chan string, parts ...string) {
	t.Helper()
	got := drain(events)
	require.Len(t, got, 1)
	for _, p := range parts {
		require.Contains(t, got[0], p)
	}
}
