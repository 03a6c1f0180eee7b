// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/netip"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// Canonical masks, sorts and joins ranges; what does not parse stays as it is.
func Canonical(in []string) []string {
	var odd []string
	var prefixes []netip.Prefix
	for _, r := range in {
		v4, _, err := annotation.ParseRanges([]string{r})
		if err != nil || len(v4) != 1 {
			odd = append(odd, r)
			continue
		}
		prefixes = append(prefixes, v4[0])
	}
	out := append(annotation.Strings(annotation.Aggregate(prefixes)), odd...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Same reports whether two lists let in the same sources.
func Same(a, b []string) bool { return slices.Equal(Canonical(a), Canonical(b)) }

// Contain reports whether every inner range lies within the outer ones.
func Contain(outer, inner []string) bool {
	out, _, err1 := annotation.ParseRanges(outer)
	in, _, err2 := annotation.ParseRanges(inner)
	if err1 != nil || err2 != nil {
		return false
	}
	out = annotation.Aggregate(out)
	for _, i := range in {
		if !slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Bits() <= i.Bits() && o.Contains(i.Addr()) }) {
			return false
		}
	}
	return true
}

// intersect reports whether two lists have a source in common.
func intersect(a, b []string) bool {
	x, _, err1 := annotation.ParseRanges(a)
	y, _, err2 := annotation.ParseRanges(b)
	return err1 == nil && err2 == nil && len(annotation.Intersect(x, y)) > 0
}

// freeForm is the shortest way to write a range with prefixes that are not taken: itself, its halves, their halves.
func freeForm(r string, taken map[string]bool) ([]string, bool) {
	prefix, err := netip.ParsePrefix(r)
	if err != nil {
		return []string{r}, !taken[r]
	}
	form := []netip.Prefix{prefix}
	for range 4 {
		if !slices.ContainsFunc(form, func(p netip.Prefix) bool { return taken[p.String()] }) {
			return annotation.Strings(form), true
		}
		var next []netip.Prefix
		for _, p := range form {
			low, high, ok := annotation.Halves(p)
			if !ok {
				return []string{r}, false
			}
			next = append(next, low, high)
		}
		form = next
	}
	return []string{r}, false
}
