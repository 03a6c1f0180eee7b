// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// nodeLife joins two nodes; the VM of one is stopped and destroyed, that of the other expunged.
func nodeLife(e *env) string {
	ip := e.served("web")
	vms := e.world.VMs(e.ctx, e.projectID, e.networkID, "life-1", "life-2")
	e.join(e.ctx, e.cluster, vms...)
	e.vms = append(e.vms, vms...)
	e.initialized(e.names()...)
	e.serves(ip, "80")
	first, second := vms[0], vms[1]
	e.nodes[first.Name].Stop()
	e.nodes[second.Name].Stop()
	e.do("stopVirtualMachine", world.Params{"id": first.ID, "forced": "true"})
	e.until("the taint of a node whose VM is stopped", func() {
		has := taints(e.node(first.Name))
		must.Be(slices.Contains(has, shutdown), "its taints are %v", has)
	})
	for vm, expunge := range map[world.VM]string{first: "false", second: "true"} {
		e.world.Admin.Do(e.ctx, "destroyVirtualMachine", world.Params{"id": vm.ID, "expunge": expunge})
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
	left := must.Get(e.cluster.Client.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{})).Items
	must.Be(len(left) == len(e.vms), "there are %d nodes, want %v", len(left), e.names())
	return "2 nodes joined and became members; stopped: taint; destroyed and expunged: Nodes deleted, members gone"
}

// twoNICs gives all nodes an interface in a second network, in which a Service is served that names it.
func twoNICs(e *env) string {
	const second = "second-net"
	id, err := must.Try(func() string { return e.world.Network(e.ctx, second, e.world.Offers.Isolated, world.Params{}) })
	can(err == nil, "no second isolated network: %v", err)
	e.plug(id)
	// The controller reads VMs again before it refuses a Service, so it sees the new interfaces at once.
	ip := e.served("web", "network="+e.world.Name(second))
	e.serves(ip, "80")
	for network, ip := range map[string]string{id: ip, e.networkID: e.served("unsaid")} {
		rules := must.Get(e.world.User.ListLoadBalancerRules(e.ctx, cloudstack.LoadBalancerRuleQuery{NetworkID: network}))
		here := slices.ContainsFunc(rules, func(r cloudstack.LoadBalancerRule) bool { return r.PublicIP == ip && r.NetworkID == network })
		must.Be(here, "none of the %d rules in network %s is at %s", len(rules), network, ip)
	}
	return "served by the interfaces that were added, in the network that the Service names; without a name by the default ones"
}

// plug gives all nodes an interface in a network; the end of the scenario removes its Services and takes the interfaces away.
func (e *env) plug(networkID string) {
	for _, vm := range e.vms {
		e.do("addNicToVirtualMachine", world.Params{"virtualmachineid": vm.ID, "networkid": networkID})
		e.cleanup(func() {
			for _, now := range must.Get(e.world.User.ListVirtualMachines(e.ctx, cloudstack.VMQuery{ID: vm.ID, ProjectID: e.projectID})) {
				for _, nic := range now.NICs {
					if nic.NetworkID == networkID {
						e.do("removeNicFromVirtualMachine", world.Params{"virtualmachineid": vm.ID, "nicid": nic.ID})
					}
				}
			}
		})
	}
	e.cleanup(e.removeAll)
}
