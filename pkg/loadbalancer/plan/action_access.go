// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

func (f FirewallRange) opening(where string) string {
	return "open " + f.Ports() + where + " to " + strings.Join(f.CIDRs, ",")
}

func (f FirewallRange) closing(where string) string {
	return "close " + f.Ports() + where + " for " + strings.Join(f.CIDRs, ",")
}

// OpenFirewall creates a firewall rule.
type OpenFirewall struct {
	creation
	OnAddress
	Firewall FirewallRange `json:"firewall"`
}

func (OpenFirewall) kind() string    { return "open-firewall" }
func (a OpenFirewall) label() string { return a.Firewall.opening(a.text()) }

func (a OpenFirewall) effect(before Actual, o Outcome) Actual {
	return a.changed(before, func(x *Address) {
		x.Firewall = append(x.Firewall, ActualFirewall{FirewallRange: a.Firewall, ID: o.ID})
	})
}

// CloseFirewall deletes a firewall rule.
type CloseFirewall struct {
	removal
	OnAddress
	FirewallID string        `json:"firewallID,omitempty"`
	Firewall   FirewallRange `json:"firewall"`
}

func (CloseFirewall) kind() string      { return "close-firewall" }
func (a CloseFirewall) label() string   { return a.Firewall.closing(a.text()) }
func (a CloseFirewall) removes() string { return a.FirewallID }

func (a CloseFirewall) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) {
		x.Firewall = slices.DeleteFunc(x.Firewall, func(f ActualFirewall) bool { return f.ID == a.FirewallID })
	})
}

// OpenACL creates an item of a network ACL list.
type OpenACL struct {
	creation
	ACLID    string        `json:"aclID,omitempty"`
	Firewall FirewallRange `json:"firewall"`
}

func (OpenACL) kind() string    { return "open-acl" }
func (a OpenACL) label() string { return a.Firewall.opening(" in ACL " + a.ACLID) }

func (a OpenACL) effect(before Actual, o Outcome) Actual {
	after := before.Clone()
	l := after.acl(a.ACLID)
	l.Items = append(l.Items, ACLItem{
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

func (CloseACL) kind() string      { return "close-acl" }
func (a CloseACL) label() string   { return a.Firewall.closing(" in ACL " + a.ACLID) }
func (a CloseACL) removes() string { return a.FirewallID }

func (a CloseACL) effect(before Actual, _ Outcome) Actual {
	after := before.Clone()
	l := after.acl(a.ACLID)
	l.Items = slices.DeleteFunc(l.Items, func(item ACLItem) bool { return item.ID == a.FirewallID })
	return after
}
