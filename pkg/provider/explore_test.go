// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:debug randseednop=0

package provider

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/testenv/script"
)

// TestExplore plays random histories of the whole controller in virtual time, and checks properties that must hold at
// each moment and at the end. Without settings it plays a few fixed seeds. "make explore" sets:
//
//	SEEDS=1-100     the histories of these seeds
//	MINUTES=10      no new history after this time
//	HISTORY=FILE    the scenarios of a file instead of seeds; prints a log
//	SHRINK=KIND     with HISTORY: prints the shortest scenario that still breaks this promise; with SEEDS, the first
//	                broken promise is used, unless SHRINK=0
func TestExplore(t *testing.T) {
	if file := os.Getenv("HISTORY"); file != "" {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all, err := script.Parse(string(text))
		require.NoError(t, err)
		for i := range all {
			t.Run(all[i].Name, func(t *testing.T) { replay(t, historyOf(&all[i])) })
		}
		return
	}
	if testing.Short() && os.Getenv("SEEDS") == "" {
		t.Skip("random histories: make explore plays them with the race detector")
	}

	from, to := seeds(t, "1-20")
	minutes, _ := strconv.Atoi(os.Getenv("MINUTES"))

	begun, steps, ready, seed := time.Now(), 0, 0, from
	for ; seed <= to && (minutes == 0 || time.Since(begun) < time.Duration(minutes)*time.Minute); seed++ {
		h := generate(seed)
		_, all := h.parts()
		steps += len(all)
		fmt.Printf("seed %d\n", seed) // if a goroutine leaks, the process ends
		out := play(t, h, false)
		ready += out.ready
		switch {
		case len(out.breaches) == 0:
		case !play(t, h, false).breaks(out.breaches[0].kind):
			// On a busy machine the runtime may have preempted a goroutine in the first play. Log that play, because it
			// proves nothing.
			t.Logf("seed %d broke a promise once, and not when it was played again: %s", seed, out.breaches[0])
		default:
			t.Errorf("seed %d breaks promises. To play it again: make explore SEEDS=%d", seed, seed)
			explain(t, h, out)
		}
	}
	t.Logf("%d seeds, %d steps, %d Services ready at the end, %s", seed-from, steps, ready,
		time.Since(begun).Round(time.Second))
	if seed-from >= 20 {
		assert.Greater(t, ready, int(seed-from)/2, "histories in which nothing is served prove nothing")
	}
}

// seeds returns the first and the last seed of SEEDS.
func seeds(t *testing.T, otherwise string) (from, to uint64) {
	t.Helper()
	n, _ := fmt.Sscanf(cmp.Or(os.Getenv("SEEDS"), otherwise), "%d-%d", &from, &to)
	require.NotZero(t, n, "SEEDS")
	return from, max(from, to)
}

// explain prints the broken promises, and the shortest history that breaks the first of them.
func explain(t *testing.T, h history, out played) {
	t.Helper()
	for _, b := range out.breaches {
		t.Logf("%s", b)
	}
	if os.Getenv("SHRINK") == "0" {
		return
	}
	kind := out.breaches[0].kind
	short := shrink(h, func(h history) bool { return play(t, h, false).breaks(kind) })
	t.Logf("the shortest history for %q. To play it: make explore HISTORY=FILE\n%s", kind, short)
}

// replay plays one history and prints its log.
func replay(t *testing.T, h history) {
	t.Helper()
	out := play(t, h, true)
	fmt.Println(strings.Join(out.lines, "\n"))
	for _, b := range out.breaches {
		t.Errorf("%s", b)
	}
	if kind := os.Getenv("SHRINK"); kind != "" {
		short := shrink(h, func(h history) bool { return play(t, h, true).breaks(kind) })
		fmt.Printf("the shortest history for %q:\n%s", kind, short)
	}
}

// TestHistories plays histories that once broke a promise.
func TestHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("random histories: make explore plays them with the race detector")
	}

	all, err := script.Find("explored", "")
	require.NoError(t, err)
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) {
			for _, b := range play(t, historyOf(&all[i]), true).breaches {
				t.Errorf("%s", b)
			}
		})
	}
}

// TestReplaysAreExact checks that a history replays to the same calls and Events at the same instants. Only the
// scheduler can change that, when it preempts a goroutine after 10 ms on a busy machine; so two of up to four plays
// must be equal.
func TestReplaysAreExact(t *testing.T) {
	if testing.Short() {
		t.Skip("random histories: make explore plays them with the race detector")
	}
	from, to := seeds(t, "1-3")
	for seed := from; seed <= to; seed++ {
		var before [][]string
		exact := false
		for len(before) < 4 && !exact {
			lines := slices.Sorted(slices.Values(play(t, generate(seed), true).lines)) // each begins with its instant
			exact = slices.ContainsFunc(before, func(other []string) bool { return slices.Equal(other, lines) })
			before = append(before, lines)
		}
		assert.True(t, exact, "seed %d", seed)
		t.Logf("seed %d: the same after %d plays", seed, len(before))
	}
}

// TestPlantedFaultsAreInTheSources checks that .ci/planted can still plant each fault.
func TestPlantedFaultsAreInTheSources(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/planted.txt")
	require.NoError(t, err)
	for _, fault := range strings.Split(string(text), "\n== ")[1:] {
		lines := strings.Split(strings.NewReplacer("{{", "", "}}", "").Replace(fault), "\n")
		files, err := filepath.Glob("../../" + lines[1] + "/*.go")
		require.NoError(t, err)
		count := 0
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") {
				count += strings.Count(string(source), lines[2][1:])
			}
		}
		assert.Equal(t, 1, count, "%s: how often this is in the sources of %s: %s", lines[0], lines[1], lines[2][1:])
	}
}

// historyOf returns the history of a scenario.
func historyOf(s *script.Scenario) (h history) {
	for _, step := range s.Steps {
		if !step.Expect {
			h = append(h, step.Line)
		}
	}
	return h
}

// stepsOf parses lines of a history.
func stepsOf(t *testing.T, lines []string) []script.Step {
	t.Helper()
	all, err := script.Parse("== history\n" + strings.Join(lines, "\n") + "\nexpect promises\n")
	require.NoError(t, err)
	steps := all[0].Steps
	return steps[:len(steps)-1]
}

// played is what happened in a history.
type played struct {
	breaches []breach
	lines    []string
	ready    int // Services at the end
}

func (p played) breaks(kind string) bool {
	return slices.ContainsFunc(p.breaches, func(b breach) bool { return b.kind == kind })
}

// play plays a history in its own synctest bubble. With trace, Events are part of the log.
//
// All random sources have fixed seeds here. A single processor and the delays of calls and events (see turn) order
// simultaneous events.
func play(t *testing.T, h history, trace bool) (out played) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer uuid.SetRand(nil)
	ok := t.Run("history", func(t *testing.T) {
		log := recordLog(t)
		synctest.Test(t, func(t *testing.T) {
			e := newExplorer(t, h, false)
			e.trace, e.log = trace, log

			defer func() { out = played{e.breaches, e.lines, e.ready} }()
			// Seed only now: parsing a world, which a process does once, also uses random numbers.
			rand.Seed(1) //nolint:staticcheck // apimachinery's jitter has no other source
			uuid.SetRand(randv2.NewChaCha8([32]byte{}))
			_, steps := h.parts()
			e.play(stepsOf(t, steps))
			if final := e.finish(); len(e.breaches) == 0 {
				e.compareWith(newExplorer(t, h, true), final)
			}
			time.Sleep(time.Minute) // let the calls of killed processes end
		})
	})

	if !ok && len(out.breaches) == 0 {
		out.breaches = []breach{{kind: string(harness), text: "see above"}}
	}

	return out
}

// recordLog sends klog's output to a buffer until the end of the test.
func recordLog(t *testing.T) *bytes.Buffer {
	t.Helper()
	out := &bytes.Buffer{}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	require.NoError(t, flags.Set("stderrthreshold", "FATAL"))
	klog.LogToStderr(false)
	klog.SetOutput(out)
	t.Cleanup(func() {
		klog.SetOutput(nil)
		klog.LogToStderr(true)
	})
	return out
}
