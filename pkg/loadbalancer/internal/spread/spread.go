// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spread divides the sources of a port, and chooses who serves each part. It is pure.
package spread

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

// Cut splits ranges into parts that do not overlap and that together are the ranges, as sources of buckets. A range is
// cut into as many equal prefixes as there are buckets, the i-th for the i-th bucket; one that has no room for that
// into as many as it has, from a bucket on that depends on the range alone. A bucket may get nothing.
func Cut(ranges []string, buckets int) [][]string {
	v4, _, err := annotation.ParseRanges(ranges)
	if err != nil || buckets < 1 {
		return nil
	}

	parts := make([][]netip.Prefix, buckets)
	for _, r := range annotation.Aggregate(v4) {
		pieces := []netip.Prefix{r}
		for len(pieces) < buckets && pieces[0].Bits() < 32 {
			var halves []netip.Prefix
			for _, p := range pieces {
				low, high, _ := annotation.Halves(p)
				halves = append(halves, low, high)
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

// Place chooses the member to which each bucket is led. current are those that have them now, empty for none.
//
// A bucket stays where it is while its member serves. Another one goes to a member that has less than its even share of
// the buckets (rounded up), by rendezvous hash of the Service, the bucket and the member, so that Services and buckets
// spread. Beyond that a bucket moves only from a member that has more than its even share and one: the member with the
// fewest takes it. So one bucket alone never moves back to a node that returns, and a node that joins gets its part.
func Place(uid string, serving, current []string) []string {
	if len(serving) == 0 {
		return make([]string, len(current))
	}

	members := slices.Compact(slices.Sorted(slices.Values(serving)))
	out := slices.Clone(current)
	load := map[string]int{}
	for i, m := range out {
		if !slices.Contains(members, m) {
			out[i] = ""
			continue
		}
		load[m]++
	}

	share := (len(out) + len(members) - 1) / len(members)
	for i, m := range out {
		if m != "" {
			continue
		}
		room := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return load[m] >= share })
		out[i] = slices.MaxFunc(room, func(a, b string) int {
			return cmp.Or(cmp.Compare(weight(uid, strconv.Itoa(i), a), weight(uid, strconv.Itoa(i), b)),
				cmp.Compare(a, b))
		})
		load[out[i]]++
	}

	for {
		most := slices.MaxFunc(members,
			func(a, b string) int { return cmp.Or(cmp.Compare(load[a], load[b]), cmp.Compare(b, a)) })
		least := slices.MinFunc(members,
			func(a, b string) int { return cmp.Or(cmp.Compare(load[a], load[b]), cmp.Compare(a, b)) })
		if load[most]*len(members) <= len(out)+len(members) {
			return out
		}
		moved := -1
		for i, m := range out {
			if m == most &&
				(moved < 0 || weight(uid, strconv.Itoa(i), least) > weight(uid, strconv.Itoa(moved), least)) {
				moved = i
			}
		}
		out[moved] = least
		load[most]--
		load[least]++
	}
}

// weight is a hash whose bits all depend on all of the words.
func weight(words ...string) uint64 {
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	return binary.BigEndian.Uint64(sum[:])
}
