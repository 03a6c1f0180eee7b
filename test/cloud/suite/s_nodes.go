// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/world"
)

// nodeScenarios are about VMs that come and go.
func nodeScenarios(at string) []scenario {
	return []scenario{
		{name: at + ": VMs stopped, destroyed and expunged", at: at, needs: []need{needOwnVMs, needExpunge}, run: nodeLife},
		{name: at + ": two network interfaces", at: at, trusted: true, needs: []need{needOwnVMs}, run: twoNICs},
	}
}

// grow deploys VMs and joins them to the cluster.
func (e *env) grow(ctx context.Context, names ...string) ([]world.VM, error) {
	vms, err := e.world.VMs(ctx, e.projectID, []string{e.network.ID}, names...)
	if err != nil {
		return nil, err
	}
	for _, vm := range vms {
		if err := e.joinTo(ctx, e.cluster, vm); err != nil {
			return nil, err
		}
	}
	e.vms = append(e.vms, vms...)
	return vms, e.initialized(ctx, e.names()...)
}

// forget takes a VM off the list of nodes.
func (e *env) forget(vm world.VM) {
	e.vms = slices.DeleteFunc(e.vms, func(v world.VM) bool { return v.ID == vm.ID })
}

// nodeLife joins two nodes; the VM of one is stopped and destroyed, that of the other expunged.
func nodeLife(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web")
	if err != nil {
		return "", err
	}
	vms, err := e.grow(ctx, "life-1", "life-2")
	if err != nil {
		return "", err
	}
	if err := e.membersAre(ctx, ip, e.names()...); err != nil {
		return "", fmt.Errorf("after two nodes joined: %w", err)
	}
	first, second := vms[0], vms[1]
	e.nodes[first.Name].Stop()
	e.nodes[second.Name].Stop()
	if _, err := e.world.User.Do(ctx, "stopVirtualMachine", api.Params{"id": first.ID, "forced": "true"}); err != nil {
		return "", err
	}
	if err := e.until(ctx, "the taint of a node whose VM is stopped", func(ctx context.Context) error {
		n, err := e.cluster.Client.CoreV1().Nodes().Get(ctx, first.Name, metav1.GetOptions{})
		if err == nil && !hasTaint(n, shutdown) {
			err = fmt.Errorf("its taints are %v", keys(n))
		}
		return err
	}); err != nil {
		return "", err
	}
	for _, x := range []struct {
		vm      world.VM
		expunge string
	}{{first, "false"}, {second, "true"}} {
		if _, err := e.world.Admin.Do(ctx, "destroyVirtualMachine", api.Params{"id": x.vm.ID, "expunge": x.expunge}); err != nil {
			return "", err
		}
	}
	for _, vm := range vms {
		if err := e.nodeGone(ctx, vm.Name); err != nil {
			return "", err
		}
		e.forget(vm)
	}
	if err := e.membersAre(ctx, ip, e.names()...); err != nil {
		return "", err
	}
	left, err := e.nodesOf(ctx)
	if err == nil && !slices.Equal(left, e.names()) {
		err = fmt.Errorf("the nodes are %v, want %v", left, e.names())
	}
	return "2 nodes joined and became members; stopped: taint; destroyed and expunged: Nodes deleted, members gone", err
}

// twoNICs gives all nodes an interface in a second network, in which a Service is served that names it.
func twoNICs(ctx context.Context, e *env) (seen string, err error) {
	second, err := e.world.Isolated(ctx, "second-net", "")
	if err != nil {
		return "", cannot("no second isolated network: %v", err)
	}
	undo, err := e.plug(ctx, second.ID)
	defer func() { err = errors.Join(err, undo(context.WithoutCancel(ctx))) }()
	if err != nil {
		return "", err
	}
	// The controller reads VMs again before it refuses a Service, so it sees the new interfaces at once.
	ip, err := e.served(ctx, "web", set("network", second.Name))
	if err != nil {
		return "", err
	}
	if err := e.serves(ctx, ip, "80"); err != nil {
		return "", err
	}
	if err := e.inNetwork(ctx, second.ID, ip); err != nil {
		return "", err
	}
	unsaid, err := e.served(ctx, "unsaid")
	if err != nil {
		return "", err
	}
	if err := e.inNetwork(ctx, e.network.ID, unsaid); err != nil {
		return "", fmt.Errorf("a Service that names no network: %w", err)
	}
	return "served by the interfaces that were added, in the network that the Service names; without a name by the default ones", nil
}

// inNetwork reports why an address has no rule in a network, or nil.
func (e *env) inNetwork(ctx context.Context, networkID, ip string) error {
	list, err := e.world.User.List(ctx, "listLoadBalancerRules", "loadbalancerrule", api.Params{"networkid": networkID, "listall": "true"})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(o api.Object) bool { return o.Text("publicip") == ip && o.Text("networkid") == networkID }) {
		return fmt.Errorf("none of the %d rules in network %s is at %s", len(list), networkID, ip)
	}
	return nil
}

// plug gives all nodes an interface in a network; undo removes the scenario's Services and takes the interfaces away.
func (e *env) plug(ctx context.Context, networkID string) (undo func(context.Context) error, err error) {
	var plugged []world.VM
	undo = func(ctx context.Context) error {
		errs := []error{e.removeAll(ctx)}
		for _, vm := range plugged {
			nic, err := e.nic(ctx, vm.ID, networkID)
			if err == nil {
				_, err = e.world.User.Do(ctx, "removeNicFromVirtualMachine", api.Params{"virtualmachineid": vm.ID, "nicid": nic})
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	for _, vm := range e.vms {
		if _, err := e.world.User.Do(ctx, "addNicToVirtualMachine", api.Params{"virtualmachineid": vm.ID, "networkid": networkID}); err != nil {
			return undo, err
		}
		plugged = append(plugged, vm)
	}
	return undo, nil
}

// nic is the id of a VM's interface in a network.
func (e *env) nic(ctx context.Context, vmID, networkID string) (string, error) {
	list, err := e.world.User.List(ctx, "listVirtualMachines", "virtualmachine", e.scope(api.Params{"id": vmID}))
	if err != nil {
		return "", err
	}
	for _, vm := range list {
		for _, n := range vm.Objects("nic") {
			if n.Text("networkid") == networkID {
				return n.Text("id"), nil
			}
		}
	}
	return "", fmt.Errorf("VM %s has no interface in network %s", vmID, networkID)
}
