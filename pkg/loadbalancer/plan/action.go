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

// Step is one change in CloudStack and its place in a plan. It works on an address or on a network ACL list. Fields
// that its kind does not need are empty.
type Step struct {
	// Kind is the name of the action in metrics, JSON and logs.
	Kind string `json:"kind"`
	// Wave orders the steps of a plan. The actions of one wave may be submitted without waiting for each other. A wave
	// begins after all jobs of the previous one have succeeded.
	Wave int `json:"wave"`
	// Replaces are the ids of items that must be gone before the action can succeed.
	Replaces []string `json:"replaces,omitempty"`
	On
	// ItemID is the id of the rule, port forwarding, firewall rule or ACL item; empty for an item that the plan
	// creates.
	ItemID string `json:"itemID,omitempty"`
	// Port is the public port of the rule or port forwarding. Protocol is set for port forwardings only.
	Protocol  string `json:"protocol,omitempty"`
	Port      int    `json:"port,omitempty"`
	NetworkID string `json:"networkID,omitempty"`
	VPCID     string `json:"vpcID,omitempty"`
	// Internal means that the address belongs to a VPC tier.
	Internal bool `json:"internal,omitempty"`
	// Rule is the desired load balancer rule. An update with nil CIDRs does not change the source ranges of the rule.
	Rule     Rule     `json:"rule,omitzero"`
	PolicyID string   `json:"policyID,omitempty"`
	Members  []string `json:"members,omitempty"`
	// Wanted are all members that the rule should have, in steps that add or remove some.
	Wanted []string `json:"-"`
	// Access has the ports and sources of a firewall rule or ACL item.
	Access access.Range `json:"firewall,omitzero"`
	// PrivatePort, Member and CIDRs are the values for a port forwarding; an update does not change those that are
	// empty. From is the member to which the port was forwarded before.
	PrivatePort int      `json:"privatePort,omitempty"`
	Member      string   `json:"member,omitempty"`
	From        string   `json:"from,omitempty"`
	CIDRs       []string `json:"cidrs,omitempty"`
	// Items is the number of items that a tag step tags.
	Items int `json:"items,omitempty"`
	// The next three fields are for disowning an address. Allocated means that the cluster acquired it, HandOver that
	// other Services continue to use it, and Keep that a tag will mark it as kept by the Service. In a step that tags
	// an address, Keep means that the Service wants to keep it.
	Allocated bool   `json:"allocated,omitempty"`
	HandOver  bool   `json:"handOver,omitempty"`
	Keep      bool   `json:"keep,omitempty"`
	Note      string `json:"note,omitempty"` // why the step is needed, if that is not obvious
	// BlockedByPolicy is set in plans that are shown to users: the controller's policy does not allow the step.
	BlockedByPolicy bool `json:"heldByPolicy,omitempty"`
}

// On identifies what an action works on: an address or a network ACL list. An empty AddressID means the address that
// the plan acquires; IP is then the requested one.
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

// Outcome is the result of an action that is done.
type Outcome struct {
	ID     string // of the address, rule, policy, firewall rule or ACL item that was created
	IP     string // of the address that was acquired
	Number int    // of the ACL item that was created
}

// Signs of actions in printed plans. Only Removes marks destructive actions.
const (
	Creates = "+"
	Changes = "~"
	Removes = "-"
)

// Kinds of actions.
const (
	AllocateAddress  = "allocate-address" // acquires a public address or chooses one of a tier
	TagAddress       = "tag-address"
	ReleaseAddress   = "release-address" // together with everything on it
	DisownAddress    = "forget-address"  // removes tags and record of an address that is not released
	CreateRule       = "create-rule"
	UpdateRule       = "update-rule" // in place
	DeleteRule       = "delete-rule"
	AddMembers       = "add-members"
	RemoveMembers    = "remove-members"
	SetStickiness    = "set-stickiness"
	DeleteStickiness = "drop-stickiness"
	BindCertificate  = "bind-certificate"
	CreateForward    = "create-forward"
	UpdateForward    = "update-forward" // in place
	DeleteForward    = "delete-forward"
	OpenFirewall     = "open-firewall"
	OpenACL          = "open-acl"
	CloseFirewall    = "close-firewall"
	CloseACL         = "close-acl"
	// Each of these tags all items of one type that belong to the Service and lack its tags.
	TagRules    = "tag-rules"
	TagForwards = "tag-forwards"
	TagFirewall = "tag-firewall"
	TagACL      = "tag-acl"
)

// kind describes the actions of one kind. To add a kind, add a row here, its effect in Step.Effect (in created or
// change, if it creates or changes an item), and its call in package apply.
type kind struct {
	sign     string
	resource string // the resource type in createTags of the item that is created, deleted or tagged
	label    func(Step) string
}

var kinds = map[string]kind{
	AllocateAddress: {Creates, "", allocateLabel},
	TagAddress:      {Changes, "", func(s Step) string { return "tag address " + cmp.Or(s.IP, "that is acquired") }},
	ReleaseAddress:  {Removes, "", func(s Step) string { return "release address " + s.IP }},
	DisownAddress:   {Removes, "", func(s Step) string { return "leave address " + s.IP + s.because() }},

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
	DeleteStickiness: {Changes, "", func(s Step) string { return "remove stickiness " + s.ofPort() }},
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

// sources returns the source ranges of a port forwarding as text; empty if it has none.
func (s Step) sources() string {
	if len(s.CIDRs) == 0 {
		return ""
	}
	return " for " + strings.Join(s.CIDRs, ",")
}

// PortText returns the port of a port forwarding as text, such as "53/udp".
func (s Step) PortText() string { return portText(s.Protocol, s.Port) }

// Label returns a description of the action in one line.
func (s Step) Label() string { return kinds[s.Kind].label(s) }

// Sign returns Creates, Changes or Removes.
func (s Step) Sign() string { return kinds[s.Kind].sign }

// Destructive reports whether the action removes something.
func (s Step) Destructive() bool { return s.Sign() == Removes }

// Resource returns the resource type in createTags of the item that the action creates, deletes or tags; empty if there
// is none.
func (s Step) Resource() string { return kinds[s.Kind].resource }

// Makes returns the resource type of the item that the action creates; empty if it creates none.
func (s Step) Makes() string {
	if s.Sign() != Creates {
		return ""
	}
	return s.Resource()
}

// OnRule reports whether the action works on a load balancer rule.
func (s Step) OnRule() bool { return s.Port != 0 && s.Protocol == "" }

// Moves reports whether the action moves a port forwarding to another member.
func (s Step) Moves() bool { return s.From != "" && s.Member != "" }

// OnForward reports whether the action works on a port forwarding.
func (s Step) OnForward() bool { return s.Protocol != "" }

// PutsOn reports whether steps create something on an existing public address. The id of an address does not change
// when another account acquires it, so such steps could affect a stranger's address. Items with ids of their own no
// longer exist in that case.
func PutsOn(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		return s.AddressID != "" && !s.Internal && (s.Kind == TagAddress || s.Makes() != "" && s.Kind != AddMembers)
	})
}

// removes returns the id of the item that the action removes; empty if it removes none.
func (s Step) removes() string {
	if s.Destructive() && s.Resource() != "" {
		return s.ItemID
	}
	return ""
}

// MarshalJSON adds the label to the fields.
func (s Step) MarshalJSON() ([]byte, error) {
	type fields Step
	return json.Marshal(struct {
		fields
		Label string `json:"label"`
	}{fields(s), s.Label()})
}

// Waves, in order.
//
// Within a wave, firewall rules of an address come after its load balancer rules. Both creations lock the address in
// the server, and a call that finds it locked sleeps for 5 s. A createLoadBalancerRule after a createFirewallRule
// sometimes did so (1 port: 5.8 s instead of 1.5 s); in the other order, none did.
const (
	waveAddress = iota
	waveCover   // replacements, which open nothing new, for rules that waveClose or waveTrim removes
	waveClose   // close what must no longer be open
	waveDelete  // delete rules that cannot be changed in place
	waveBuild   // rules, members, firewall
	waveTrim    // remove former members, and firewall rules that wider ones replace
	waveOldClose
	waveOldDelete
	waveOldRelease
)

// Text returns the number of steps and the label of the first one.
func Text(steps []Step) string {
	if len(steps) == 1 {
		return "1 action: " + steps[0].Label()
	}
	return fmt.Sprintf("%d actions, the first: %s", len(steps), steps[0].Label())
}

// Policy decides which steps of a plan may be done.
type Policy string

// Policies. The zero value allows everything.
const (
	PolicyApply    Policy = "apply"
	PolicyNoDelete Policy = "no-delete"
	PolicyDryRun   Policy = "dry-run"
)

// Allows reports for each step whether the policy allows it.
func (p Policy) Allows(steps []Step) []bool {
	remaining := map[string]bool{} // ids of items that steps remove, and that remain if removals are not allowed
	out := make([]bool, len(steps))
	for _, s := range steps {
		remaining[s.removes()] = true
	}
	for i, s := range steps {
		blocked := s.Destructive() || slices.ContainsFunc(s.Replaces, func(id string) bool { return remaining[id] })
		out[i] = p != PolicyDryRun && (p != PolicyNoDelete || !blocked)
	}
	return out
}

// Filter returns the steps that the policy allows.
func (p Policy) Filter(steps []Step) []Step {
	var out []Step
	for i, allowed := range p.Allows(steps) {
		if allowed {
			out = append(out, steps[i])
		}
	}
	return out
}
