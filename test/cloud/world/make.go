// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

// Network is a guest network of the run.
type Network struct {
	ID, Name, ProjectID, VPCID, ACLID string
}

// VM is a virtual machine of the run.
type VM struct{ ID, Name, Address string }

// Project makes a project of the account.
func (w *World) Project(ctx context.Context, what string) (id string, err error) {
	p, err := w.Make(ctx, w.User, "project", "createProject", api.Params{"name": w.Name(what), "displaytext": w.Name(what)})
	return p.Text("id"), err
}

// Isolated makes an isolated network, in a project if one is given.
func (w *World) Isolated(ctx context.Context, what, projectID string) (Network, error) {
	params := api.Params{"name": w.Name(what), "displaytext": w.Name(what), "zoneid": w.Offers.ZoneID, "networkofferingid": w.Offers.Isolated}
	if projectID != "" {
		params["projectid"] = projectID
	}
	n, err := w.Make(ctx, w.User, "network", "createNetwork", params)
	return Network{ID: n.Text("id"), Name: w.Name(what), ProjectID: projectID}, err
}

// VPC makes a VPC without tiers.
func (w *World) VPC(ctx context.Context, what string) (string, error) {
	v, err := w.Make(ctx, w.User, "VPC", "createVPC", api.Params{
		"name": w.Name(what), "displaytext": w.Name(what), "zoneid": w.Offers.ZoneID, "vpcofferingid": w.Offers.VPC, "cidr": "10.64.0.0/16",
	})
	return v.Text("id"), err
}

// ACLList makes a network ACL list of a VPC.
func (w *World) ACLList(ctx context.Context, what, vpcID string) (string, error) {
	l, err := w.Make(ctx, w.User, "ACL list", "createNetworkACLList", api.Params{"name": w.Name(what), "description": w.Name(what), "vpcid": vpcID})
	return l.Text("id"), err
}

// Tier makes the n-th tier of a VPC.
func (w *World) Tier(ctx context.Context, what, vpcID, aclID, offering string, n int) (Network, error) {
	t, err := w.Make(ctx, w.User, "tier", "createNetwork", api.Params{
		"name": w.Name(what), "displaytext": w.Name(what), "zoneid": w.Offers.ZoneID, "networkofferingid": offering,
		"vpcid": vpcID, "aclid": aclID, "gateway": fmt.Sprintf("10.64.%d.1", n), "netmask": "255.255.255.0",
	})
	return Network{ID: t.Text("id"), Name: w.Name(what), VPCID: vpcID, ACLID: aclID}, err
}

// VMs makes virtual machines in a network, all at once.
func (w *World) VMs(ctx context.Context, projectID, network string, names ...string) ([]VM, error) {
	vms, errs := make([]VM, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { vms[i], errs[i] = w.vm(ctx, projectID, network, w.Name(name)) })
	}
	wg.Wait()
	return vms, errors.Join(errs...)
}

func (w *World) vm(ctx context.Context, projectID, network, name string) (_ VM, err error) {
	defer must.Return(&err)
	params := api.Params{
		"name": name, "displayname": name, "zoneid": w.Offers.ZoneID, "serviceofferingid": w.Offers.ServiceOffering, "templateid": w.Offers.Template,
		"networkids": network,
	}
	if projectID != "" {
		params["projectid"] = projectID
	}
	o := must.Get(w.Make(ctx, w.User, "VM", "deployVirtualMachine", params))
	vm := VM{ID: o.Text("id"), Name: name, Address: address(o)}
	if vm.Address == "" {
		return vm, fmt.Errorf("VM %s has no address", name)
	}
	return vm, nil
}

// address is the address of a VM's default network interface.
func address(vm api.Object) string {
	for _, n := range vm.Objects("nic") {
		if n.Flag("isdefault") {
			return n.Text("ipaddress")
		}
	}
	return ""
}
