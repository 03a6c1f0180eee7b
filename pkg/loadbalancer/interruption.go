// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import "slices"

// interruptions tells of internal load balancers all of whose rules a plan replaces: CloudStack destroys the virtual
// machine that balances an address with the last rule of it, and starts another one with the next. There is no call that
// changes such a rule in place: updateLoadBalancerRule fails on it, updateLoadBalancer only shows or hides it.
func interruptions(actions []Action, actual Actual) []Notice {
	var out []Notice
	for i := range actual.Addresses {
		a := &actual.Addresses[i]
		if !a.Internal || len(a.Rules) == 0 {
			continue
		}
		on := func(kind ActionKind) []Action {
			return slices.DeleteFunc(slices.Clone(actions), func(act Action) bool { return act.Kind != kind || act.AddressID != a.ID })
		}
		deleted := on(DeleteRule)
		stays := slices.ContainsFunc(a.Rules, func(r ActualRule) bool {
			return !slices.ContainsFunc(deleted, func(act Action) bool { return act.RuleID == r.ID })
		})
		if stays || len(on(CreateRule)) == 0 {
			continue
		}
		out = append(out, Notice{Reason: ReasonRuleReplaced, Message: "all rules on " + a.IP + " are about to be replaced (" + deleted[0].Note +
			"): CloudStack destroys the internal load balancer's virtual machine with them, and nobody is served until another one has started"})
	}
	return out
}
