// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// leave plans the removal of everything we own on the address.
func (p *planner) leave(a *Address) {
	if !a.Ours() {
		return
	}
	on := On{a.ID, a.IP}
	exclusive, why := a.exclusive()
	if a.Allocated && exclusive && !p.desired.KeepAddress && !a.Internal {
		// Releasing removes the address's rules with it.
		p.add(waveOldRelease, ReleaseAddress{On: on})
		return
	}
	for _, f := range sortedFirewall(a.Firewall) {
		if a.OwnsFirewall(f, nil) {
			p.add(waveOldClose, closeFirewall(on, f))
		}
	}
	rules := a.OwnRules()
	slices.SortFunc(rules, func(x, y ActualRule) int { return cmp.Compare(x.PublicPort, y.PublicPort) })
	for _, r := range rules {
		p.deleteRule(a, r, waveOldDelete, "")
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
		p.add(waveOldRelease, ForgetAddress{On: on, Internal: a.Internal, Allocated: a.Allocated, HandOver: handOver, Keep: keep, Note: why})
	}
}

// difference returns what is only in want and what is only in have.
func difference(want, have []string) (add, remove []string) {
	for _, w := range want {
		if !slices.Contains(have, w) {
			add = append(add, w)
		}
	}
	for _, h := range have {
		if !slices.Contains(want, h) {
			remove = append(remove, h)
		}
	}
	slices.Sort(add)
	slices.Sort(remove)
	return slices.Compact(add), slices.Compact(remove)
}
