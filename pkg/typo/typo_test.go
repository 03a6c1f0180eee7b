// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package typo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "zone", 4},
		{"api-key", "api-key", 0},
		{"apikey", "api-key", 1},
		{"NOED", "NODE", 2}, // two letters swapped
		{"kitten", "sitting", 3},
		{"secret-key", "zone", 9},
	} {
		require.Equal(t, tc.want, Distance(tc.a, tc.b), "%q, %q", tc.a, tc.b)
		require.Equal(t, tc.want, Distance(tc.b, tc.a), "%q, %q", tc.b, tc.a)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"zone", "ZONE-1", "rate", "date", "gate", "late", "zone"}
	require.Equal(t, []string{"zone"}, Nearest("ZNOE", known))
	require.Equal(t, []string{"date", "gate", "late"}, Nearest("ate", known), "no more than Enough")
	require.Empty(t, Nearest("zone", nil))
}
