// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

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

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// made is a check that finds f.
func made(code string, severity check.Severity, f check.Finding, needs ...string) check.Check {
	return check.Check{
		Code: code, Title: "title of " + code, Severity: severity, Needs: needs, Remedy: "the usual",
		Judge: func(*check.Facts) check.Finding { return f },
	}
}

// reads is a check that finds f when something is read.
func reads(code string, f check.Finding, s check.Source) check.Check {
	c := made(code, check.SeverityError, f)
	c.Reads = []check.Source{s}
	return c
}

type readers map[check.Source]func(ctx context.Context) error

func (readers readers) sources() map[check.Source]source {
	out := map[check.Source]source{}
	for s, read := range readers {
		out[s] = source{read: func(ctx context.Context, _ *reading, _ *check.Facts) error { return read(ctx) }}
	}
	return out
}

func (readers readers) run(ctx context.Context, catalogue []check.Check, sel check.Selection, progress func(check.Result)) check.Report {
	r, _ := newReading(ctx, &Env{}, readers.sources(), sel).run(ctx, catalogue, progress)
	return r
}

func outcomes(r check.Report) map[string]check.Outcome {
	m := map[string]check.Outcome{}
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
	var catalogue []check.Check
	sources := readers{}
	for i := range n {
		s := check.Source(fmt.Sprint(i))
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
		catalogue = append(catalogue, reads(fmt.Sprintf("T-%03d", i), check.Passf("fine"), s))
	}
	var seen []string
	r := sources.run(t.Context(), catalogue, check.Selection{}, func(r check.Result) { seen = append(seen, r.Code) })
	require.EqualValues(t, cluster.AtOnce, peak.Load(), "no more at a time")
	require.Len(t, r.Checks, n)
	for i := range n {
		require.Equal(t, catalogue[i].Code, r.Checks[i].Code)
		require.Equal(t, catalogue[i].Code, seen[i])
	}
	require.Equal(t, check.Summary{OK: n}, r.Summary)
}

func TestSkipWhenANeededCheckDidNotPass(t *testing.T) {
	t.Parallel()
	catalogue := []check.Check{
		made("T-001", check.SeverityFatal, check.Problemf("down")),
		made("T-002", check.SeverityError, check.Passf("not reached"), "T-001"),
		made("T-003", check.SeverityError, check.Passf("not reached either"), "T-002"),
		made("T-004", check.SeverityWarning, check.Problemf("meh")),
		made("T-005", check.SeverityError, check.Passf("a warning is no reason to skip"), "T-004"),
		made("T-006", check.SeverityError, check.Unknownf("who knows")),
		made("T-007", check.SeverityError, check.Passf(""), "T-006"),
	}
	r := readers{}.run(t.Context(), catalogue, check.Selection{}, nil)
	require.Equal(t, map[string]check.Outcome{
		"T-001": check.Failed, "T-002": check.Skipped, "T-003": check.Skipped, "T-004": check.Warning, "T-005": check.OK, "T-006": check.Unknown, "T-007": check.Skipped,
	}, outcomes(r))
	require.Equal(t, "needs T-001, which failed", r.Checks[1].Message)
	require.Equal(t, "needs T-002, which was skipped", r.Checks[2].Message)
	require.Equal(t, "needs T-006, which could not be judged", r.Checks[6].Message)
	require.Equal(t, check.Summary{OK: 1, Warning: 1, Failed: 1, Skipped: 3, Unknown: 1}, r.Summary)
}

func TestSelection(t *testing.T) {
	t.Parallel()
	pre := made("A-001", check.SeverityError, check.Passf(""))
	pre.Phase = check.PhasePreflight
	catalogue := []check.Check{pre, made("A-002", check.SeverityError, check.Problemf("no")), made("B-001", check.SeverityError, check.Passf(""), "A-002"), made("B-002", check.SeverityError, check.Passf(""))}
	tests := []struct {
		name string
		sel  check.Selection
		want map[string]check.Outcome
	}{
		{"all", check.Selection{}, map[string]check.Outcome{"A-001": check.OK, "A-002": check.Failed, "B-001": check.Skipped, "B-002": check.OK}},
		{"a phase", check.Selection{Phase: check.PhaseInstalled}, map[string]check.Outcome{"A-002": check.Failed, "B-001": check.Skipped, "B-002": check.OK}},
		{"a code in lower case", check.Selection{Only: []string{"b-002"}}, map[string]check.Outcome{"B-002": check.OK}},
		{"a group", check.Selection{Only: []string{"B"}}, map[string]check.Outcome{"A-002": check.Failed, "B-001": check.Skipped, "B-002": check.OK}},
		{"what a selected check needs is shown when it fails", check.Selection{Only: []string{"B-001"}}, map[string]check.Outcome{"A-002": check.Failed, "B-001": check.Skipped}},
		{"what is left out on purpose counts as passed", check.Selection{Skip: []string{"A"}}, map[string]check.Outcome{"B-001": check.OK, "B-002": check.OK}},
		{"only and skip", check.Selection{Only: []string{"B"}, Skip: []string{"B-002"}}, map[string]check.Outcome{"A-002": check.Failed, "B-001": check.Skipped}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, outcomes(readers{}.run(t.Context(), catalogue, tt.sel, nil)))
		})
	}
	require.ErrorContains(t, check.Selection{Only: []string{"NOPE-001"}}.Validate(), "NOPE-001")
	require.ErrorContains(t, check.Selection{Skip: []string{"NOD"}}.Validate(), "NOD")
	require.NoError(t, check.Selection{Only: []string{"NODE", "cs-001"}}.Validate())
}

func TestTimeoutOfOneCheck(t *testing.T) {
	t.Parallel()
	sources := readers{"slow": func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	catalogue := []check.Check{reads("T-001", check.Passf("too late"), "slow"), made("T-003", check.SeverityError, check.Passf(""))}
	r := sources.run(t.Context(), catalogue, check.Selection{Timeout: time.Millisecond}, nil)
	require.Equal(t, map[string]check.Outcome{"T-001": check.Unknown, "T-003": check.OK}, outcomes(r))
	require.Equal(t, "slow could not be read: no result within 1ms", r.Checks[0].Message)
}

func TestEndOfTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stuck := reads("T-001", check.Passf(""), "slow")
	sources := readers{"slow": func(ctx context.Context) error {
		cancel() // ^C
		<-ctx.Done()
		return ctx.Err()
	}}
	r := sources.run(ctx, []check.Check{stuck, made("T-002", check.SeverityError, check.Passf(""), "T-001")}, check.Selection{}, nil)
	require.Equal(t, check.Unknown, r.Checks[0].Outcome)
	require.Contains(t, r.Checks[0].Message, "interrupted")
	require.Equal(t, 2, r.Unfinished, "also what needs it: %s", r.Checks[1].Message)
	for _, short := range []bool{true, false} {
		var out bytes.Buffer
		require.NoError(t, r.WriteText(&out, check.TextOptions{Short: short}))
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
	r = sources.run(ctx, []check.Check{made("T-001", check.SeverityError, check.Finding{Message: "is broken"}), reads("T-002", check.Finding{}, "slow")}, check.Selection{}, func(r check.Result) {
		if r.Code == "T-001" {
			close(said)
		}
	})
	require.Equal(t, map[string]check.Outcome{"T-001": check.Failed, "T-002": check.Unknown}, outcomes(r))
	require.Equal(t, 1, r.Unfinished)

	ctx, cancel = context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	r = sources.run(ctx, []check.Check{stuck}, check.Selection{}, nil)
	require.Contains(t, r.Checks[0].Message, "the time for the whole run is over")
}

func TestPanicIsAFinding(t *testing.T) {
	t.Parallel()
	c := made("T-001", check.SeverityError, check.Finding{})
	c.Judge = func(*check.Facts) check.Finding { panic("oops") }
	sources := readers{"it": func(context.Context) error { panic("oops") }}
	r := sources.run(t.Context(), []check.Check{c, reads("T-002", check.Passf(""), "it"), made("T-003", check.SeverityError, check.Passf(""))}, check.Selection{}, nil)
	require.Equal(t, map[string]check.Outcome{"T-001": check.Unknown, "T-002": check.Unknown, "T-003": check.OK}, outcomes(r))
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
	r := sources.run(t.Context(), []check.Check{reads("T-001", check.Passf(""), "it"), reads("T-002", check.Passf(""), "it")}, check.Selection{}, nil)
	require.Equal(t, 2, r.Summary.OK)
	require.EqualValues(t, 1, times.Load())
}

func TestWithoutCloudStack(t *testing.T) {
	t.Parallel()
	verify := func(e *Env, outcome check.Outcome, message string) {
		t.Helper()
		e.Namespace = "kube-system"
		r := Run(t.Context(), e, check.Selection{Only: []string{"CS-001"}}, nil).Checks[0]
		require.Equal(t, outcome, r.Outcome, "%+v", r)
		require.Contains(t, r.Message, message)
		require.Empty(t, r.Objects)
	}
	verify(&Env{}, check.Skipped, "Secret kube-system/cloudstack-secret")
	verify(&Env{Setup: check.Setup{NoCloud: "because"}}, check.Skipped, "because")
	verify(&Env{Setup: check.Setup{NoCloudErr: errors.New("the cloud-config is broken")}}, check.Failed, "broken")
}
