// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// backends are the addresses that a call names for each VM, in the order of first mention. byID marks VMs from
// virtualmachineids.
type backends struct {
	order []*store.VM
	ips   map[*store.VM][]string
	byID  map[*store.VM]bool
}

// readBackends reads virtualmachineids and vmidipmap; a VM or an address that is named twice counts once.
func readBackends(c *wire.Call) (*backends, error) {
	b := &backends{ips: map[*store.VM][]string{}, byID: map[*store.VM]bool{}}
	mention := func(v *store.VM) {
		if !slices.Contains(b.order, v) {
			b.order = append(b.order, v)
		}
	}

	for _, e := range c.Maps["vmidipmap"] {
		v, ok := c.St.VMs.Get(e["vmid"])
		if !ok || v.Removed {
			return nil, wire.Invalid("Unable to find virtual machine ID: %s", e["vmid"])
		}
		ip, sent := e["vmip"]
		if !sent {
			ip = "null"
		}
		if a, err := netip.ParseAddr(ip); err != nil || !a.Is4() {
			return nil, wire.Invalid("Invalid ip address %s passed in vmidipmap for vmid %s", ip, e["vmid"])
		}
		mention(v)
		if !slices.Contains(b.ips[v], ip) {
			b.ips[v] = append(b.ips[v], ip)
		}
	}

	for _, r := range c.Lists["virtualmachineids"] {
		if v, ok := r.Obj.(*store.VM); ok {
			mention(v)
			b.byID[v] = true
		}
	}

	return b, nil
}

// namesBackends reports whether the call names backends; true also for an empty list.
func namesBackends(c *wire.Call) bool {
	return c.Has("virtualmachineids") || c.Maps["vmidipmap"] != nil
}

func assignToLoadBalancerRule(c *wire.Call) (*wire.JobSpec, error) {
	sent := c.Now
	return lbJob(c, "id", func(*store.LBRule) string { return assignFailed().Text },
		func(r *store.LBRule, now time.Time) (any, error) {
			list, err := readBackends(c)
			if err != nil {
				return nil, err
			}

			if !namesBackends(c) || r.Removed || !c.Access(r.Owner()) {
				return nil, assignFailed()
			}

			var add []*store.LBMember
			for _, v := range list.order {
				members, err := newMembers(r, v, list, sent)
				if err != nil {
					return nil, err
				}
				for _, m := range members {
					m.Since = now
				}
				add = append(add, members...)
			}
			before := r.Members
			r.Members = append(slices.Clone(before), add...)
			if err := apply(c, r, assignFailed().Text, func() { r.Members = before }); err != nil {
				return nil, err
			}

			return wire.Success{Success: true}, nil
		})
}

// assignFailed returns the error that CloudStack uses for every reason.
func assignFailed() *wire.Error {
	return wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to assign load balancer rule")
}

// newMembers returns the new members for one VM, or an error. All VMs must be valid before any member is stored. Jobs
// on one rule run concurrently. If two calls add the same pair at once, the later one finds it taken. With three
// calls, the last one passed the check and failed in the database (concurrent.assign-same-vm; it is a guess that this
// order is always the same).
func newMembers(r *store.LBRule, v *store.VM, list *backends, sent time.Time) ([]*store.LBMember, *wire.Error) {
	n := v.NICIn(r.Network)
	if v.Gone() || v.Owner != r.Owner() || n == nil {
		return nil, assignFailed()
	}

	ips := list.ips[v]
	for _, ip := range ips {
		if ip != n.IP && !slices.ContainsFunc(n.Secondary, func(s *store.SecondaryIP) bool { return s.IP == ip }) {
			return nil, assignFailed()
		}
	}

	checked := len(ips) // CloudStack does not check the primary address if other addresses are named
	if list.byID[v] && !slices.Contains(ips, n.IP) {
		ips = append(slices.Clone(ips), n.IP)
		checked = max(checked, 1)
	}

	out := make([]*store.LBMember, 0, len(ips))
	for i, ip := range ips {
		for _, m := range r.Members {
			switch {
			case m.VM != v || m.IP != ip:
			case i >= checked:
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Entity already exists ")
			case m.Since.After(sent):
				if m.Raced++; m.Raced > 1 {
					return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Entity already exists ")
				}
				return nil, assignFailed()
			default:
				return nil, assignFailed()
			}
		}
		out = append(out, &store.LBMember{VM: v, IP: ip})
	}

	return out, nil
}

func removeFromLoadBalancerRule(c *wire.Call) (*wire.JobSpec, error) {
	return lbJob(c, "id", func(p0 *store.LBRule) string { return removeRefused(c, p0) },
		func(r *store.LBRule, _ time.Time) (any, error) {
			failed := wire.Invalid("Failed to remove instance from load balancer rule")
			list, err := readBackends(c)
			switch {
			case err != nil:
				return nil, err
			case !c.Access(r.Owner()):
				return nil, wire.Denied()
			case !namesBackends(c):
				return nil, failed
			}

			for v, ips := range list.ips {
				for _, ip := range ips {
					if !slices.ContainsFunc(r.Members, func(m *store.LBMember) bool {
						return m.VM == v && m.IP == ip
					}) {
						return nil, failed
					}
				}
			}

			// A VM is removed with all its addresses, unless the map names some of them.
			before := r.Members
			r.Members = slices.DeleteFunc(slices.Clone(before), func(m *store.LBMember) bool {
				if ips := list.ips[m.VM]; ips != nil {
					return slices.Contains(ips, m.IP)
				}
				return list.byID[m.VM]
			})

			if err := apply(c, r, removeRefused(c, r), func() { r.Members = before }); err != nil {
				return nil, err
			}

			return wire.Success{Success: true}, nil
		})
}

// removeRefused returns the error text, which names the VMs by their internal ids.
func removeRefused(c *wire.Call, _ *store.LBRule) string {
	var ids []string
	if list, err := readBackends(c); err == nil {
		for _, v := range list.order {
			ids = append(ids, strconv.FormatInt(v.ID, 10))
		}
	}
	return "Failed to remove specified load balancer rule id for vms [" + strings.Join(ids, ", ") + "]"
}

// memberView is an item of listLoadBalancerRuleInstances with lbvmips=true.
type memberView struct {
	VM  view.VMView `json:"loadbalancerruleinstance"`
	IPs []string    `json:"lbvmipaddresses"`
}

func listLoadBalancerRuleInstances(c *wire.Call) (any, error) {
	r := wire.Arg[*store.LBRule](c, "id")
	if r == nil {
		return nil, c.Internal(wire.CSRuntime, "Unable to find the load balancer with ID [%d].", c.Refs["id"].ID)
	}

	if !c.Access(r.Owner()) {
		return nil, wire.Denied()
	}

	var order []*store.VM
	ips := map[*store.VM][]string{}
	if c.BoolOr("applied", true) {
		for _, m := range r.Members {
			if m.VM.Gone() || m.VM.State == store.VMError || m.VM.State == "Unknown" {
				continue
			}
			if ips[m.VM] == nil {
				order = append(order, m.VM)
			}
			ips[m.VM] = append(ips[m.VM], m.IP)
		}
	}

	slices.SortStableFunc(order, func(a, b *store.VM) int { return int(a.ID - b.ID) })
	if c.Boolean("lbvmips") {
		return wire.Whole("lbrulevmidip", order, func(v *store.VM) memberView {
			return memberView{VM: view.ViewMember(c, v), IPs: ips[v]}
		}), nil
	}

	return wire.Whole("loadbalancerruleinstance", order,
		func(v *store.VM) view.VMView { return view.ViewMember(c, v) }), nil
}
