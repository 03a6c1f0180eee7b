// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package typo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"zone", "ZONE-1", "rate", "date", "gate", "late", "zone"}
	require.Equal(t, []string{"zone"}, Nearest("ZNOE", known, 2))
	require.Empty(t, Nearest("ZNOE", known, 1), "two letters are swapped, which are two changes")
	require.Equal(t, []string{"date", "gate", "late"}, Nearest("ate", known, 9), "no more than three")
	require.Empty(t, Nearest("zone", nil, 9))
}
