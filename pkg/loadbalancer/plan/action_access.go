// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

// OpenFirewall creates a firewall rule.
type OpenFirewall struct {
	creation
	On
	Firewall FirewallRange `json:"firewall"`
}

// Kind implements Action.
func (OpenFirewall) Kind() string { return "open-firewall" }

// Label implements Action.
func (a OpenFirewall) Label() string {
	return "open " + a.Firewall.Ports() + a.text() + " to " + strings.Join(a.Firewall.CIDRs, ",")
}

// Effect implements Action.
func (a OpenFirewall) Effect(before Actual, o Outcome) Actual {
	return before.with(a.On, func(x *Address) {
		x.Firewall = append(x.Firewall, ActualFirewall{FirewallRange: a.Firewall, ID: o.ID})
	})
}

// CloseFirewall deletes a firewall rule.
type CloseFirewall struct {
	removal
	On
	FirewallID string        `json:"firewallID,omitempty"`
	Firewall   FirewallRange `json:"firewall"`
}

// Kind implements Action.
func (CloseFirewall) Kind() string { return "close-firewall" }

// Label implements Action.
func (a CloseFirewall) Label() string {
	return "close " + a.Firewall.Ports() + a.text() + " for " + strings.Join(a.Firewall.CIDRs, ",")
}

// Removed is the id of the firewall rule.
func (a CloseFirewall) Removed() string { return a.FirewallID }

// Effect implements Action.
func (a CloseFirewall) Effect(before Actual, _ Outcome) Actual {
	return before.with(a.On, func(x *Address) {
		x.Firewall = slices.DeleteFunc(x.Firewall, func(f ActualFirewall) bool { return f.ID == a.FirewallID })
	})
}

// OpenACL creates an item of a network ACL list.
type OpenACL struct {
	creation
	ACLID    string        `json:"aclID,omitempty"`
	Firewall FirewallRange `json:"firewall"`
}

// Kind implements Action.
func (OpenACL) Kind() string { return "open-acl" }

// Label implements Action.
func (a OpenACL) Label() string {
	return "open " + a.Firewall.Ports() + " in ACL " + a.ACLID + " to " + strings.Join(a.Firewall.CIDRs, ",")
}

// Effect implements Action.
func (a OpenACL) Effect(before Actual, o Outcome) Actual {
	after := before.Clone()
	at := slices.IndexFunc(after.ACLs, func(l ACL) bool { return l.ListID == a.ACLID })
	if at < 0 {
		after.ACLs, at = append(after.ACLs, ACL{ListID: a.ACLID}), len(after.ACLs)
	}
	after.ACLs[at].Items = append(after.ACLs[at].Items, ACLItem{
		ActualFirewall: ActualFirewall{FirewallRange: a.Firewall, ID: o.ID}, Number: o.Number, Ingress: true, Allow: true, Owner: Owned,
	})
	return after
}

// CloseACL deletes an item of a network ACL list.
type CloseACL struct {
	removal
	ACLID      string        `json:"aclID,omitempty"`
	FirewallID string        `json:"firewallID,omitempty"` // of the item
	Firewall   FirewallRange `json:"firewall"`
}

// Kind implements Action.
func (CloseACL) Kind() string { return "close-acl" }

// Label implements Action.
func (a CloseACL) Label() string {
	return "close " + a.Firewall.Ports() + " in ACL " + a.ACLID + " for " + strings.Join(a.Firewall.CIDRs, ",")
}

// Removed is the id of the item.
func (a CloseACL) Removed() string { return a.FirewallID }

// Effect implements Action.
func (a CloseACL) Effect(before Actual, _ Outcome) Actual {
	after := before.Clone()
	for i := range after.ACLs {
		if l := &after.ACLs[i]; l.ListID == a.ACLID {
			l.Items = slices.DeleteFunc(l.Items, func(item ACLItem) bool { return item.ID == a.FirewallID })
		}
	}
	return after
}
