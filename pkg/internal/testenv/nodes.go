// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Elsewhere implements the calls of inventory.API other than the one for VMs.
type Elsewhere struct{}

// ListNetworks implements inventory.API.
func (Elsewhere) ListNetworks(context.Context, cloudstack.NetworkQuery) ([]cloudstack.Network, error) {
	return nil, nil
}

// ListZones implements inventory.API.
func (Elsewhere) ListZones(context.Context) ([]cloudstack.Zone, error) {
	return []cloudstack.Zone{{ID: "z1", Name: "zone-1"}, {ID: "z2", Name: "zone-2"}}, nil
}

// ListProjects implements inventory.API.
func (Elsewhere) ListProjects(context.Context) ([]cloudstack.Project, error) {
	return []cloudstack.Project{{ID: "p1", Name: "dev"}}, nil
}

// VMID returns the ID of the i-th VM of Machines.
func VMID(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

// Machines returns the VMs w1 ... wN, all running.
func Machines(n int) []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for i := 1; i <= n; i++ {
		out = append(out, cloudstack.VirtualMachine{
			ID: VMID(i), Name: fmt.Sprintf("w%d", i), State: cloudstack.VMRunning, ZoneID: "z1", ZoneName: "zone-1",
			ServiceOfferingName: "Small Instance",
			NICs:                []cloudstack.NIC{{Default: true, IPv4: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}},
		})
	}
	return out
}

// Node returns a Node with a provider ID, which may be empty.
func Node(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}},
		},
	}
}

// Drain returns the Events that a record.FakeRecorder has received.
func Drain(events chan string) []string {
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
