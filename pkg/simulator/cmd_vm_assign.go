// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "slices"

// assignVirtualMachine moves a stopped VM to another account. The VM leaves its networks and joins the given ones, or
// the default network of the new owner.
func assignVirtualMachine(c *call, create networkCreator) (any, error) {
	v := arg[*vm](c, "virtualmachineid")
	if v == nil || v.removed {
		return nil, invalid("There is no VM by ID [%d].", c.refs["virtualmachineid"].id)
	}
	owner, err := c.ownerArg(true)
	switch {
	case err != nil:
		return nil, err
	case owner == nil:
		return nil, invalid("Please specify the new account or project of the VM.")
	case !c.access(v.owner) || !c.access(owner):
		return nil, denied()
	case v.state == vmRunning:
		return nil, invalid("Unable to move VM [%s] in [%s] state.", v.text(), v.state)
	case owner == v.owner:
		return nil, invalid("The new account owner [%s] and the old account owner [%s] are the same.", owner.name, v.owner.name)
	}
	if err := c.st.checkNoRules(v); err != nil {
		return nil, err
	}
	need := vmDemand(v.offering)
	for _, d := range v.volumes {
		need.volumes, need.diskGiB = need.volumes+1, need.diskGiB+d.size/gib
	}
	if err := c.checkDemand(owner, need); err != nil {
		return nil, err
	}
	nets, err := c.assignNetworks(v, owner, create)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Clone(v.nics) {
		c.st.dropNIC(n)
	}
	for _, n := range nets {
		if _, ok := c.st.connect(v, nicRequest{network: n}, c.now); !ok {
			return nil, c.noGuestIP(n)
		}
	}
	v.owner, v.user, v.group, v.affinity = owner, c.ownersUser(owner), nil, nil
	return vmAnswer{c.viewVM(v, nil)}, nil
}

// checkNoRules refuses to move a VM that rules refer to.
func (st *state) checkNoRules(v *vm) error {
	if slices.ContainsFunc(st.pfRules.rows, func(r *pfRule) bool { return r.vm == v }) {
		return invalid("Remove any Port forwarding rules for VM [%s] before assigning it to another user.", v.text())
	}
	for _, r := range st.lbRules.rows {
		if slices.ContainsFunc(r.members, func(m *lbMember) bool { return m.vm == v }) {
			return invalid("Remove the Load Balancing rules for VM [%s] before assigning it to another user.", v.text())
		}
	}
	for _, ip := range st.ips.rows {
		if ip.staticVM == v {
			return invalid("Remove the StaticNat rules for VM [%s] before assigning it to another user.", v.text())
		}
	}
	return nil
}

func (c *call) assignNetworks(v *vm, owner *account, create networkCreator) ([]*network, error) {
	var nets []*network
	for _, r := range c.lists["networkids"] {
		n, ok := r.obj.(*network)
		if !ok || n.removed || n.zone != v.zone {
			return nil, invalid("Unable to find network by id %d", r.id)
		}
		if err := networkPermission(owner, n); err != nil {
			return nil, err
		}
		nets = append(nets, n)
	}
	if len(nets) > 0 {
		return nets, nil
	}
	n, err := c.defaultNetwork(owner, v.zone, create)
	if err != nil {
		return nil, err
	}
	return []*network{n}, nil
}
