// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"time"
)

var memberCommands = []command{
	{name: "assignToLoadBalancerRule", refs: lbRefs, submit: assignToLoadBalancerRule, class: "user.loadbalancer.AssignToLoadBalancerRuleCmd"},
	{name: "removeFromLoadBalancerRule", refs: lbRefs, submit: removeFromLoadBalancerRule, class: "user.loadbalancer.RemoveFromLoadBalancerRuleCmd"},
	{name: "listLoadBalancerRuleInstances", refs: lbRefs, run: listLoadBalancerRuleInstances},
}

// backend is one VM with the address that a call names for it; an empty address stands for the NIC's own.
type backend struct {
	vm *vm
	ip string
}

// backends reads virtualmachineids and vmidipmap.
func (c *call) backends() ([]backend, error) {
	var out []backend
	for _, e := range c.maps["vmidipmap"] {
		v, ok := c.st.vms.get(e["vmid"])
		if !ok {
			return nil, invalid("Unable to find virtual machine ID: %s", e["vmid"])
		}
		ip := e["vmip"]
		if a, err := netip.ParseAddr(ip); err != nil || !a.Is4() {
			return nil, invalid("Invalid ip address %s passed in vmidipmap for vmid %s", ip, e["vmid"])
		}
		out = append(out, backend{vm: v, ip: ip})
	}
	for _, r := range c.lists["virtualmachineids"] {
		if v, ok := r.obj.(*vm); ok {
			out = append(out, backend{vm: v})
		}
	}
	return out, nil
}

func assignToLoadBalancerRule(c *call) (*jobSpec, error) {
	r := arg[*lbRule](c, "id")
	if r == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		// Every reason collapses into one text.
		failed := errf(codeInternal, csRuntime, "Failed to assign load balancer rule")
		list, err := c.backends()
		switch {
		case err != nil:
			return nil, err
		case !c.has("virtualmachineids") && c.maps["vmidipmap"] == nil, r.removed, !c.access(r.owner()):
			return nil, failed
		}
		add := make([]*lbMember, 0, len(list))
		for _, b := range list {
			m, ok := r.newMember(b)
			if !ok || slices.ContainsFunc(slices.Concat(r.members, add), func(o *lbMember) bool { return o.vm == m.vm && o.ip == m.ip }) {
				return nil, failed
			}
			add = append(add, m)
		}
		r.members = append(r.members, add...)
		if len(add) > 0 {
			r.state = ruleActive
		}
		return success{true}, nil
	}}, nil
}

// newMember checks one backend: all must be good before any is stored.
func (r *lbRule) newMember(b backend) (*lbMember, bool) {
	n := b.vm.nicIn(r.network)
	if b.vm.gone() || b.vm.owner != r.owner() || n == nil {
		return nil, false
	}
	if b.ip == "" {
		return &lbMember{vm: b.vm, ip: n.ip}, true
	}
	if b.ip != n.ip && !slices.ContainsFunc(n.secondary, func(s *secondaryIP) bool { return s.ip == b.ip }) {
		return nil, false
	}
	return &lbMember{vm: b.vm, ip: b.ip}, true
}

func removeFromLoadBalancerRule(c *call) (*jobSpec, error) {
	r := arg[*lbRule](c, "id")
	if r == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		failed := invalid("Failed to remove instance from load balancer rule")
		list, err := c.backends()
		switch {
		case err != nil:
			return nil, err
		case !c.access(r.owner()):
			return nil, denied()
		case !c.has("virtualmachineids") && c.maps["vmidipmap"] == nil:
			return nil, failed
		}
		for _, b := range list {
			if b.ip != "" && !slices.ContainsFunc(r.members, func(m *lbMember) bool { return m.vm == b.vm && m.ip == b.ip }) {
				return nil, failed
			}
		}
		r.members = slices.DeleteFunc(r.members, func(m *lbMember) bool {
			return slices.ContainsFunc(list, func(b backend) bool { return b.vm == m.vm && (b.ip == "" || b.ip == m.ip) })
		})
		if len(r.members) == 0 {
			r.state = ruleAdd
		}
		return success{true}, nil
	}}, nil
}

// memberView is an item of listLoadBalancerRuleInstances with lbvmips=true.
type memberView struct {
	VM  vmView   `json:"loadbalancerruleinstance"`
	IPs []string `json:"lbvmipaddresses"`
}

func listLoadBalancerRuleInstances(c *call) (any, error) {
	r := arg[*lbRule](c, "id")
	if r == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	if !c.access(r.owner()) {
		return nil, denied()
	}
	var order []*vm
	ips := map[*vm][]string{}
	if c.boolOr("applied", true) {
		for _, m := range r.members {
			if m.vm.gone() || m.vm.state == vmError || m.vm.state == "Unknown" {
				continue
			}
			if ips[m.vm] == nil {
				order = append(order, m.vm)
			}
			ips[m.vm] = append(ips[m.vm], m.ip)
		}
	}
	slices.SortStableFunc(order, func(a, b *vm) int { return int(a.id - b.id) })
	if c.boolean("lbvmips") {
		return whole("lbrulevmidip", order, func(v *vm) memberView {
			return memberView{VM: c.viewMember(v), IPs: ips[v]}
		}), nil
	}
	return whole("loadbalancerruleinstance", order, c.viewMember), nil
}
