// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// TestSoak runs a minute of changes with a fixed seed.
func TestSoak(t *testing.T) {
	t.Parallel()
	o := options{Duration: time.Minute, Pace: 300 * time.Millisecond, Seed: 20260102, Faults: 0.05, Services: 8, Profile: "simulator"}
	path, there, err := plane.Cached(t.Context(), plane.Newest)
	require.NoError(t, err)
	if testing.Short() || !there {
		t.Skip("it takes two minutes, and needs the control plane: run go run ./cmd/plane-build")
	}
	o.Plane = path
	o.Programs, err = testenv.Build(t.Context(), testenv.BuildOptions{})
	require.NoError(t, err)
	var out strings.Builder
	o.Out = &out
	err = soak(t.Context(), o)
	t.Log("\n" + out.String())
	if err != nil {
		t.Error(err)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	require.NoError(t, differences(map[string]string{"a": "1"}, map[string]string{"a": "1"}))
	err := differences(map[string]string{"a": "1", "b": "2"}, map[string]string{"a": "3", "c": "4"})
	want := "a: \"3\" instead of \"1\"\nb: \"\" instead of \"2\"\nc: no Service asks for this rule: 4"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestGrowthIsSeen: growth of goroutines or memory is an error, steady values are not.
func TestGrowthIsSeen(t *testing.T) {
	t.Parallel()
	var steady, leak gauges
	for i := range 100 {
		steady.samples = append(steady.samples, sample{goroutines: 100 + float64(i%7), heap: 20 * mib, resident: 60 * mib})
		leak.samples = append(leak.samples, sample{goroutines: 100 + float64(3*i), heap: 20 * mib, resident: float64(60+2*i) * mib})
	}
	require.NoError(t, steady.err())
	if err := leak.err(); err == nil || !strings.Contains(err.Error(), "goroutines from") || !strings.Contains(err.Error(), "resident memory") {
		t.Errorf("%v", err)
	}
	steady.restarted()
	if err := steady.err(); err == nil {
		t.Error("no error without samples")
	}
}
