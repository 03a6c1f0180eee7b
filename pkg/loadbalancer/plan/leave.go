// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// leave plans the removal of everything we own on the address.
func (p *planner) leave(a *Address) {
	if !a.Ours() {
		return
	}
	exclusive, why := a.exclusive()
	if a.Allocated && exclusive && !p.desired.KeepAddress && !a.Internal {
		// Releasing removes the address's rules with it.
		p.add(waveOldRelease, ReleaseAddress{OnAddress: a.on()})
		return
	}
	for _, f := range access.Sorted(a.Firewall) {
		if a.OwnsFirewall(f, nil) {
			p.add(waveOldClose, a.closing(f))
		}
	}
	rules := a.OwnRules()
	slices.SortFunc(rules, func(x, y ActualRule) int { return cmp.Compare(x.PublicPort, y.PublicPort) })
	for _, r := range rules {
		p.deleteRule(a, r, waveOldDelete, "")
	}
	for _, f := range a.OwnForwards() {
		p.deleteForward(a, &f, waveOldDelete)
	}
	if a.Recorded || a.Owner == Owned {
		handOver := a.Allocated && a.shared() && !p.desired.KeepAddress && !p.limits.NoTags
		keep := a.Allocated && p.desired.KeepAddress && !a.Internal && !p.limits.NoTags
		switch {
		case a.Internal:
			why = "it belongs to its tier"
		case handOver:
			why = "other Services use it"
		case !a.Allocated:
			why = "nothing proves that this controller acquired it; csccm adopt hands such addresses over"
		case p.desired.KeepAddress:
			why = "annotation " + annotation.KeepIP + " is set"
		}
		p.add(waveOldRelease, ForgetAddress{OnAddress: a.on(), Internal: a.Internal, Allocated: a.Allocated, HandOver: handOver, Keep: keep, Note: why})
	}
}
