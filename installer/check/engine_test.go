// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// made is a check that finds f.
func made(code string, severity Severity, f Finding, needs ...string) Check {
	return Check{
		Code: code, Title: "title of " + code, Severity: severity, Needs: needs, Remedy: "the usual",
		Judge: func(*Facts) Finding { return f },
	}
}

// reads is a check that finds f when something is read.
func reads(code string, f Finding, s Source) Check {
	c := made(code, SeverityError, f)
	c.Reads = []Source{s}
	return c
}

type readers map[Source]func(ctx context.Context) error

func (readers readers) sources() map[Source]source {
	out := map[Source]source{}
	for s, read := range readers {
		out[s] = source{read: func(ctx context.Context, _ *reading, _ *Facts) error { return read(ctx) }}
	}
	return out
}

func runAll(ctx context.Context, catalogue []Check, sel Selection, progress func(Result)) Report {
	return readers{}.run(ctx, catalogue, sel, progress)
}

func (readers readers) run(ctx context.Context, catalogue []Check, sel Selection, progress func(Result)) Report {
	r, _ := run(ctx, &Env{}, catalogue, readers.sources(), sel, progress)
	return r
}

func outcomes(r Report) map[string]Outcome {
	m := map[string]Outcome{}
	for _, c := range r.Checks {
		m[c.Code] = c.Outcome
	}
	return m
}

func TestRunKeepsTheOrderAndReadsInParallel(t *testing.T) {
	t.Parallel()
	const n = 20
	var running, peak atomic.Int32
	gate := make(chan struct{})
	var open sync.Once
	var catalogue []Check
	sources := readers{}
	for i := range n {
		s := Source(fmt.Sprint(i))
		sources[s] = func(context.Context) error {
			now := running.Add(1)
			defer running.Add(-1)
			for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
			}
			if now == cluster.AtOnce {
				open.Do(func() { close(gate) }) // all at once: go on
			}
			<-gate
			return nil
		}
		catalogue = append(catalogue, reads(fmt.Sprintf("T-%03d", i), Passf("fine"), s))
	}
	var seen []string
	r := sources.run(t.Context(), catalogue, Selection{}, func(r Result) { seen = append(seen, r.Code) })
	require.EqualValues(t, cluster.AtOnce, peak.Load(), "no more at a time")
	require.Len(t, r.Checks, n)
	for i := range n {
		require.Equal(t, catalogue[i].Code, r.Checks[i].Code)
		require.Equal(t, catalogue[i].Code, seen[i])
	}
	require.Equal(t, Summary{OK: n}, r.Summary)
}

func TestSkipWhenANeededCheckDidNotPass(t *testing.T) {
	t.Parallel()
	catalogue := []Check{
		made("T-001", SeverityFatal, Problemf("down")),
		made("T-002", SeverityError, Passf("not reached"), "T-001"),
		made("T-003", SeverityError, Passf("not reached either"), "T-002"),
		made("T-004", SeverityWarning, Problemf("meh")),
		made("T-005", SeverityError, Passf("a warning is no reason to skip"), "T-004"),
		made("T-006", SeverityError, Unknownf("who knows")),
		made("T-007", SeverityError, Passf(""), "T-006"),
	}
	r := runAll(t.Context(), catalogue, Selection{}, nil)
	require.Equal(t, map[string]Outcome{
		"T-001": Failed, "T-002": Skipped, "T-003": Skipped, "T-004": Warning, "T-005": OK, "T-006": Unknown, "T-007": Skipped,
	}, outcomes(r))
	require.Equal(t, "needs T-001, which failed", r.Checks[1].Message)
	require.Equal(t, "needs T-002, which was skipped", r.Checks[2].Message)
	require.Equal(t, "needs T-006, which could not be judged", r.Checks[6].Message)
	require.Equal(t, Summary{OK: 1, Warning: 1, Failed: 1, Skipped: 3, Unknown: 1}, r.Summary)
}

func TestSelection(t *testing.T) {
	t.Parallel()
	pre := made("A-001", SeverityError, Passf(""))
	pre.Phase = PhasePreflight
	catalogue := []Check{pre, made("A-002", SeverityError, Problemf("no")), made("B-001", SeverityError, Passf(""), "A-002"), made("B-002", SeverityError, Passf(""))}
	tests := []struct {
		name string
		sel  Selection
		want map[string]Outcome
	}{
		{"all", Selection{}, map[string]Outcome{"A-001": OK, "A-002": Failed, "B-001": Skipped, "B-002": OK}},
		{"a phase", Selection{Phase: PhaseInstalled}, map[string]Outcome{"A-002": Failed, "B-001": Skipped, "B-002": OK}},
		{"a code in lower case", Selection{Only: []string{"b-002"}}, map[string]Outcome{"B-002": OK}},
		{"a group", Selection{Only: []string{"B"}}, map[string]Outcome{"A-002": Failed, "B-001": Skipped, "B-002": OK}},
		{"what a selected check needs is shown when it fails", Selection{Only: []string{"B-001"}}, map[string]Outcome{"A-002": Failed, "B-001": Skipped}},
		{"what is left out on purpose counts as passed", Selection{Skip: []string{"A"}}, map[string]Outcome{"B-001": OK, "B-002": OK}},
		{"only and skip", Selection{Only: []string{"B"}, Skip: []string{"B-002"}}, map[string]Outcome{"A-002": Failed, "B-001": Skipped}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, outcomes(runAll(t.Context(), catalogue, tt.sel, nil)))
		})
	}
	require.ErrorContains(t, Selection{Only: []string{"NOPE-001"}}.Validate(), "NOPE-001")
	require.ErrorContains(t, Selection{Skip: []string{"NOD"}}.Validate(), "NOD")
	require.NoError(t, Selection{Only: []string{"NODE", "cs-001"}}.Validate())
}

func TestTimeoutOfOneCheck(t *testing.T) {
	t.Parallel()
	sources := readers{"slow": func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	catalogue := []Check{reads("T-001", Passf("too late"), "slow"), made("T-003", SeverityError, Passf(""))}
	r := sources.run(t.Context(), catalogue, Selection{Timeout: time.Millisecond}, nil)
	require.Equal(t, map[string]Outcome{"T-001": Unknown, "T-003": OK}, outcomes(r))
	require.Equal(t, "slow could not be read: no result within 1ms", r.Checks[0].Message)
}

func TestEndOfTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stuck := reads("T-001", Passf(""), "slow")
	sources := readers{"slow": func(ctx context.Context) error {
		cancel() // ^C
		<-ctx.Done()
		return ctx.Err()
	}}
	r := sources.run(ctx, []Check{stuck, made("T-002", SeverityError, Passf(""), "T-001")}, Selection{}, nil)
	require.Equal(t, Unknown, r.Checks[0].Outcome)
	require.Contains(t, r.Checks[0].Message, "interrupted")
	require.Equal(t, 2, r.Unfinished, "also what needs it: %s", r.Checks[1].Message)
	for _, short := range []bool{true, false} {
		var out bytes.Buffer
		require.NoError(t, r.WriteText(&out, TextOptions{Short: short}))
		require.NotContains(t, out.String(), "T-00", "no finding")
		require.Contains(t, out.String(), "0 unknown, 2 not finished\n")
	}

	// What is found by then stays; what could not be read any more is no finding.
	ctx, cancel = context.WithCancel(t.Context())
	said := make(chan struct{})
	sources["slow"] = func(context.Context) error {
		<-said
		cancel()
		return nil
	}
	r = sources.run(ctx, []Check{made("T-001", SeverityError, Finding{Message: "is broken"}), reads("T-002", Finding{}, "slow")}, Selection{}, func(r Result) {
		if r.Code == "T-001" {
			close(said)
		}
	})
	require.Equal(t, map[string]Outcome{"T-001": Failed, "T-002": Unknown}, outcomes(r))
	require.Equal(t, 1, r.Unfinished)

	ctx, cancel = context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	r = sources.run(ctx, []Check{stuck}, Selection{}, nil)
	require.Contains(t, r.Checks[0].Message, "the time for the whole run is over")
}

func TestPanicIsAFinding(t *testing.T) {
	t.Parallel()
	c := made("T-001", SeverityError, Finding{})
	c.Judge = func(*Facts) Finding { panic("oops") }
	sources := readers{"it": func(context.Context) error { panic("oops") }}
	r := sources.run(t.Context(), []Check{c, reads("T-002", Passf(""), "it"), made("T-003", SeverityError, Passf(""))}, Selection{}, nil)
	require.Equal(t, map[string]Outcome{"T-001": Unknown, "T-002": Unknown, "T-003": OK}, outcomes(r))
	require.Contains(t, r.Checks[0].Message, "oops")
	require.Contains(t, r.Checks[1].Message, "it could not be read: csccm broke (oops)")
}

func TestSourceIsReadOnce(t *testing.T) {
	t.Parallel()
	var times atomic.Int32
	sources := readers{"it": func(context.Context) error {
		times.Add(1)
		return nil
	}}
	r := sources.run(t.Context(), []Check{reads("T-001", Passf(""), "it"), reads("T-002", Passf(""), "it")}, Selection{}, nil)
	require.Equal(t, 2, r.Summary.OK)
	require.EqualValues(t, 1, times.Load())
}

func TestWithoutCloudStack(t *testing.T) {
	t.Parallel()
	verify := func(e *Env, outcome Outcome, message string) {
		t.Helper()
		e.Namespace = "kube-system"
		r := Run(t.Context(), e, Selection{Only: []string{"CS-001"}}, nil).Checks[0]
		require.Equal(t, outcome, r.Outcome, "%+v", r)
		require.Contains(t, r.Message, message)
		require.Empty(t, r.Objects)
	}
	verify(&Env{}, Skipped, "Secret kube-system/cloudstack-secret")
	verify(&Env{Setup: Setup{NoCloud: "because"}}, Skipped, "because")
	verify(&Env{Setup: Setup{NoCloudErr: errors.New("the cloud-config is broken")}}, Failed, "broken")
}
