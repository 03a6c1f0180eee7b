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

func (OpenFirewall) kind() string { return "open-firewall" }
func (a OpenFirewall) label() string {
	return "open " + a.Firewall.Ports() + a.text() + " to " + strings.Join(a.Firewall.CIDRs, ",")
}

func (a OpenFirewall) effect(before Actual, o Outcome) Actual {
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

func (CloseFirewall) kind() string { return "close-firewall" }
func (a CloseFirewall) label() string {
	return "close " + a.Firewall.Ports() + a.text() + " for " + strings.Join(a.Firewall.CIDRs, ",")
}

func (a CloseFirewall) removes() string { return a.FirewallID }

func (a CloseFirewall) effect(before Actual, _ Outcome) Actual {
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

func (OpenACL) kind() string { return "open-acl" }
func (a OpenACL) label() string {
	return "open " + a.Firewall.Ports() + " in ACL " + a.ACLID + " to " + strings.Join(a.Firewall.CIDRs, ",")
}

func (a OpenACL) effect(before Actual, o Outcome) Actual {
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

func (CloseACL) kind() string { return "close-acl" }

func (a CloseACL) label() string {
	return "close " + a.Firewall.Ports() + " in ACL " + a.ACLID + " for " + strings.Join(a.Firewall.CIDRs, ",")
}

func (a CloseACL) removes() string { return a.FirewallID }

func (a CloseACL) effect(before Actual, _ Outcome) Actual {
	after := before.Clone()
	for i := range after.ACLs {
		if l := &after.ACLs[i]; l.ListID == a.ACLID {
			l.Items = slices.DeleteFunc(l.Items, func(item ACLItem) bool { return item.ID == a.FirewallID })
		}
	}
	return after
}
