// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Effect returns the actual state after the action succeeded.
func (s Step) Effect(before Actual, o Outcome) Actual {
	after := before.Clone()
	switch s.Kind {
	case AllocateAddress:
		after.Addresses = append(after.Addresses, Address{
			ID: o.ID, IP: o.IP, NetworkID: s.NetworkID, VPCID: s.VPCID, Internal: s.Internal,
			Owner: Unknown, Allocated: true, Recorded: true, ForwardsKnown: true,
		})
	case ReleaseAddress, ForgetAddress:
		if a := after.Find(s.AddressID); a != nil {
			id := a.ID
			after.Addresses = slices.DeleteFunc(after.Addresses, func(x Address) bool { return x.ID == id })
		}
	case OpenFirewall, OpenACL:
		inList := s.ACLID != ""
		after.changeItems(s.On, func(list []AccessItem) []AccessItem {
			return append(list, AccessItem{Rule: access.Rule{Range: s.Access, ID: o.ID}, Number: o.Number, Ingress: inList, Allow: inList, Mark: Mark{Owner: Owned}})
		})
	case CloseFirewall, CloseACL:
		after.changeItems(s.On, func(list []AccessItem) []AccessItem {
			return slices.DeleteFunc(list, func(i AccessItem) bool { return i.ID == s.ItemID })
		})
	case TagRules, TagForwards, TagFirewall, TagACL:
		for _, item := range after.Own(s.On, s.Resource()) {
			item.Owner, item.Tagged, item.Former = Owned, true, false
		}
	default:
		if a := after.Find(s.AddressID); a != nil {
			s.change(a, o)
			if r := a.Rule(s.ItemID, s.Port); r != nil {
				s.changeRule(r, o)
				a.HasStickiness = a.HasStickiness || r.PolicyID != ""
			}
		}
	}
	return after
}

// change is the effect of an action on an address that stays, but for those on a rule that stays.
func (s Step) change(a *Address, o Outcome) {
	switch s.Kind {
	case TagAddress:
		a.Tagged, a.Owner, a.OwnTags, a.FormerCluster = true, Owned, TagKeys(), false
	case CreateRule:
		rule := s.Rule
		rule.Stickiness, rule.Certificate = nil, ""
		a.Rules = append(a.Rules, ActualRule{Rule: rule, ID: o.ID, State: StateAdd, Mark: Mark{Owner: Owned}})
	case DeleteRule:
		a.Rules = slices.DeleteFunc(a.Rules, func(r ActualRule) bool { return r.ID == s.ItemID })
	case CreateForward:
		a.Forwards = append(a.Forwards, Forward{
			ID: o.ID, Protocol: s.Protocol, StartPort: s.Port, EndPort: s.Port, Mark: Mark{Owner: Owned},
			Member: s.Member, PrivatePort: s.PrivatePort, CIDRs: s.CIDRs,
		})
	case DeleteForward:
		a.Forwards = slices.DeleteFunc(a.Forwards, func(f Forward) bool { return f.ID == s.ItemID })
	case UpdateForward:
		at := slices.IndexFunc(a.Forwards, func(f Forward) bool { return f.ID == s.ItemID })
		if at < 0 {
			return
		}
		f := &a.Forwards[at]
		f.State, f.Member, f.PrivatePort = "", cmp.Or(s.Member, f.Member), cmp.Or(s.PrivatePort, f.PrivatePort)
		if len(s.CIDRs) > 0 {
			f.CIDRs = s.CIDRs
		}
	}
}

// changeRule is the effect of an action on a rule.
func (s Step) changeRule(r *ActualRule, o Outcome) {
	switch s.Kind {
	case UpdateRule:
		r.Name, r.Protocol, r.Algorithm = s.Rule.Name, s.Rule.Protocol, s.Rule.Algorithm
		if s.Rule.CIDRs != nil {
			r.CIDRs = slices.Clone(s.Rule.CIDRs)
		}
		if r.Protocol != ProtocolSSL {
			r.Certificate = ""
		}
	case AddMembers:
		r.Members = ordered(slices.Concat(r.Members, s.Members))
		if slices.Equal(r.Members, s.Members) {
			r.Members = s.Members // one copy of a long list
		}
	case RemoveMembers:
		r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(m string) bool { return slices.Contains(s.Members, m) })
	case SetStickiness:
		r.Stickiness, r.PolicyID = s.Rule.Stickiness, o.ID
	case DropStickiness:
		r.Stickiness, r.PolicyID = nil, ""
	case BindCertificate:
		r.Certificate = s.Rule.Certificate
	}
}

// changeItems changes the firewall rules of an address, or the items of a network ACL list.
func (a *Actual) changeItems(on On, change func([]AccessItem) []AccessItem) {
	if on.ACLID != "" {
		l := a.ACL(on.ACLID)
		l.Items = change(l.Items)
	} else if x := a.Find(on.AddressID); x != nil {
		x.Firewall = change(x.Firewall)
	}
}

// Item is one of the Service's own items.
type Item struct {
	ID       string
	Deleting bool
	*Mark
}

// Own returns the Service's own items of one type on an address, or in a network ACL list.
func (a *Actual) Own(on On, resource string) []Item {
	if on.ACLID != "" {
		return a.ACL(on.ACLID).own()
	}
	if x := a.Find(on.AddressID); x != nil {
		return x.own(resource)
	}
	return nil
}

func (l *ACL) own() (out []Item) {
	for i := range l.Items {
		if item := &l.Items[i]; item.Owner == Owned {
			out = append(out, Item{item.ID, item.Deleting, &item.Mark})
		}
	}
	return out
}

func (a *Address) own(resource string) (out []Item) {
	switch resource {
	case ResourceRule:
		for i := range a.Rules {
			if r := &a.Rules[i]; r.Owner == Owned {
				out = append(out, Item{r.ID, r.State == StateDeleting, &r.Mark})
			}
		}
	case ResourceForward:
		for i := range a.Forwards {
			if f := &a.Forwards[i]; f.Owner == Owned {
				out = append(out, Item{f.ID, f.State == StateDeleting, &f.Mark})
			}
		}
	case ResourceFirewall:
		for i := range a.Firewall {
			if f := &a.Firewall[i]; a.OwnsFirewall(*f) {
				out = append(out, Item{f.ID, f.Deleting, &f.Mark})
			}
		}
	}
	return out
}

// SameAcquisition reports whether a rule or forwarding with our tags is still on the address: it would be gone if somebody had
// released the address since, and CloudStack refuses static NAT where there is one. Beside a firewall rule it does not.
func (a *Address) SameAcquisition(before *Address) bool {
	return slices.ContainsFunc([]string{ResourceRule, ResourceForward}, func(resource string) bool {
		return slices.ContainsFunc(a.own(resource), func(now Item) bool {
			return now.Tagged && !now.Deleting && slices.ContainsFunc(before.own(resource), func(then Item) bool { return then.ID == now.ID })
		})
	})
}

// Changed is a set of things in CloudStack that plans have changed, or tried to. A name is a path: what belongs to a thing
// is below it, as a rule's members are below the rule.
type Changed map[string]bool

// Add adds what steps change.
func (c Changed) Add(steps []Step) {
	for _, s := range steps {
		for _, name := range changes(s) {
			c[name] = true
		}
	}
}

func (c Changed) has(name string) bool {
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '/') {
		if c[name[:end]] {
			return true
		}
	}
	return false
}

// Repairs returns the steps of a plan that undo what others did. back is the plan, from the same actual state, to the
// desired state that was reached last: CloudStack had that state, so that what back changes was changed since. tried is what
// the controller has changed since, or may have. A step repairs what back changes in the same way and the controller did not
// change.
func Repairs(steps, back []Step, tried Changed) []Step {
	undone := map[string]bool{}
	for _, s := range back {
		for _, name := range changes(s) {
			if !tried.has(name) {
				undone[s.Kind+" "+name] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		return !slices.ContainsFunc(changes(s), func(name string) bool { return undone[s.Kind+" "+name] })
	})
}

// changes names what a step changes in CloudStack. Tags are left out: they may be missing because they could not be set.
func changes(s Step) []string {
	name := s.name()
	switch s.Kind {
	case AllocateAddress:
		return []string{"address"}
	case ReleaseAddress, ForgetAddress, CreateRule, DeleteRule, DeleteForward:
		return []string{name}
	case UpdateRule:
		return []string{name + "/settings"}
	case SetStickiness, DropStickiness:
		return []string{name + "/stickiness"}
	case BindCertificate:
		return []string{name + "/certificate"}
	case CreateForward:
		return []string{name + "/to/" + s.Member}
	case UpdateForward:
		return []string{name + "/settings/" + s.ItemID}
	}
	var out []string
	for _, m := range s.Members {
		out = append(out, name+"/member/"+m)
	}
	if r := s.Access; r.Protocol != "" {
		for port := r.StartPort; port <= r.EndPort; port++ {
			for _, cidr := range r.CIDRs {
				out = append(out, fmt.Sprintf("%s/sources/%s/%d from %s", name, r.Protocol, port, cidr))
			}
		}
	}
	return out
}

// name is the path of what the action works on.
func (s Step) name() string {
	name := "address/" + s.AddressID + s.ACLID
	switch {
	case s.OnForward():
		name += fmt.Sprintf("/forward/%s/%d", s.Protocol, s.Port)
	case s.OnRule():
		name += fmt.Sprintf("/rule/%d", s.Port)
	}
	return name
}
