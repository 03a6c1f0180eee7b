// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSuspiciousFindsKeysNotNames(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("aB3_x", 17)
	for text, want := range map[string]bool{
		"held by cloudstack-cloud-controller-manager-6795875979-bjspl_46e0dbb4-1200-4a35-a1b7-e6b89c9ed61c": false,
		strings.Repeat("-", 80): false,
		"key " + key:            true,
	} {
		assert.Equal(t, want, suspicious([]line{{Runs: []textRun{{Text: text}}}}) != "", text)
	}
}

func TestRecordRunsInATerminal(t *testing.T) {
	t.Parallel()
	lines, err := record(t.Context(), 60, []string{"sh", "-c", "test -t 1 && stty size && printf '\\033[31mred\\033[0m\\n'"})
	require.NoError(t, err)
	if len(lines) != 2 || lines[0].text() != "2000 60" || lines[1].Runs[0].Paint != red {
		t.Errorf("recorded %v", lines)
	}
	if _, err := record(t.Context(), 60, []string{"sh", "-c", "echo why; exit 3"}); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("the error of a failed program is %v, want its output in it", err)
	}
}
