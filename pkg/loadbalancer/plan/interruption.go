// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// Interruptions reports internal load balancers all of whose rules a plan replaces: CloudStack destroys the virtual
// machine that balances an address with the last rule of it, and starts another one with the next. There is no call that
// changes such a rule in place: updateLoadBalancerRule fails on it, updateLoadBalancer only shows or hides it.
func Interruptions(steps []Step, actual Actual) []Notice {
	var out []Notice
	for i := range actual.Addresses {
		a := &actual.Addresses[i]
		deleted, note, created := map[string]bool{}, "", false
		for _, s := range steps {
			switch act := s.Action.(type) {
			case DeleteRule:
				if act.AddressID == a.ID {
					deleted[act.RuleID], note = true, cmp.Or(note, act.Note)
				}
			case CreateRule:
				created = created || act.AddressID == a.ID
			}
		}
		stays := slices.ContainsFunc(a.Rules, func(r ActualRule) bool { return !deleted[r.ID] })
		if !a.Internal || len(a.Rules) == 0 || stays || !created {
			continue
		}
		out = append(out, Notice{Reason: ReasonRuleReplaced, Message: "all rules on " + a.IP + " are about to be replaced (" + note +
			"): CloudStack destroys the internal load balancer's virtual machine with them, and nobody is served until another one has started"})
	}
	return out
}
