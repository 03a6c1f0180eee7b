// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

func opening(f access.Range, where string) string {
	return "open " + f.Ports() + where + " to " + strings.Join(f.CIDRs, ",")
}

func closing(f access.Range, where string) string {
	return "close " + f.Ports() + where + " for " + strings.Join(f.CIDRs, ",")
}

// OpenFirewall creates a firewall rule.
type OpenFirewall struct {
	creation
	OnAddress
	Firewall access.Range `json:"firewall"`
}

func (OpenFirewall) kind() string    { return "open-firewall" }
func (a OpenFirewall) label() string { return opening(a.Firewall, a.text()) }

func (a OpenFirewall) effect(before Actual, o Outcome) Actual {
	return a.changed(before, func(x *Address) {
		x.Firewall = append(x.Firewall, access.Rule{Range: a.Firewall, ID: o.ID})
	})
}

// CloseFirewall deletes a firewall rule.
type CloseFirewall struct {
	removal
	OnAddress
	FirewallID string       `json:"firewallID,omitempty"`
	Firewall   access.Range `json:"firewall"`
}

func (CloseFirewall) kind() string      { return "close-firewall" }
func (a CloseFirewall) label() string   { return closing(a.Firewall, a.text()) }
func (a CloseFirewall) removes() string { return a.FirewallID }

func (a CloseFirewall) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) {
		x.Firewall = slices.DeleteFunc(x.Firewall, func(f access.Rule) bool { return f.ID == a.FirewallID })
	})
}

// OpenACL creates an item of a network ACL list.
type OpenACL struct {
	creation
	ACLID    string       `json:"aclID,omitempty"`
	Firewall access.Range `json:"firewall"`
}

func (OpenACL) kind() string    { return "open-acl" }
func (a OpenACL) label() string { return opening(a.Firewall, " in ACL "+a.ACLID) }

func (a OpenACL) effect(before Actual, o Outcome) Actual {
	after := before.Clone()
	l := after.acl(a.ACLID)
	l.Items = append(l.Items, ACLItem{
		Rule: access.Rule{Range: a.Firewall, ID: o.ID}, Number: o.Number, Ingress: true, Allow: true, Owner: Owned,
	})
	return after
}

// CloseACL deletes an item of a network ACL list.
type CloseACL struct {
	removal
	ACLID      string       `json:"aclID,omitempty"`
	FirewallID string       `json:"firewallID,omitempty"` // of the item
	Firewall   access.Range `json:"firewall"`
}

func (CloseACL) kind() string      { return "close-acl" }
func (a CloseACL) label() string   { return closing(a.Firewall, " in ACL "+a.ACLID) }
func (a CloseACL) removes() string { return a.FirewallID }

func (a CloseACL) effect(before Actual, _ Outcome) Actual {
	after := before.Clone()
	l := after.acl(a.ACLID)
	l.Items = slices.DeleteFunc(l.Items, func(item ACLItem) bool { return item.ID == a.FirewallID })
	return after
}
