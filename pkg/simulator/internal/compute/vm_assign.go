// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// assignVirtualMachine moves a stopped VM to another account. The VM leaves its networks and joins the given ones, or
// the default network of the new owner.
func assignVirtualMachine(c *wire.Call, create NetworkCreator) (any, error) {
	v := wire.Arg[*store.VM](c, "virtualmachineid")
	if v == nil || v.Removed {
		return nil, wire.Invalid("There is no VM by ID [%d].", c.Refs["virtualmachineid"].ID)
	}
	owner, err := c.OwnerArg(true)
	switch {
	case err != nil:
		return nil, err
	case owner == nil:
		return nil, wire.Invalid("Please specify the new account or project of the VM.")
	case !c.Access(v.Owner) || !c.Access(owner):
		return nil, wire.Denied()
	case v.State == store.VMRunning:
		return nil, wire.Invalid("Unable to move VM [%s] in [%s] state.", v.Text(), v.State)
	case owner == v.Owner:
		return nil, wire.Invalid("The new account owner [%s] and the old account owner [%s] are the same.", owner.Name, v.Owner.Name)
	}
	if err := checkNoRules(c.St, v); err != nil {
		return nil, err
	}
	need := wire.VMDemand(v.Offering)
	for _, d := range v.Volumes {
		need.Volumes, need.DiskGiB = need.Volumes+1, need.DiskGiB+d.Size/settings.Gib
	}
	if err := c.CheckDemand(owner, need); err != nil {
		return nil, err
	}
	nets, err := assignNetworks(c, v, owner, create)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Clone(v.NICs) {
		c.St.DropNIC(n)
	}
	for _, n := range nets {
		if _, ok := c.St.Connect(v, store.NICRequest{Network: n}, c.Now); !ok {
			return nil, noGuestIP(c, n)
		}
	}
	v.Owner, v.User, v.Group, v.Affinity = owner, ownersUser(c, owner), nil, nil
	return vmAnswer{view.ViewVM(c, v, nil)}, nil
}

// checkNoRules refuses to move a VM that rules refer to.
func checkNoRules(st *store.State, v *store.VM) error {
	if slices.ContainsFunc(st.PFRules.Rows, func(r *store.PFRule) bool { return r.VM == v }) {
		return wire.Invalid("Remove any Port forwarding rules for VM [%s] before assigning it to another user.", v.Text())
	}
	for _, r := range st.LBRules.Rows {
		if slices.ContainsFunc(r.Members, func(m *store.LBMember) bool { return m.VM == v }) {
			return wire.Invalid("Remove the Load Balancing rules for VM [%s] before assigning it to another user.", v.Text())
		}
	}
	for _, ip := range st.IPs.Rows {
		if ip.StaticVM == v {
			return wire.Invalid("Remove the StaticNat rules for VM [%s] before assigning it to another user.", v.Text())
		}
	}
	return nil
}

func assignNetworks(c *wire.Call, v *store.VM, owner *store.Account, create NetworkCreator) ([]*store.Network, error) {
	var nets []*store.Network
	for _, r := range c.Lists["networkids"] {
		n, ok := r.Obj.(*store.Network)
		if !ok || n.Removed || n.Zone != v.Zone {
			return nil, wire.Invalid("Unable to find network by id %d", r.ID)
		}
		if err := networkPermission(owner, n); err != nil {
			return nil, err
		}
		nets = append(nets, n)
	}
	if len(nets) > 0 {
		return nets, nil
	}
	n, err := defaultNetwork(c, owner, v.Zone, create)
	if err != nil {
		return nil, err
	}
	return []*store.Network{n}, nil
}
