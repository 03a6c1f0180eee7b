// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	script := `test -t 1; stty size; printf 'on it\r\033[Ka  b \033[31mred é\033[0m\n'; printf '%0146d\n' 0 | tr 0 '. '`
	lines, err := record(t.Context(), "sh", "-c", script)
	require.NoError(t, err)
	require.Len(t, lines, 4)
	assert.Equal(t, []text{{0, "40 144", ""}}, lines[0].texts)
	assert.Equal(t, []text{{0, "a", ""}, {3, "b", ""}, {5, "red é", "r"}}, lines[1].texts)
	assert.Equal(t, []text{{0, "..", ""}}, lines[3].texts)
	_, err = record(t.Context(), "sh", "-c", "echo why; exit 3")
	require.ErrorContains(t, err, "why")
	_, err = record(t.Context(), "echo", "key", strings.Repeat("aB3_x", 17))
	require.EqualError(t, err, "the output contains what looks like a key, which begins with aB3_xa")
}

func TestNamesAreNotSuspicious(t *testing.T) {
	t.Parallel()
	assert.Empty(t,
		suspicious("held by cloudstack-cloud-controller-manager-6795875979-bjspl_46e0dbb4-1200-4a35-a1b7-e6b89c9ed61c"))
	assert.Empty(t, suspicious(strings.Repeat("-", 80)))
}
