// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Action is one change in CloudStack or in the Service's record. A new kind of action is one more type with these methods,
// and one more case in package apply.
type Action interface {
	kind() string
	label() string
	sign() string
	effect(before Actual, o Outcome) Actual
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

// Each action embeds one of these.
type (
	creation struct{}
	change   struct{}
	removal  struct{}
)

func (creation) sign() string { return Creates }
func (change) sign() string   { return Changes }
func (removal) sign() string  { return Removes }

// OnAddress names the address that an action works on. Without AddressID it is the one that the plan acquires, and IP the
// one asked for.
type OnAddress struct {
	AddressID string `json:"addressID,omitempty"`
	IP        string `json:"ip,omitempty"`
}

func (o OnAddress) onAddress() OnAddress { return o }

func (o OnAddress) text() string {
	if o.IP == "" {
		return ""
	}
	return " on " + o.IP
}

// changed returns a copy of a state in which the address is changed.
func (o OnAddress) changed(before Actual, change func(*Address)) Actual {
	after := before.Clone()
	if a := after.Find(o.AddressID); a != nil {
		change(a)
	}
	return after
}

// OnRule names the rule that an action works on. Without RuleID it is the one that the plan creates on Port.
type OnRule struct {
	OnAddress
	RuleID string `json:"ruleID,omitempty"`
	Port   int    `json:"port,omitempty"`
}

func (o OnRule) onRule() OnRule { return o }

func (o OnRule) ofPort() string { return fmt.Sprintf("of port %d%s", o.Port, o.text()) }

// changedRule returns a copy of a state in which the rule is changed.
func (o OnRule) changedRule(before Actual, change func(*ActualRule)) Actual {
	return o.changed(before, func(a *Address) {
		if r := a.Rule(o.RuleID, o.Port); r != nil {
			change(r)
		}
	})
}

func because(note string) string {
	if note == "" {
		return ""
	}
	return ": " + note
}

// Step is an action at its place in a plan.
type Step struct {
	Action
	// Wave orders a plan. The actions of a wave may be submitted one after the other without waiting; a wave begins when
	// all jobs of the one before succeeded.
	Wave int
	// Replaces are the ids of items that must be gone before the action can succeed.
	Replaces []string
}

// Kind names the action in metrics, in JSON and in logs.
func (s Step) Kind() string { return s.kind() }

// Label describes the action in one line.
func (s Step) Label() string { return s.label() }

// Sign returns Creates, Changes or Removes.
func (s Step) Sign() string { return s.sign() }

// Destructive reports whether the action takes something away.
func (s Step) Destructive() bool { return s.sign() == Removes }

// Effect returns the actual state after the action succeeded.
func (s Step) Effect(before Actual, o Outcome) Actual { return s.effect(before, o) }

// Is reports whether the action of a step is of a type.
func Is[A Action](s Step) bool {
	_, ok := s.Action.(A)
	return ok
}

// OnAddress returns the address that the action works on; ok is false where it works on none, or acquires it.
func (s Step) OnAddress() (on OnAddress, ok bool) {
	a, ok := s.Action.(interface{ onAddress() OnAddress })
	if ok {
		on = a.onAddress()
	}
	return on, ok
}

// OnRule returns the rule that the action works on; ok is false where it works on none.
func (s Step) OnRule() (on OnRule, ok bool) {
	a, ok := s.Action.(interface{ onRule() OnRule })
	if ok {
		on = a.onRule()
	}
	return on, ok
}

// MarshalJSON writes the action's own fields beside its kind, label and wave.
func (s Step) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Kind     string   `json:"kind"`
		Label    string   `json:"label"`
		Wave     int      `json:"wave"`
		Replaces []string `json:"replaces,omitempty"`
	}{s.Kind(), s.Label(), s.Wave, s.Replaces})
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(s.Action)
	if err != nil || len(fields) == len("{}") {
		return head, err
	}
	return slices.Concat(head[:len(head)-1], []byte(","), fields[1:]), nil
}

// Waves.
//
// Within a wave the firewall rules of an address come after its load balancer rules. Both creations take a lock on the
// address in the server, and one that finds it taken sleeps for 5 s in the call: after createFirewallRule the following
// createLoadBalancerRule did so now and then (1 port: 5.8 s in place of 1.5 s), in the other order none did.
const (
	waveAddress = iota
	waveClaim   // rules whose ports a firewall rule of unknown origin covers
	waveClaimed // the record names those ports, too
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
		if r, ok := s.Action.(interface{ removes() string }); ok && p == PolicyNoDelete {
			stays[r.removes()] = true
		}
	}
	for i, s := range steps {
		blocked := slices.ContainsFunc(s.Replaces, func(id string) bool { return stays[id] })
		out[i] = p != PolicyDryRun && (p != PolicyNoDelete || !s.Destructive() && !blocked)
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
