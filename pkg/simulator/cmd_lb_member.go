// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// backends are the addresses that a call names for each VM, in the order of
// first mention. byID marks VMs of virtualmachineids.
type backends struct {
	order []*vm
	ips   map[*vm][]string
	byID  map[*vm]bool
}

// backends reads virtualmachineids and vmidipmap; naming a VM or an address twice is naming it once.
func (c *call) backends() (*backends, error) {
	b := &backends{ips: map[*vm][]string{}, byID: map[*vm]bool{}}
	mention := func(v *vm) {
		if !slices.Contains(b.order, v) {
			b.order = append(b.order, v)
		}
	}
	for _, e := range c.maps["vmidipmap"] {
		v, ok := c.st.vms.get(e["vmid"])
		if !ok || v.removed {
			return nil, invalid("Unable to find virtual machine ID: %s", e["vmid"])
		}
		ip, sent := e["vmip"]
		if !sent {
			ip = "null"
		}
		if a, err := netip.ParseAddr(ip); err != nil || !a.Is4() {
			return nil, invalid("Invalid ip address %s passed in vmidipmap for vmid %s", ip, e["vmid"])
		}
		mention(v)
		if !slices.Contains(b.ips[v], ip) {
			b.ips[v] = append(b.ips[v], ip)
		}
	}
	for _, r := range c.lists["virtualmachineids"] {
		if v, ok := r.obj.(*vm); ok {
			mention(v)
			b.byID[v] = true
		}
	}
	return b, nil
}

// namesBackends tells whether the call names any backends, be it an empty list.
func (c *call) namesBackends() bool {
	return c.has("virtualmachineids") || c.maps["vmidipmap"] != nil
}

func assignToLoadBalancerRule(c *call) (*jobSpec, error) {
	sent := c.now
	return c.lbJob("id", func(*lbRule) string { return assignFailed().text }, func(r *lbRule, now time.Time) (any, error) {
		list, err := c.backends()
		if err != nil {
			return nil, err
		}
		if !c.namesBackends() || r.removed || !c.access(r.owner()) {
			return nil, assignFailed()
		}
		var add []*lbMember
		for _, v := range list.order {
			members, err := r.newMembers(v, list, sent)
			if err != nil {
				return nil, err
			}
			for _, m := range members {
				m.since = now
			}
			add = append(add, members...)
		}
		r.members = append(r.members, add...)
		r.settle()
		return success{true}, nil
	})
}

// assignFailed is the one text into which every reason collapses.
func assignFailed() *apiError {
	return errf(codeInternal, csGeneric, "Failed to assign load balancer rule")
}

// newMembers checks one VM: all must be good before any is stored. Jobs on one
// rule run side by side. Of two that add the same pair at once the later one finds
// it taken; of three the last passed the check and failed in the database
// (concurrent.assign-same-vm; that the order is always this one is a guess).
func (r *lbRule) newMembers(v *vm, list *backends, sent time.Time) ([]*lbMember, *apiError) {
	n := v.nicIn(r.network)
	if v.gone() || v.owner != r.owner() || n == nil {
		return nil, assignFailed()
	}
	ips := list.ips[v]
	for _, ip := range ips {
		if ip != n.ip && !slices.ContainsFunc(n.secondary, func(s *secondaryIP) bool { return s.ip == ip }) {
			return nil, assignFailed()
		}
	}
	checked := len(ips) // the primary address beside named ones is not checked
	if list.byID[v] && !slices.Contains(ips, n.ip) {
		ips = append(slices.Clone(ips), n.ip)
		checked = max(checked, 1)
	}
	out := make([]*lbMember, 0, len(ips))
	for i, ip := range ips {
		for _, m := range r.members {
			switch {
			case m.vm != v || m.ip != ip:
			case i >= checked:
				return nil, errf(codeInternal, csRuntime, "Entity already exists ")
			case m.since.After(sent):
				if m.raced++; m.raced > 1 {
					return nil, errf(codeInternal, csRuntime, "Entity already exists ")
				}
				return nil, assignFailed()
			default:
				return nil, assignFailed()
			}
		}
		out = append(out, &lbMember{vm: v, ip: ip})
	}
	return out, nil
}

func removeFromLoadBalancerRule(c *call) (*jobSpec, error) {
	return c.lbJob("id", c.removeRefused, func(r *lbRule, _ time.Time) (any, error) {
		failed := invalid("Failed to remove instance from load balancer rule")
		list, err := c.backends()
		switch {
		case err != nil:
			return nil, err
		case !c.access(r.owner()):
			return nil, denied()
		case !c.namesBackends():
			return nil, failed
		}
		for v, ips := range list.ips {
			for _, ip := range ips {
				if !slices.ContainsFunc(r.members, func(m *lbMember) bool { return m.vm == v && m.ip == ip }) {
					return nil, failed
				}
			}
		}
		// A VM goes with all its addresses, unless the map names some of them.
		r.members = slices.DeleteFunc(r.members, func(m *lbMember) bool {
			if ips := list.ips[m.vm]; ips != nil {
				return slices.Contains(ips, m.ip)
			}
			return list.byID[m.vm]
		})
		r.settle()
		return success{true}, nil
	})
}

// removeRefused names the VMs by their internal ids.
func (c *call) removeRefused(*lbRule) string {
	var ids []string
	if list, err := c.backends(); err == nil {
		for _, v := range list.order {
			ids = append(ids, strconv.FormatInt(v.id, 10))
		}
	}
	return "Failed to remove specified load balancer rule id for vms [" + strings.Join(ids, ", ") + "]"
}

// memberView is an item of listLoadBalancerRuleInstances with lbvmips=true.
type memberView struct {
	VM  vmView   `json:"loadbalancerruleinstance"`
	IPs []string `json:"lbvmipaddresses"`
}

func listLoadBalancerRuleInstances(c *call) (any, error) {
	r := arg[*lbRule](c, "id")
	if r == nil {
		return nil, c.internal(csRuntime, "Unable to find the load balancer with ID [%d].", c.refs["id"].id)
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
