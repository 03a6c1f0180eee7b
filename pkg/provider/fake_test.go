// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
)

// fakeCloud is the part of CloudStack that Nodes need, with the faults that tests want.
type fakeCloud struct {
	mu      sync.Mutex
	vms     []cloudstack.VirtualMachine
	listErr error                                   // of whole lists
	idErr   error                                   // of look-ups by id
	hidden  func(vm cloudstack.VirtualMachine) bool // what whole lists, although complete, leave out
	lists   int
	byID    []string // the ids that were asked for
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

func (f *fakeCloud) ListNetworks(context.Context, cloudstack.NetworkQuery) ([]cloudstack.Network, error) {
	return nil, nil
}

func (f *fakeCloud) ListZones(context.Context) ([]cloudstack.Zone, error) {
	return []cloudstack.Zone{{ID: "z1", Name: "zone-1"}, {ID: "z2", Name: "zone-2"}}, nil
}

func (f *fakeCloud) ListProjects(context.Context) ([]cloudstack.Project, error) {
	return []cloudstack.Project{{ID: "p1", Name: "dev"}}, nil
}

func (f *fakeCloud) remove(names ...string) {
	f.set(func(f *fakeCloud) {
		var left []cloudstack.VirtualMachine
		for _, vm := range f.vms {
			gone := false
			for _, n := range names {
				gone = gone || vm.Name == n
			}
			if !gone {
				left = append(left, vm)
			}
		}
		f.vms = left
	})
}

func (f *fakeCloud) setState(name string, s cloudstack.VMState) {
	f.set(func(f *fakeCloud) {
		for i := range f.vms {
			if f.vms[i].Name == name {
				f.vms[i].State = s
			}
		}
	})
}

func vmID(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

// machines makes VMs w1 ... wN, all running.
func machines(n int) []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for i := 1; i <= n; i++ {
		out = append(out, cloudstack.VirtualMachine{
			ID: vmID(i), Name: fmt.Sprintf("w%d", i), State: cloudstack.VMRunning, ZoneID: "z1", ZoneName: "zone-1",
			ServiceOfferingName: "Small Instance",
			NICs:                []cloudstack.NIC{{Default: true, IPv4: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}},
		})
	}
	return out
}

// k8sNode makes a Node with a provider ID, if there is one.
func k8sNode(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
	}
}

// initialised makes the Nodes of machines(n), as they are after initialisation.
func initialised(n int) []*corev1.Node {
	var out []*corev1.Node
	for i := 1; i <= n; i++ {
		out = append(out, k8sNode(fmt.Sprintf("w%d", i), node.ProviderID(node.FormUpstream, vmID(i))))
	}
	return out
}

// newTestProvider makes a provider on a fake cloud; its Events come out of the channel.
func newTestProvider(t *testing.T, api *fakeCloud, o Options, nodes ...*corev1.Node) (*Provider, chan string) {
	t.Helper()
	p, err := assemble(&cloudstack.Config{}, o, api)
	require.NoError(t, err)
	recorder := record.NewFakeRecorder(1000)
	p.events.Store(event.NewNodes(recorder, p.options.Clock))
	p.instances.nodes = func() ([]*corev1.Node, error) { return nodes, nil }
	return p, recorder.Events
}

func drain(events chan string) []string {
	var out []string
	for {
		select {
		case e := <-events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func onlyOne(t *testing.T, events chan string, parts ...string) {
	t.Helper()
	got := drain(events)
	require.Len(t, got, 1)
	for _, p := range parts {
		require.Contains(t, got[0], p)
	}
}
