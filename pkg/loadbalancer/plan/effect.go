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

// Effect changes the actual state in the same way as the action has changed CloudStack.
func (s Step) Effect(on *Actual, o Outcome) {
	if s.Kind == AllocateAddress {
		on.Addresses = append(on.Addresses, Address{
			ID: o.ID, IP: o.IP, NetworkID: s.NetworkID, VPCID: s.VPCID, Internal: s.Internal,
			Owner: Unknown, Allocated: true, Recorded: true, ForwardsKnown: true,
		})
		return
	}

	a, list := on.Find(s.AddressID), on.list(s.On, s.Resource())
	switch {
	case a == nil && s.ACLID == "": // the address no longer exists
	case s.Kind == ReleaseAddress, s.Kind == DisownAddress:
		id := a.ID
		on.Addresses = slices.DeleteFunc(on.Addresses, func(x Address) bool { return x.ID == id })
	case s.Kind == TagAddress:
		a.Tagged, a.Owner, a.OwnTags, a.FormerCluster = true, Owned, TagKeys(), false
		if s.Keep {
			a.OwnTags = append(a.OwnTags, TagKeepIP)
		}

	case s.Makes() != "":
		// A read may already have shown the item before its job ended.
		if !slices.ContainsFunc(*list, func(i Item) bool { return i.ID == o.ID }) {
			*list = append(*list, s.created(o))
		}

	case s.removes() != "":
		*list = slices.DeleteFunc(*list, func(i Item) bool { return i.ID == s.ItemID })
	case list != nil:
		for _, item := range on.Own(s.On, s.Resource()) {
			item.Owner, item.Tagged, item.Former = Owned, true, false
		}

	case s.Kind == UpdateForward:
		if at := slices.IndexFunc(a.Forwards, func(f Item) bool { return f.ID == s.ItemID }); at >= 0 {
			s.change(&a.Forwards[at], o)
		}

	default:
		if r := a.Rule(s.ItemID, s.Port); r != nil {
			s.change(r, o)
			a.HasStickiness = a.HasStickiness || r.PolicyID != ""
		}
	}
}

// created returns the item that the action creates.
func (s Step) created(o Outcome) Item {
	item := Item{Rule: access.Rule{Range: s.Access, ID: o.ID}, Mark: Mark{Owner: Owned}}
	switch s.Kind {
	case CreateRule:
		item.State = StateAdd
		item.Name = s.Rule.Name
		item.Algorithm = s.Rule.Algorithm
		item.PrivatePort = s.Rule.PrivatePort
		item.Range = access.Range{Protocol: s.Rule.Protocol, StartPort: s.Port, EndPort: s.Port, CIDRs: s.Rule.CIDRs}
	case CreateForward:
		item.Member, item.PrivatePort = s.Member, s.PrivatePort
		item.Range = access.Range{Protocol: s.Protocol, StartPort: s.Port, EndPort: s.Port, CIDRs: s.CIDRs}
	case OpenACL:
		item.Number, item.Ingress, item.Allow = o.Number, true, true
	}
	return item
}

// change applies the effect of an action to an existing item.
func (s Step) change(r *Item, o Outcome) {
	switch s.Kind {
	case UpdateForward:
		r.State, r.Member, r.PrivatePort = "", cmp.Or(s.Member, r.Member), cmp.Or(s.PrivatePort, r.PrivatePort)
		if len(s.CIDRs) > 0 {
			r.CIDRs = s.CIDRs
		}

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
	case RemoveMembers:
		r.Members = slices.DeleteFunc(slices.Clone(r.Members),
			func(m string) bool { return slices.Contains(s.Members, m) })
	case SetStickiness:
		r.Stickiness, r.PolicyID = s.Rule.Stickiness, o.ID
	case DeleteStickiness:
		r.Stickiness, r.PolicyID = nil, ""
	case BindCertificate:
		r.Certificate = s.Rule.Certificate
	}

	if slices.Equal(r.Members, s.Wanted) {
		r.Members = s.Wanted // the Services of a cluster share one copy of a long list
	}
}

// list returns the items of one type on an address, or those of a network ACL list; nil if there is no such address or
// type.
func (a *Actual) list(on On, resource string) *[]Item {
	x := a.Find(on.AddressID)
	switch {
	case on.ACLID != "":
		return &a.ACL(on.ACLID).Items
	case x == nil:
	case resource == ResourceRule:
		return &x.Rules
	case resource == ResourceForward:
		return &x.Forwards
	case resource == ResourceFirewall:
		return &x.Firewall
	}
	return nil
}

// Own returns the Service's own items of one type, on an address or in a network ACL list.
func (a *Actual) Own(on On, resource string) (own []*Item) {
	list, firewall := a.list(on, resource), resource == ResourceFirewall
	for i := 0; list != nil && i < len(*list); i++ {
		item := &(*list)[i]
		if !firewall && item.Owner == Owned || firewall && a.Find(on.AddressID).OwnsFirewall(*item) {
			own = append(own, item)
		}
	}
	return own
}

// Changed has the names of what steps change, or tried to change, in CloudStack.
type Changed map[string]bool

// Add adds the names of what steps change.
func (c Changed) Add(steps []Step) {
	for _, s := range steps {
		for _, name := range s.subjects() {
			c[name] = true
		}
	}
}

// Repairs returns the steps of a plan that undo changes of others. back is the plan from the same actual state to the
// desired state that was last reached: whatever it changes was changed since. tried has what the controller itself has
// changed since, or may have. A step is a repair if back changes the same thing and the controller did not.
func Repairs(steps, back []Step, tried Changed) []Step {
	undone := Changed{}
	undone.Add(back)
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		return !slices.ContainsFunc(s.subjects(), func(name string) bool { return undone[name] && !tried[name] })
	})
}

// subjects returns a name for everything that a step changes, one for each member. Tags do not count, because they may
// be missing after a failed attempt to set them.
func (s Step) subjects() (names []string) {
	if strings.HasPrefix(s.Kind, "tag-") {
		return nil
	}
	for _, member := range append([]string{s.Member}, s.Members...) {
		names = append(names, fmt.Sprint(s.Resource(), s.On, s.Protocol, s.Port, member, s.Access))
	}
	if len(s.Members) > 0 {
		return names[1:]
	}
	return names
}
