// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spread divides the sources of a port, and chooses who serves each part. It is pure.
package spread

import (
	"net/netip"

	"github.com/csccm/csccm/pkg/annotation"
)

// Cut splits ranges into parts that do not overlap and that together are the ranges, as sources of buckets. A range is cut
// into as many equal prefixes as there are buckets, the i-th for the i-th bucket; one that has no room for that into as
// many as it has, from a bucket on that depends on the range alone. A bucket may get nothing.
func Cut(ranges []string, buckets int) [][]string {
	v4, _, err := annotation.ParseRanges(ranges)
	if err != nil || buckets < 1 {
		return nil
	}
	parts := make([][]netip.Prefix, buckets)
	for _, r := range annotation.Aggregate(v4) {
		pieces := []netip.Prefix{r}
		for len(pieces) < buckets && r.Bits() < 32 {
			var halves []netip.Prefix
			for _, p := range pieces {
				low, high, ok := annotation.Halves(p)
				if !ok {
					halves = nil
					break
				}
				halves = append(halves, low, high)
			}
			if halves == nil {
				break
			}
			pieces = halves
		}
		first := 0
		if len(pieces) < buckets {
			first = int(weight(r.String()) % uint64(buckets)) // #nosec G115 -- less than buckets
		}
		for i, p := range pieces {
			at := (first + i) % buckets
			parts[at] = append(parts[at], p)
		}
	}
	out := make([][]string, buckets)
	for i := range parts {
		out[i] = annotation.Strings(annotation.Aggregate(parts[i]))
	}
	return out
}

// Common are the sources that are in both lists.
func Common(a, b []string) []string {
	x, _, err1 := annotation.ParseRanges(a)
	y, _, err2 := annotation.ParseRanges(b)
	if err1 != nil || err2 != nil {
		return nil
	}
	return annotation.Strings(annotation.Aggregate(annotation.Intersect(x, y)))
}

// Size is the number of addresses in ranges that do not overlap.
func Size(ranges []string) (n uint64) {
	v4, _, err := annotation.ParseRanges(ranges)
	if err != nil {
		return 0
	}
	for _, p := range annotation.Aggregate(v4) {
		n += 1 << (32 - p.Bits())
	}
	return n
}
