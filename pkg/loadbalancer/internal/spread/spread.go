// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spread splits the source addresses of a port into buckets, and chooses a member for each bucket. It makes no
// calls and keeps no state.
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

// Cut splits ranges into disjoint buckets that together cover the ranges. Each range is split into as many equal
// prefixes as there are buckets, one for each bucket. A range that is too small for that is split into single
// addresses, starting at a bucket that depends on the range alone. A bucket may be empty.
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
				halves = append(halves, annotation.Halves(p)...)
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

// Place chooses the member for each bucket. current are the current members of the buckets; empty for none.
//
// A bucket stays with its member while that member serves. Another bucket goes to a member that has fewer than its even
// share of the buckets (rounded up). A rendezvous hash of the Service, the bucket and the member chooses which one, so
// that Services and buckets are spread evenly. After that, a bucket moves only from a member that has more than its
// even share plus one, to the member with the fewest buckets. So a single bucket never moves back to a node that
// returns, and a node that joins gets its share.
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

// weight returns a hash of the words. All of its bits depend on all words.
func weight(words ...string) uint64 {
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	return binary.BigEndian.Uint64(sum[:])
}
