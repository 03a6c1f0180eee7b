// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import "slices"

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
	OpenACL         ActionKind = "open-acl"
	CloseACL        ActionKind = "close-acl"
	TagRules        ActionKind = "tag-rules"
	SetStickiness   ActionKind = "set-stickiness"
	DropStickiness  ActionKind = "drop-stickiness"
	BindCertificate ActionKind = "bind-certificate"
	ReleaseAddress  ActionKind = "release-address"
	ForgetAddress   ActionKind = "forget-address" // kept in CloudStack, tags and record removed
)

// Waves order a plan. The actions of a wave may be submitted one after the
// other without waiting; a wave begins when all jobs of the one before succeeded.
//
// Within a wave the firewall rules of an address come after its load balancer rules. Both creations take a lock on the
// address in the server, and one that finds it taken sleeps for 5 s in the call: after createFirewallRule the following
// createLoadBalancerRule did so now and then (1 port: 5.8 s in place of 1.5 s), in the other order none did.
const (
	waveAddress = iota
	waveClaim   // rules whose ports a firewall rule of unknown origin covers
	waveClaimed // the record names those ports, too
	waveCover   // what takes over from what goes, without opening anything
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

	AddressID string      `json:"addressID,omitempty"` // empty: the address that the plan allocates
	IP        string      `json:"ip,omitempty"`
	NetworkID string      `json:"networkID,omitempty"`
	VPCID     string      `json:"vpcID,omitempty"`
	Internal  bool        `json:"internal,omitempty"`  // the address is one of a VPC tier
	Allocated bool        `json:"allocated,omitempty"` // of RememberAddress and ForgetAddress
	Opened    OpenedPorts `json:"opened,omitempty"`    // of AllocateAddress and RememberAddress: what the record then says
	HandOver  bool        `json:"handOver,omitempty"`  // of ForgetAddress: other Services go on using it

	RuleID  string   `json:"ruleID,omitempty"` // empty: the rule that the plan creates on Port
	Port    int      `json:"port,omitempty"`
	Rule    *Rule    `json:"rule,omitempty"`
	Members []string `json:"members,omitempty"`
	// Ports are those whose rules TagRules tags.
	Ports    []int  `json:"ports,omitempty"`
	PolicyID string `json:"policyID,omitempty"`

	ACLID      string         `json:"aclID,omitempty"`
	FirewallID string         `json:"firewallID,omitempty"` // firewall rule or ACL item
	Firewall   *FirewallRange `json:"firewall,omitempty"`

	// Keep, of ForgetAddress, marks the address as kept by the Service.
	Keep bool `json:"keep,omitempty"`
	// Replaces are the ids of items that must be gone before this action can succeed.
	Replaces []string `json:"replaces,omitempty"`
	// Note says why, where that is not plain.
	Note string `json:"note,omitempty"`
}

// Destructive tells whether the action takes something away.
func (a Action) Destructive() bool {
	switch a.Kind {
	case DeleteRule, RemoveMembers, CloseFirewall, CloseACL, ReleaseAddress, ForgetAddress:
		return true
	default:
		return false
	}
}

// Sign is how plans mark the action: + for what is made, ~ for what is changed, - for what is taken away.
func (a Action) Sign() string {
	switch a.Kind {
	case RememberAddress, TagAddress, UpdateRule, TagRules, SetStickiness, DropStickiness, BindCertificate:
		return "~"
	default:
		if a.Destructive() {
			return "-"
		}
		return "+"
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
			if a.Kind == CloseFirewall || a.Kind == CloseACL {
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
