// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:debug randseednop=0

package provider

import (
	"bytes"
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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// TestExplore plays random histories of the whole controller in virtual time, and checks what must be true at each moment and
// at the end. Without settings it plays a few fixed seeds. "make explore" sets:
//
//	SEEDS=1-100     the histories of these seeds
//	MINUTES=10      no new history after this time
//	HISTORY=FILE    one history from a file instead; its trace is printed
//	SHRINK=KIND     makes that history short while this violation stays; of seeds, the first violation is shrunk unless SHRINK=0
//	MASKS=0         reports what is known, too
func TestExplore(t *testing.T) {
	masks := os.Getenv("MASKS") != "0"
	if file := os.Getenv("HISTORY"); file != "" {
		replay(t, file)
		return
	}
	first, last := 1, 20
	if seeds := os.Getenv("SEEDS"); seeds != "" {
		from, to, many := strings.Cut(seeds, "-")
		first, _ = strconv.Atoi(from)
		if last = first; many {
			last, _ = strconv.Atoi(to)
		}
	}
	minutes, _ := strconv.Atoi(os.Getenv("MINUTES"))
	begun, seeds, steps := time.Now(), 0, 0
	for seed := first; seed <= last; seed++ {
		if minutes > 0 && time.Since(begun) > time.Duration(minutes)*time.Minute {
			break
		}
		h := generate(uint64(seed))
		fmt.Printf("seed %d\n", seed) // where a goroutine stays, the process ends
		bad, _ := playHistory(t, h, false, masks)
		seeds++
		steps += len(h.steps)
		if len(bad) == 0 {
			continue
		}
		t.Errorf("seed %d breaks promises; to play it again: make explore SEEDS=%d", seed, seed)
		for _, b := range bad {
			t.Logf("%s", b)
		}
		if os.Getenv("SHRINK") != "0" {
			t.Logf("the shortest history for %s; to play it: make explore HISTORY=FILE\n%s", bad[0].kind, shrink(t, h, bad[0].kind, masks))
		}
	}
	t.Logf("%d seeds, %d steps, %s", seeds, steps, time.Since(begun).Round(time.Second))
}

// replay plays a history from a file, and prints what happens.
func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	h := parseHistory(string(text))
	bad, trace := playHistory(t, h, true, os.Getenv("MASKS") == "1")
	fmt.Println(strings.Join(trace, "\n"))
	for _, b := range bad {
		t.Errorf("%s", b)
	}
	if kind := os.Getenv("SHRINK"); kind != "" {
		fmt.Printf("the shortest history for %s:\n%s", kind, shrink(t, h, kind, false))
	}
}

// TestHistories plays the histories of testdata. One that is not mended yet names what it breaks in a line "# known: ...".
func TestHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var known []string
			for line := range strings.Lines(string(text)) {
				if list, ok := strings.CutPrefix(strings.TrimSpace(line), "# known: "); ok {
					known = strings.Fields(list)
				}
			}
			bad, _ := playHistory(t, parseHistory(string(text)), false, false)
			var kinds []string
			for _, b := range bad {
				kinds = append(kinds, b.kind)
				if !slices.Contains(known, b.kind) {
					t.Errorf("%s", b)
				}
			}
			for _, k := range known {
				assert.Contains(t, kinds, k, "it is mended: remove it from the line # known of %s", file)
			}
		})
	}
}

func (b breach) String() string {
	return fmt.Sprintf("%s (step %d, %s): %.500s", b.kind, b.step, b.at.Round(time.Millisecond), b.text)
}

// logBuffer keeps what the controllers log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) take() string {
	klog.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.buf.String()
	l.buf.Reset()
	return text
}

// recordLog sends klog's output to a buffer until the end of the test.
func recordLog(t *testing.T) *logBuffer {
	t.Helper()
	out := &logBuffer{}
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

// playHistory plays a history in a bubble of its own.
func playHistory(t *testing.T, h history, verbose, masks bool) (bad []breach, trace []string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rand.Seed(1) //nolint:staticcheck // apimachinery's jitter has no other source
	uuid.SetRand(randv2.NewChaCha8([32]byte{}))
	defer uuid.SetRand(nil)
	ok := t.Run("history", func(t *testing.T) {
		log := recordLog(t)
		synctest.Test(t, func(t *testing.T) {
			e := newExplorer(t, h, false)
			e.verbose, e.masks, e.log = verbose, masks, log
			defer func() {
				bad, trace = e.bad, e.trace
			}()
			e.play()
			final := e.finish()
			if len(e.bad) > 0 {
				return
			}
			fresh := newExplorer(t, h, true)
			fresh.masks = masks
			if err := fresh.likeEnd(e); err != nil {
				e.report("harness", "fresh world: %v", err)
				return
			}
			e.compare(fresh, final)
			if verbose && len(fresh.bad) > 0 {
				e.trace = append(e.trace, "--- the fresh world")
				e.trace = append(e.trace, fresh.trace...)
			}
		})
	})
	if !ok && !slices.ContainsFunc(bad, func(v breach) bool { return v.kind == "failed" }) {
		bad = append(bad, breach{kind: "failed", text: "the test itself failed"})
	}
	return bad, trace
}

// shrink drops steps, and words of steps, while the history still fails in the same way.
func shrink(t *testing.T, h history, kind string, masks bool) history {
	t.Helper()
	left := 160
	fails := func(h history) bool {
		if left--; left < 0 {
			return false
		}
		bad, _ := playHistory(t, h, false, masks)
		return slices.ContainsFunc(bad, func(v breach) bool { return v.kind == kind })
	}
	for size := max(1, len(h.steps)/2); size >= 1; size /= 2 {
		for at := 0; at < len(h.steps); {
			end := min(len(h.steps), at+size)
			shorter := history{h.world, slices.Concat(h.steps[:at], h.steps[end:])}
			if fails(shorter) {
				h = shorter
			} else {
				at = end
			}
		}
	}
	// Words of changes of Services, and of the world.
	for i := range h.steps {
		w := strings.Fields(h.steps[i])
		if w[0] != "create" && w[0] != "edit" {
			continue
		}
		for at := 3; at < len(w); {
			fewer := slices.Delete(slices.Clone(w), at, at+1)
			next := history{h.world, slices.Clone(h.steps)}
			next.steps[i] = strings.Join(fewer, " ")
			if fails(next) {
				h, w = next, fewer
			} else {
				at++
			}
		}
	}
	for at := 1; at < len(h.world); {
		next := history{slices.Delete(slices.Clone(h.world), at, at+1), h.steps}
		if fails(next) {
			h = next
		} else {
			at++
		}
	}
	return h
}
