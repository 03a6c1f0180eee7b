// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// nodeLife joins two nodes; the VM of one is stopped and destroyed, that of the other expunged.
func nodeLife(e *env) string {
	ip := e.served("web")
	vms := must.Get(e.world.VMs(e.ctx, e.projectID, e.network.ID, "life-1", "life-2"))
	for _, vm := range vms {
		must.OK(e.joinTo(e.ctx, e.cluster, vm))
	}
	e.vms = append(e.vms, vms...)
	e.initialized(e.names()...)
	e.serves(ip, "80")
	first, second := vms[0], vms[1]
	e.nodes[first.Name].Stop()
	e.nodes[second.Name].Stop()
	e.do("stopVirtualMachine", api.Params{"id": first.ID, "forced": "true"})
	e.until("the taint of a node whose VM is stopped", func() {
		has := taints(e.node(first.Name))
		must.Be(slices.Contains(has, shutdown), "its taints are %v", has)
	})
	for vm, expunge := range map[world.VM]string{first: "false", second: "true"} {
		must.Get(e.world.Admin.Do(e.ctx, "destroyVirtualMachine", api.Params{"id": vm.ID, "expunge": expunge}))
	}
	for _, vm := range vms {
		e.until("the Node "+vm.Name+" to be deleted", func() {
			if _, err := e.cluster.Client.CoreV1().Nodes().Get(e.ctx, vm.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				must.Fail("it is there, with taints %v", taints(e.node(vm.Name)))
			}
		})
	}
	e.vms = slices.DeleteFunc(e.vms, func(vm world.VM) bool { return slices.Contains(vms, vm) })
	e.serves(ip, "80")
	var left []string
	for _, n := range must.Get(e.cluster.Client.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{})).Items {
		left = append(left, n.Name)
	}
	slices.Sort(left)
	must.Be(slices.Equal(left, e.names()), "the nodes are %v, want %v", left, e.names())
	return "2 nodes joined and became members; stopped: taint; destroyed and expunged: Nodes deleted, members gone"
}

// twoNICs gives all nodes an interface in a second network, in which a Service is served that names it.
func twoNICs(e *env) string {
	second, err := e.world.Isolated(e.ctx, "second-net", "")
	if err != nil {
		must.OK(cannot("no second isolated network: %v", err))
	}
	e.plug(second.ID)
	// The controller reads VMs again before it refuses a Service, so it sees the new interfaces at once.
	ip := e.served("web", set("network", second.Name))
	e.serves(ip, "80")
	e.inNetwork(second.ID, ip)
	e.inNetwork(e.network.ID, e.served("unsaid"))
	return "served by the interfaces that were added, in the network that the Service names; without a name by the default ones"
}

// inNetwork checks that an address has a rule in a network.
func (e *env) inNetwork(networkID, ip string) {
	list := e.list("listLoadBalancerRules", "loadbalancerrule", api.Params{"networkid": networkID})
	here := slices.ContainsFunc(list, func(o api.Object) bool { return o.Text("publicip") == ip && o.Text("networkid") == networkID })
	must.Be(here, "none of the %d rules in network %s is at %s", len(list), networkID, ip)
}

// plug gives all nodes an interface in a network; the end of the scenario removes its Services and takes the interfaces away.
func (e *env) plug(networkID string) {
	for _, vm := range e.vms {
		e.do("addNicToVirtualMachine", api.Params{"virtualmachineid": vm.ID, "networkid": networkID})
		e.cleanup(func() {
			e.do("removeNicFromVirtualMachine", api.Params{"virtualmachineid": vm.ID, "nicid": e.nic(vm.ID, networkID)})
		})
	}
	e.cleanup(e.removeAll)
}

// nic is the id of a VM's interface in a network.
func (e *env) nic(vmID, networkID string) (id string) {
	for _, vm := range e.list("listVirtualMachines", "virtualmachine", api.Params{"id": vmID}) {
		for _, n := range vm.Objects("nic") {
			if n.Text("networkid") == networkID {
				id = n.Text("id")
			}
		}
	}
	must.Be(id != "", "VM %s has no interface in network %s", vmID, networkID)
	return id
}
