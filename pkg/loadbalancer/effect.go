// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import "slices"

// Outcome is what the server named when an action was done.
type Outcome struct {
	ID string // of the address, rule or firewall rule created
	IP string // of the address acquired
	// Number of the ACL item created.
	Number int
}

// effect changes the model as an action that succeeded changed CloudStack.
func (a *Actual) effect(act Action, out Outcome) {
	if act.Kind == AllocateAddress {
		a.Addresses = append(a.Addresses, Address{
			ID: out.ID, IP: out.IP, NetworkID: act.NetworkID, VPCID: act.VPCID, Internal: act.Internal,
			Owner: Unknown, Allocated: true, Recorded: true, Known: true, Opened: act.Opened,
		})
		return
	}
	if act.ACLID != "" {
		a.effectOnACL(act, out)
		return
	}
	addr := a.find(act.AddressID)
	if addr == nil {
		return
	}
	switch act.Kind {
	case RememberAddress:
		addr.Recorded, addr.Opened = true, act.Opened
	case TagAddress:
		addr.Tagged, addr.Owner, addr.OwnTags, addr.FormerCluster = true, Mine, TagKeys(), false
	case CreateRule:
		// Stickiness and certificate come with actions of their own.
		rule := *act.Rule
		rule.Stickiness, rule.Certificate = nil, ""
		addr.Rules = append(addr.Rules, ActualRule{Rule: rule, ID: out.ID, State: "Add", Owner: Mine})
	case UpdateRule:
		if r := addr.rule(act); r != nil {
			r.Name, r.Protocol, r.Algorithm = act.Rule.Name, act.Rule.Protocol, act.Rule.Algorithm
			if act.Rule.CIDRs != nil {
				r.CIDRs = slices.Clone(act.Rule.CIDRs)
			}
			if r.Protocol != ProtocolSSL {
				r.Certificate = ""
			}
		}
	case DeleteRule:
		addr.Rules = slices.DeleteFunc(addr.Rules, func(r ActualRule) bool { return r.ID == act.RuleID })
	case AddMembers, RemoveMembers:
		if r := addr.rule(act); r != nil {
			r.changeMembers(act)
		}
	case SetStickiness:
		addr.Sticky = true
		if r := addr.rule(act); r != nil {
			r.Stickiness, r.PolicyID = act.Rule.Stickiness, out.ID
		}
	case DropStickiness:
		if r := addr.rule(act); r != nil {
			r.Stickiness, r.PolicyID = nil, ""
		}
	case BindCertificate:
		if r := addr.rule(act); r != nil {
			r.Certificate = act.Rule.Certificate
		}
	case TagRules:
		for i := range addr.Rules {
			if r := &addr.Rules[i]; r.Owner == Mine && slices.Contains(act.Ports, r.PublicPort) {
				r.Tagged = true
			}
		}
	case OpenFirewall:
		addr.Firewall = append(addr.Firewall, ActualFirewall{FirewallRange: *act.Firewall, ID: out.ID})
	case CloseFirewall:
		addr.Firewall = slices.DeleteFunc(addr.Firewall, func(f ActualFirewall) bool { return f.ID == act.FirewallID })
	case ReleaseAddress, ForgetAddress:
		id := addr.ID
		a.Addresses = slices.DeleteFunc(a.Addresses, func(x Address) bool { return x.ID == id })
	case AllocateAddress, OpenACL, CloseACL: // above
	}
}

// rule is the rule of an action: by its id, or the one that the plan made on the port.
func (a *Address) rule(act Action) *ActualRule {
	for i := range a.Rules {
		if r := &a.Rules[i]; r.ID == act.RuleID || (act.RuleID == "" && r.Owner == Mine && r.PublicPort == act.Port) {
			return r
		}
	}
	return nil
}

func (a *Actual) effectOnACL(act Action, out Outcome) {
	at := slices.IndexFunc(a.ACLs, func(l ACL) bool { return l.ListID == act.ACLID })
	if at < 0 {
		a.ACLs, at = append(a.ACLs, ACL{ListID: act.ACLID}), len(a.ACLs)
	}
	list := &a.ACLs[at]
	if act.Kind == CloseACL {
		list.Items = slices.DeleteFunc(list.Items, func(i ACLItem) bool { return i.ID == act.FirewallID })
		return
	}
	list.Items = append(list.Items, ACLItem{
		ActualFirewall: ActualFirewall{FirewallRange: *act.Firewall, ID: out.ID}, Number: out.Number, Ingress: true, Allow: true, Owner: Mine,
	})
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
