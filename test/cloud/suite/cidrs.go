// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"net/netip"
	"slices"
	"strings"
)

// cidrs is a list of ranges, sorted and with commas, whichever way the server writes it. Two halves are the whole: the
// controller narrows 0.0.0.0/0 by opening 10.0.0.0/9 and 10.128.0.0/9 before it closes.
func cidrs(text string) string {
	var all []netip.Prefix
	var other []string
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if p, err := netip.ParsePrefix(f); err == nil {
			all = append(all, p.Masked())
		} else {
			other = append(other, f)
		}
	}
	for joined := true; joined; {
		all, joined = joinOnce(all)
	}
	for _, p := range all {
		other = append(other, p.String())
	}
	slices.Sort(other)
	return strings.Join(other, ",")
}

// joinOnce puts the whole in the place of two halves, or leaves out a range that is in another one.
func joinOnce(all []netip.Prefix) ([]netip.Prefix, bool) {
	for i, a := range all {
		for j, b := range all {
			if i == j {
				continue
			}
			if a.Bits() <= b.Bits() && a.Contains(b.Addr()) {
				return slices.Delete(slices.Clone(all), j, j+1), true
			}
			whole := netip.PrefixFrom(a.Addr(), a.Bits()-1)
			if a.Bits() == b.Bits() && a.Bits() > 0 && whole.Masked() == netip.PrefixFrom(b.Addr(), b.Bits()-1).Masked() {
				rest := slices.Clone(all)
				rest[i] = whole.Masked()
				return slices.Delete(rest, j, j+1), true
			}
		}
	}
	return all, false
}
