// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import "slices"

// Outcome is what the server named when an action was done.
type Outcome struct {
	ID string // of the address, rule or firewall rule created
	IP string // of the address acquired
}

// effect changes the model as an action that succeeded changed CloudStack.
func (a *Actual) effect(act Action, out Outcome) {
	if act.Kind == AllocateAddress {
		a.Addresses = append(a.Addresses, Address{
			ID: out.ID, IP: out.IP, NetworkID: act.NetworkID, Owner: Unknown, Allocated: true, Recorded: true, Known: true,
		})
		return
	}
	addr := a.find(act.AddressID)
	if addr == nil {
		return
	}
	switch act.Kind {
	case RememberAddress:
		addr.Recorded = true
	case TagAddress:
		addr.Tagged, addr.Owner, addr.OwnTags = true, Mine, TagKeys()
	case CreateRule:
		addr.Rules = append(addr.Rules, ActualRule{Rule: *act.Rule, ID: out.ID, State: "Add", Owner: Mine})
	case UpdateRule:
		for i := range addr.Rules {
			if r := &addr.Rules[i]; r.ID == act.RuleID {
				r.Name, r.Protocol, r.Algorithm = act.Rule.Name, act.Rule.Protocol, act.Rule.Algorithm
				if act.Rule.CIDRs != nil {
					r.CIDRs = slices.Clone(act.Rule.CIDRs)
				}
			}
		}
	case DeleteRule:
		addr.Rules = slices.DeleteFunc(addr.Rules, func(r ActualRule) bool { return r.ID == act.RuleID })
	case AddMembers, RemoveMembers:
		for i := range addr.Rules {
			if r := &addr.Rules[i]; r.ID == act.RuleID || (act.RuleID == "" && r.Owner == Mine && r.PublicPort == act.Port) {
				r.changeMembers(act)
			}
		}
	case OpenFirewall:
		addr.Firewall = append(addr.Firewall, ActualFirewall{FirewallRange: *act.Firewall, ID: out.ID})
	case CloseFirewall:
		addr.Firewall = slices.DeleteFunc(addr.Firewall, func(f ActualFirewall) bool { return f.ID == act.FirewallID })
	case ReleaseAddress, ForgetAddress:
		id := addr.ID
		a.Addresses = slices.DeleteFunc(a.Addresses, func(x Address) bool { return x.ID == id })
	case AllocateAddress: // above
	}
}

func (r *ActualRule) changeMembers(act Action) {
	if act.Kind == AddMembers {
		r.Members = append(slices.Clone(r.Members), act.Members...)
	} else {
		r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(m string) bool { return slices.Contains(act.Members, m) })
	}
	slices.Sort(r.Members)
	r.Members = slices.Compact(r.Members)
}

// find returns the address of an id, or for an empty id the one acquired last.
func (a *Actual) find(id string) *Address {
	if id == "" && len(a.Addresses) > 0 {
		return &a.Addresses[len(a.Addresses)-1]
	}
	for i := range a.Addresses {
		if a.Addresses[i].ID == id {
			return &a.Addresses[i]
		}
	}
	return nil
}
