// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"fmt"
	"slices"
	"strings"
)

// ActionKind says what an Action does.
type ActionKind string

// Kinds of actions.
const (
	AllocateAddress ActionKind = "allocate-address"
	RememberAddress ActionKind = "remember-address" // on the Service
	TagAddress      ActionKind = "tag-address"
	CreateRule      ActionKind = "create-rule"
	UpdateRule      ActionKind = "update-rule"
	DeleteRule      ActionKind = "delete-rule"
	AddMembers      ActionKind = "add-members"
	RemoveMembers   ActionKind = "remove-members"
	OpenFirewall    ActionKind = "open-firewall"
	CloseFirewall   ActionKind = "close-firewall"
	ReleaseAddress  ActionKind = "release-address"
	ForgetAddress   ActionKind = "forget-address" // kept in CloudStack, tags and record removed
)

// Waves order a plan. The actions of a wave may be submitted one after the
// other without waiting; a wave begins when all jobs of the one before succeeded.
const (
	waveAddress = iota
	waveClose   // tighten: close what must not be open any more
	waveDelete  // make room for rules that cannot be changed in place
	waveBuild   // rules, members, firewall
	waveTrim    // members that left, firewall rules that a wider one replaces
	waveOldClose
	waveOldDelete
	waveOldRelease
)

// Action is one step of a plan. Fields that its kind does not use are empty.
type Action struct {
	Kind  ActionKind `json:"kind"`
	Label string     `json:"label"`
	Wave  int        `json:"wave"`

	AddressID string `json:"addressID,omitempty"` // empty: the address that the plan allocates
	IP        string `json:"ip,omitempty"`
	NetworkID string `json:"networkID,omitempty"`
	Allocated bool   `json:"allocated,omitempty"` // of RememberAddress

	RuleID  string   `json:"ruleID,omitempty"` // empty: the rule that the plan creates on Port
	Port    int      `json:"port,omitempty"`
	Rule    *Rule    `json:"rule,omitempty"`
	Members []string `json:"members,omitempty"`

	FirewallID string         `json:"firewallID,omitempty"`
	Firewall   *FirewallRange `json:"firewall,omitempty"`

	// Replaces are the ids of items that must be gone before this action can succeed.
	Replaces []string `json:"replaces,omitempty"`
	// Note says why, where that is not plain.
	Note string `json:"note,omitempty"`
}

// Destructive tells whether the action takes something away.
func (a Action) Destructive() bool {
	switch a.Kind {
	case DeleteRule, RemoveMembers, CloseFirewall, ReleaseAddress, ForgetAddress:
		return true
	default:
		return false
	}
}

func (a Action) String() string { return a.Label }

// Policy filters plans.
type Policy string

// Policies. The zero value applies everything.
const (
	PolicyApply    Policy = "apply"
	PolicyNoDelete Policy = "no-delete"
	PolicyDryRun   Policy = "dry-run"
)

// Filter returns the actions that the policy lets be done.
func (p Policy) Filter(actions []Action) []Action {
	switch p {
	case PolicyDryRun:
		return nil
	case PolicyNoDelete:
		kept := map[string]bool{} // ids that stay, because their deletion is dropped
		for _, a := range actions {
			if a.Kind == DeleteRule {
				kept[a.RuleID] = true
			}
			if a.Kind == CloseFirewall {
				kept[a.FirewallID] = true
			}
		}
		return slices.DeleteFunc(slices.Clone(actions), func(a Action) bool {
			return a.Destructive() || slices.ContainsFunc(a.Replaces, func(id string) bool { return kept[id] })
		})
	default:
		return actions
	}
}

func (a *Action) setLabel() {
	on := ""
	if a.IP != "" {
		on = " on " + a.IP
	}
	switch a.Kind {
	case AllocateAddress:
		a.Label = "acquire an address in network " + a.NetworkID
		if a.IP != "" {
			a.Label = "acquire address " + a.IP + " in network " + a.NetworkID
		}
	case RememberAddress:
		a.Label = "record address " + a.IP + " on the Service"
	case TagAddress:
		a.Label = "tag address " + a.IP
	case CreateRule:
		a.Label = fmt.Sprintf("create rule %s%s (%d to node port %d, %s, %s)", a.Rule.Name, on, a.Rule.PublicPort, a.Rule.PrivatePort, a.Rule.Protocol, a.Rule.Algorithm)
	case UpdateRule:
		a.Label = fmt.Sprintf("update rule of port %d%s (%s, %s)", a.Port, on, a.Rule.Protocol, a.Rule.Algorithm)
	case DeleteRule:
		a.Label = fmt.Sprintf("delete rule of port %d%s", a.Port, on)
	case AddMembers:
		a.Label = fmt.Sprintf("add %d members to the rule of port %d%s", len(a.Members), a.Port, on)
	case RemoveMembers:
		a.Label = fmt.Sprintf("remove %d members from the rule of port %d%s", len(a.Members), a.Port, on)
	case OpenFirewall:
		a.Label = fmt.Sprintf("open %s%s to %s", portsText(*a.Firewall), on, strings.Join(a.Firewall.CIDRs, ","))
	case CloseFirewall:
		a.Label = fmt.Sprintf("close %s%s for %s", portsText(*a.Firewall), on, strings.Join(a.Firewall.CIDRs, ","))
	case ReleaseAddress:
		a.Label = "release address " + a.IP
	case ForgetAddress:
		a.Label = "leave address " + a.IP
	}
	if a.Note != "" {
		a.Label += ": " + a.Note
	}
}

func portsText(f FirewallRange) string {
	if f.StartPort == f.EndPort {
		return fmt.Sprintf("port %d", f.StartPort)
	}
	return fmt.Sprintf("ports %d-%d", f.StartPort, f.EndPort)
}
