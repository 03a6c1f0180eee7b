// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Step is one change in CloudStack, at its place in a plan. It works on an address, or on a network ACL list. Fields
// that its kind does not need are empty.
type Step struct {
	// Kind names the action in metrics, in JSON and in logs.
	Kind string `json:"kind"`
	// Wave orders a plan. The actions of a wave may be submitted one after the other without waiting; a wave begins
	// when all jobs of the one before succeeded.
	Wave int `json:"wave"`
	// Replaces are the ids of items that must be gone before the action can succeed.
	Replaces []string `json:"replaces,omitempty"`
	On
	// ItemID is the id of the rule, port forwarding, firewall rule or ACL item; empty for one that the plan creates.
	ItemID string `json:"itemID,omitempty"`
	// Port is that of the rule or port forwarding, Protocol that of the port forwarding.
	Protocol  string `json:"protocol,omitempty"`
	Port      int    `json:"port,omitempty"`
	NetworkID string `json:"networkID,omitempty"`
	VPCID     string `json:"vpcID,omitempty"`
	// Internal means that the address is one of a VPC tier.
	Internal bool `json:"internal,omitempty"`
	// Rule is the wanted load balancer rule. Nil CIDRs of an update leave those of the rule alone.
	Rule     Rule     `json:"rule,omitzero"`
	PolicyID string   `json:"policyID,omitempty"`
	Members  []string `json:"members,omitempty"`
	// Access is what a firewall rule or ACL item opens.
	Access access.Range `json:"firewall,omitzero"`
	// PrivatePort, Member and CIDRs are what a port forwarding gets; an update leaves alone what is empty. From is the
	// member that it leaves.
	PrivatePort int      `json:"privatePort,omitempty"`
	Member      string   `json:"member,omitempty"`
	From        string   `json:"from,omitempty"`
	CIDRs       []string `json:"cidrs,omitempty"`
	// Items is how many items are tagged.
	Items int `json:"items,omitempty"`
	// Allocated, HandOver and Keep are about an address that is forgotten: the cluster acquired it, other Services go
	// on using it, it is marked as kept by the Service. Of one that is tagged, Keep means that the Service wants it to
	// be kept.
	Allocated bool   `json:"allocated,omitempty"`
	HandOver  bool   `json:"handOver,omitempty"`
	Keep      bool   `json:"keep,omitempty"`
	Note      string `json:"note,omitempty"` // says why, where that is not plain
	// in plans that are shown: the controller's policy does not let it be done
	Held bool `json:"heldByPolicy,omitempty"`
}

// On names what an action works on: an address, or a network ACL list. Without AddressID it is the address that the
// plan acquires, and IP the one asked for.
type On struct {
	AddressID string `json:"addressID,omitempty"`
	IP        string `json:"ip,omitempty"`
	ACLID     string `json:"aclID,omitempty"`
}

func (o On) text() string {
	switch {
	case o.ACLID != "":
		return " in ACL " + o.ACLID
	case o.IP != "":
		return " on " + o.IP
	}
	return ""
}

// Outcome is what CloudStack returned when an action was done.
type Outcome struct {
	ID     string // of the address, rule, policy, firewall rule or ACL item created
	IP     string // of the address acquired
	Number int    // of the ACL item created
}

// Signs mark actions in printed plans. Only Removes takes something away.
const (
	Creates = "+"
	Changes = "~"
	Removes = "-"
)

// Kinds of actions.
const (
	AllocateAddress = "allocate-address" // acquires a public address, or takes one of a tier
	TagAddress      = "tag-address"
	ReleaseAddress  = "release-address" // with everything on it
	ForgetAddress   = "forget-address"  // removes tags and record of an address that stays in CloudStack
	CreateRule      = "create-rule"
	UpdateRule      = "update-rule" // in place
	DeleteRule      = "delete-rule"
	AddMembers      = "add-members"
	RemoveMembers   = "remove-members"
	SetStickiness   = "set-stickiness"
	DropStickiness  = "drop-stickiness"
	BindCertificate = "bind-certificate"
	CreateForward   = "create-forward"
	UpdateForward   = "update-forward" // in place
	DeleteForward   = "delete-forward"
	OpenFirewall    = "open-firewall"
	OpenACL         = "open-acl"
	CloseFirewall   = "close-firewall"
	CloseACL        = "close-acl"
	// These tag all items of one type that are the Service's and lack its tags.
	TagRules    = "tag-rules"
	TagForwards = "tag-forwards"
	TagFirewall = "tag-firewall"
	TagACL      = "tag-acl"
)

// kind is what the actions of a kind have in common. A new kind is one more row here, its effect in Step.Effect (in
// made or change, if it makes or changes an item), and its call in package apply.
type kind struct {
	sign     string
	resource string // the type, for createTags, of the item that is made, deleted or tagged
	label    func(Step) string
}

var kinds = map[string]kind{
	AllocateAddress: {Creates, "", allocateLabel},
	TagAddress:      {Changes, "", func(s Step) string { return "tag address " + cmp.Or(s.IP, "that is acquired") }},
	ReleaseAddress:  {Removes, "", func(s Step) string { return "release address " + s.IP }},
	ForgetAddress:   {Removes, "", func(s Step) string { return "leave address " + s.IP + s.because() }},

	CreateRule: {Creates, ResourceRule, func(s Step) string {
		r := s.Rule
		return fmt.Sprintf("create rule %s%s (%d to node port %d, %s, %s)", r.Name, s.text(), r.PublicPort,
			r.PrivatePort, r.Protocol, r.Algorithm)
	}},
	UpdateRule: {Changes, "", func(s Step) string {
		return fmt.Sprintf("update rule %s (%s, %s)", s.ofPort(), s.Rule.Protocol, s.Rule.Algorithm) + s.because()
	}},
	DeleteRule: {Removes, ResourceRule, func(s Step) string { return "delete rule " + s.ofPort() + s.because() }},
	AddMembers: {Creates, "", func(s Step) string {
		return "add " + english.Plural(len(s.Members), "member", "") + " to the rule " + s.ofPort()
	}},
	RemoveMembers: {Removes, "", func(s Step) string {
		return "remove " + english.Plural(len(s.Members), "member", "") + " from the rule " + s.ofPort()
	}},
	SetStickiness: {Changes, "",
		func(s Step) string { return "set stickiness " + s.Rule.Stickiness.Method + " " + s.ofPort() }},
	DropStickiness: {Changes, "", func(s Step) string { return "remove stickiness " + s.ofPort() }},
	BindCertificate: {Changes, "", func(s Step) string {
		return fmt.Sprintf("bind certificate %s to port %d%s", s.Rule.Certificate, s.Port, s.text())
	}},

	CreateForward: {Creates, ResourceForward, func(s Step) string {
		return fmt.Sprintf("forward port %s%s to node port %d of %s%s", s.PortText(), s.text(), s.PrivatePort, s.Member,
			s.sources())
	}},
	UpdateForward: {Changes, "", func(s Step) string {
		text := "change the forwarding of port " + s.PortText() + s.text()
		if s.Member != "" {
			text += " to " + s.Member
		}
		if s.PrivatePort != 0 {
			text += fmt.Sprintf(" to node port %d", s.PrivatePort)
		}
		return text + s.sources()
	}},
	DeleteForward: {Removes, ResourceForward,
		func(s Step) string { return "delete the forwarding of port " + s.PortText() + s.text() + s.because() }},

	OpenFirewall:  {Creates, ResourceFirewall, accessLabel("open", "to")},
	OpenACL:       {Creates, ResourceACLItem, accessLabel("open", "to")},
	CloseFirewall: {Removes, ResourceFirewall, accessLabel("close", "for")},
	CloseACL:      {Removes, ResourceACLItem, accessLabel("close", "for")},

	TagRules:    {Changes, ResourceRule, tagLabel("rule")},
	TagForwards: {Changes, ResourceForward, tagLabel("port forwarding")},
	TagFirewall: {Changes, ResourceFirewall, tagLabel("firewall rule")},
	TagACL:      {Changes, ResourceACLItem, tagLabel("item")},
}

func allocateLabel(s Step) string {
	what := "an address"
	if s.IP != "" {
		what = "address " + s.IP
	}
	switch {
	case s.Internal:
		return "take " + what + " of tier " + s.NetworkID
	case s.VPCID != "":
		return "acquire " + what + " in VPC " + s.VPCID
	}
	return "acquire " + what + " in network " + s.NetworkID
}

func accessLabel(verb, whom string) func(Step) string {
	return func(s Step) string {
		return verb + " " + s.Access.Ports() + s.text() + " " + whom + " " + strings.Join(s.Access.CIDRs, ",")
	}
}

func tagLabel(item string) func(Step) string {
	return func(s Step) string { return "tag " + english.Plural(s.Items, item, "") + s.text() }
}

func (s Step) ofPort() string { return fmt.Sprintf("of port %d%s", s.Port, s.text()) }

func (s Step) because() string {
	if s.Note == "" {
		return ""
	}
	return ": " + s.Note
}

// sources writes the sources of a port forwarding that has some.
func (s Step) sources() string {
	if len(s.CIDRs) == 0 {
		return ""
	}
	return " for " + strings.Join(s.CIDRs, ",")
}

// PortText names the port of a port forwarding, as "53/udp".
func (s Step) PortText() string { return portText(s.Protocol, s.Port) }

// Label describes the action in one line.
func (s Step) Label() string { return kinds[s.Kind].label(s) }

// Sign returns Creates, Changes or Removes.
func (s Step) Sign() string { return kinds[s.Kind].sign }

// Destructive reports whether the action takes something away.
func (s Step) Destructive() bool { return s.Sign() == Removes }

// Resource is the type, for createTags, of the item that the action makes, deletes or tags; empty for none.
func (s Step) Resource() string { return kinds[s.Kind].resource }

// Makes returns the type of the item that the action makes; empty where it makes none.
func (s Step) Makes() string {
	if s.Sign() != Creates {
		return ""
	}
	return s.Resource()
}

// OnRule reports whether the action works on a load balancer rule.
func (s Step) OnRule() bool { return s.Port != 0 && s.Protocol == "" }

// OnForward reports whether the action works on a port forwarding.
func (s Step) OnForward() bool { return s.Protocol != "" }

// PutsOn reports whether steps put something new on an address that is there, which CloudStack knows by an id that
// stays the same when the address changes hands. What is changed by an id of its own is gone then.
func PutsOn(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		return s.AddressID != "" && !s.Internal && (s.Kind == TagAddress || s.Makes() != "" && s.Kind != AddMembers)
	})
}

// removes returns the id of the item that the action removes; empty where it removes none.
func (s Step) removes() string {
	if s.Destructive() && s.Resource() != "" {
		return s.ItemID
	}
	return ""
}

// MarshalJSON writes the label beside the fields.
func (s Step) MarshalJSON() ([]byte, error) {
	type fields Step
	return json.Marshal(struct {
		fields
		Label string `json:"label"`
	}{fields(s), s.Label()})
}

// Waves.
//
// Within a wave the firewall rules of an address come after its load balancer rules. Both creations take a lock on the
// address in the server, and one that finds it taken sleeps for 5 s in the call: after createFirewallRule the following
// createLoadBalancerRule did so now and then (1 port: 5.8 s in place of 1.5 s), in the other order none did.
const (
	waveAddress = iota
	waveCover   // opens nothing that is not open: replaces what is closed next
	waveClose   // tighten: close what must not be open any more
	waveDelete  // make room for rules that cannot be changed in place
	waveBuild   // rules, members, firewall
	waveTrim    // members that left, firewall rules that a wider one replaces
	waveOldClose
	waveOldDelete
	waveOldRelease
)

// Text says how many steps there are, and which the first is.
func Text(steps []Step) string {
	if len(steps) == 1 {
		return "1 action: " + steps[0].Label()
	}
	return fmt.Sprintf("%d actions, the first: %s", len(steps), steps[0].Label())
}

// Policy filters plans.
type Policy string

// Policies. The zero value applies everything.
const (
	PolicyApply    Policy = "apply"
	PolicyNoDelete Policy = "no-delete"
	PolicyDryRun   Policy = "dry-run"
)

// Allows returns for each step whether the policy lets it be done.
func (p Policy) Allows(steps []Step) []bool {
	stays := map[string]bool{} // ids of items whose removal is not done
	out := make([]bool, len(steps))
	for _, s := range steps {
		stays[s.removes()] = true
	}
	for i, s := range steps {
		blocked := s.Destructive() || slices.ContainsFunc(s.Replaces, func(id string) bool { return stays[id] })
		out[i] = p != PolicyDryRun && (p != PolicyNoDelete || !blocked)
	}
	return out
}

// Filter returns the steps that the policy lets be done.
func (p Policy) Filter(steps []Step) []Step {
	var out []Step
	for i, allowed := range p.Allows(steps) {
		if allowed {
			out = append(out, steps[i])
		}
	}
	return out
}
