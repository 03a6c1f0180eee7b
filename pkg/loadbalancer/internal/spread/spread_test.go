// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
)

// Buckets never overlap, and together they cover the ranges. There are as many buckets as the ranges have room for.
func TestPropertiesOfCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2)) // #nosec G404 -- a test
		var ranges []string
		for range 1 + r.IntN(6) {
			addr := netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
			ranges = append(ranges, netip.PrefixFrom(addr, r.IntN(33)).Masked().String())
		}

		buckets := 1 << r.IntN(6)
		parts := Cut(ranges, buckets)
		require.Len(t, parts, buckets)
		var all []string
		for i, part := range parts {
			all = append(all, part...)
			for _, other := range parts[:i] {
				require.Empty(t, annotation.Common(part, other), "seed %d: %v", seed, ranges)
			}
		}

		require.Equal(t, annotation.Common(ranges, ranges), annotation.Common(all, all), "seed %d: %v in %v", seed,
			ranges, parts)
		used := len(slices.DeleteFunc(parts, func(p []string) bool { return len(p) == 0 }))
		require.LessOrEqual(t, used, buckets)
		if 1<<(32-netip.MustParsePrefix(ranges[0]).Bits()) >= buckets {
			require.Equal(t, buckets, used, "seed %d: %v", seed, ranges)
		}

		slices.Reverse(ranges)
		require.Equal(t, Cut(slices.Clone(ranges), buckets), Cut(ranges, buckets))
	}
}

// When nodes join and leave, a bucket stays while its member serves, unless the member has more than its even share
// plus one. No other bucket moves.
func TestPropertiesOfPlace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3)) // #nosec G404 -- a test
		buckets := 1 << r.IntN(6)
		uid := fmt.Sprint("uid", seed)
		current := make([]string, buckets)
		for round := range 12 {
			var serving []string
			for i := range 8 {
				if r.IntN(2) == 0 {
					serving = append(serving, fmt.Sprintf("vm%d", i))
				}
			}

			if len(serving) == 0 {
				serving = []string{"vm3"}
			}

			next := Place(uid, serving, current)
			load, kept := map[string]int{}, map[string]int{}
			for i, m := range next {
				require.Contains(t, serving, m)
				load[m]++
				if slices.Contains(serving, current[i]) {
					kept[current[i]]++
				}
			}

			limit := buckets/len(serving) + 1
			gone := map[string]int{}
			for i, m := range next {
				require.LessOrEqual(t, load[m], limit, "seed %d", seed)
				if c := current[i]; kept[c] > 0 && c != m {
					gone[c]++
				}
			}

			for m, n := range gone {
				require.LessOrEqual(t, n, max(0, kept[m]-limit), "seed %d, round %d: %s lost more than it had to", seed,
					round, m)
			}

			slices.Reverse(serving)
			require.Equal(t, next, Place(uid, serving, current), "the order of the members does not matter")
			require.Equal(t, next, Place(uid, serving, next), "nothing moves without a reason")
			current = next
		}
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	nodes := []string{"a", "b", "c", "d"}
	first := map[string]int{}
	for i := range 400 {
		first[Place(fmt.Sprint("uid", i), nodes, []string{""})[0]]++
	}
	for _, n := range nodes {
		assert.InDelta(t, 100, first[n], 35, "Services spread over the nodes")
	}
	assert.Equal(t, []string{"b"}, Place("uid", nodes, []string{"b"}),
		"the only bucket stays where it is, whoever returns")
	assert.NotEqual(t, "b", Place("uid", []string{"a", "c", "d"}, []string{"b"})[0])
	assert.Equal(t, []string{""}, Place("uid", nil, []string{"b"}))
}
