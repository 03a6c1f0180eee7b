// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// members are a rule's members: as remembered while that is young, else as read.
func (r *Reconciler) members(ctx context.Context, t *task, src *source, rule *ActualRule, a *Address) ([]string, error) {
	known, ok := t.mem.members[rule.ID]
	emptied := rule.State == "Add" && len(known.vms) > 0 // CloudStack's state of a rule without members
	limit := r.options.MemberPeriod
	if t.verify {
		limit = r.options.DriftPeriod / 2
	}
	if ok && !emptied && (r.options.MemberPeriod == 0 || r.options.Clock.Since(known.at) < limit) {
		return known.vms, nil
	}
	addressed := slices.ContainsFunc(t.wanted.Members, func(m string) bool { return strings.Contains(m, "@") })
	if !addressed {
		vms, ok, err := src.membersOf(ctx, rule, a)
		if err != nil {
			return nil, err
		}
		if ok {
			vms = slices.Sorted(slices.Values(vms))
			t.mem.members[rule.ID] = memberRead{vms: vms, at: src.lists.begun}
			return vms, nil
		}
	}
	list, err := r.api.ListLoadBalancerMembers(ctx, rule.ID)
	if err != nil {
		return nil, fmt.Errorf("list members of rule %s: %w", rule.Name, err)
	}
	vms := t.named(list)
	t.mem.members[rule.ID] = memberRead{vms: vms, at: r.options.Clock.Now()}
	return vms, nil
}

// named writes members as memberName does. Of a VM that is no node any more the NIC's address is not known.
func (t *task) named(list []cloudstack.LoadBalancerMember) []string {
	out := make([]string, 0, len(list))
	for i := range list {
		m := &list[i]
		primary, known := t.primary(m.VMID)
		if !known || len(m.Addresses) == 0 {
			out = append(out, m.VMID)
			continue
		}
		for _, address := range m.Addresses {
			if address == primary {
				address = ""
			}
			out = append(out, memberName(m.VMID, address))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// primary is the address of a VM's NIC in the wanted network.
func (t *task) primary(vm string) (string, bool) {
	for i := range t.Members {
		if t.Members[i].VMID != vm {
			continue
		}
		for _, nic := range t.Members[i].NICs {
			if nic.NetworkID == t.wanted.NetworkID && nic.IP != "" {
				return nic.IP, true
			}
		}
	}
	return "", false
}

// memberAddresses are members as CloudStack takes them. To take one address of a VM and leave another, both
// have to be named.
func (t *task) memberAddresses(names, remaining []string) []cloudstack.MemberAddress {
	out := make([]cloudstack.MemberAddress, 0, len(names))
	for _, name := range names {
		vm, ip := splitMember(name)
		stays := slices.ContainsFunc(remaining, func(other string) bool {
			otherVM, _ := splitMember(other)
			return otherVM == vm && other != name && !slices.Contains(names, other)
		})
		if ip == "" && stays {
			ip, _ = t.primary(vm)
		}
		out = append(out, cloudstack.MemberAddress{VMID: vm, IP: ip})
	}
	return out
}
