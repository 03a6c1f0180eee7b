// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	left, right := []string{"one", strings.Repeat("x", 80)}, []string{"two"}
	for width, want := range map[int][]string{
		0:   {"L" + strings.Repeat(" ", 64) + "│ R", "one" + strings.Repeat(" ", 62) + "│ two", strings.Repeat("x", 61) + "... │"},
		100: {"L" + strings.Repeat(" ", 48) + "│ R", "one" + strings.Repeat(" ", 46) + "│ two", strings.Repeat("x", 45) + "... │"},
	} {
		if have := columns(width, "L", "R", left, right); !slices.Equal(have, want) {
			t.Errorf("%d columns:\n%q, want\n%q", width, have, want)
		}
	}
}

// TestWorld: CloudStack takes the lesson's world, and the accounts differ only in their names and networks.
func TestWorld(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: world()})
	require.NoError(t, err)
	defer sim.Close()
	count := map[string]int{}
	for _, vm := range sim.Objects().VMs {
		count[vm.Owner]++
	}
	if count[withoutName] != workers+1 || count[withName] != workers+1 || len(count) != 2 {
		t.Errorf("VMs by account: %v", count)
	}
}
