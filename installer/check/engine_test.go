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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check/decide"
)

// made is a check that finds f.
func made(code string, severity Severity, f Finding, needs ...string) Check {
	return Check{
		Code: code, Category: "Test", Title: "title of " + code, Severity: severity, Phases: both(), Needs: needs, Remedy: "the usual",
		Run: func(context.Context, *Env) Finding { return f },
	}
}

func runAll(ctx context.Context, catalogue []Check, sel Selection, progress func(Result)) Report {
	r, _ := run(ctx, &Env{}, catalogue, sel, progress)
	return r
}

func outcomes(r Report) map[string]Outcome {
	m := map[string]Outcome{}
	for _, c := range r.Checks {
		m[c.Code] = c.Outcome
	}
	return m
}

func TestRunKeepsTheOrderAndRunsInParallel(t *testing.T) {
	t.Parallel()
	const n = 20
	var running, peak atomic.Int32
	gate := make(chan struct{})
	var open sync.Once
	var catalogue []Check
	for i := range n {
		c := made(fmt.Sprintf("T-%03d", i), SeverityError, Finding{})
		c.Run = func(context.Context, *Env) Finding {
			now := running.Add(1)
			defer running.Add(-1)
			for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
			}
			if now == workers {
				open.Do(func() { close(gate) }) // all at once: go on
			}
			<-gate
			return decide.Passf("fine")
		}
		catalogue = append(catalogue, c)
	}
	var seen []string
	r := runAll(t.Context(), catalogue, Selection{}, func(r Result) { seen = append(seen, r.Code) })
	require.EqualValues(t, workers, peak.Load(), "as many as workers, no more")
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
		made("T-001", SeverityFatal, decide.Problemf("down")),
		made("T-002", SeverityError, decide.Passf("not reached"), "T-001"),
		made("T-003", SeverityError, decide.Passf("not reached either"), "T-002"),
		made("T-004", SeverityWarning, decide.Problemf("meh")),
		made("T-005", SeverityError, decide.Passf("a warning is no reason to skip"), "T-004"),
		made("T-006", SeverityError, decide.Unknownf("who knows")),
		made("T-007", SeverityError, decide.Passf(""), "T-006"),
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
	pre := made("A-001", SeverityError, decide.Passf(""))
	pre.Phases = []Phase{PhasePreflight}
	catalogue := []Check{pre, made("A-002", SeverityError, decide.Problemf("no")), made("B-001", SeverityError, decide.Passf(""), "A-002"), made("B-002", SeverityError, decide.Passf(""))}
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
			require.NoError(t, tt.sel.validate(catalogue))
			require.Equal(t, tt.want, outcomes(runAll(t.Context(), catalogue, tt.sel, nil)))
		})
	}
	require.ErrorContains(t, Selection{Only: []string{"NOPE-001"}}.Validate(), "NOPE-001")
	require.ErrorContains(t, Selection{Skip: []string{"NOD"}}.Validate(), "NOD")
	require.NoError(t, Selection{Only: []string{"NODE", "cs-001"}}.Validate())
}

func TestTimeoutOfOneCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := made("T-001", SeverityError, Finding{})
		ended := make(chan struct{})
		stuck.Run = func(ctx context.Context, _ *Env) Finding {
			<-ctx.Done() // its context ends with it
			close(ended)
			return decide.Passf("too late")
		}
		deaf := made("T-002", SeverityError, Finding{})
		hold := make(chan struct{})
		defer close(hold)
		deaf.Run = func(context.Context, *Env) Finding { <-hold; return decide.Passf("") }
		r := runAll(t.Context(), []Check{stuck, deaf, made("T-003", SeverityError, decide.Passf(""))}, Selection{Timeout: 5 * time.Second}, nil)
		require.Equal(t, map[string]Outcome{"T-001": Unknown, "T-002": Unknown, "T-003": OK}, outcomes(r))
		require.Equal(t, "no result within 5s", r.Checks[0].Message)
		require.EqualValues(t, 5000, r.DurationMs)
		<-ended
	})
}

func TestEndOfTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stuck := made("T-001", SeverityError, Finding{})
	stuck.Run = func(ctx context.Context, _ *Env) Finding {
		cancel() // ^C
		<-ctx.Done()
		return decide.Unread(ctx.Err())
	}
	r := runAll(ctx, []Check{stuck, made("T-002", SeverityError, decide.Passf(""), "T-001")}, Selection{}, nil)
	require.Equal(t, Unknown, r.Checks[0].Outcome)
	require.Contains(t, r.Checks[0].Message, "interrupted")
	require.Equal(t, 2, r.Unfinished(), "also what needs it: %s", r.Checks[1].Message)
	for _, short := range []bool{true, false} {
		var out bytes.Buffer
		require.NoError(t, r.WriteText(&out, TextOptions{Short: short}))
		require.NotContains(t, out.String(), "T-00", "no finding")
		require.Contains(t, out.String(), "0 unknown, 2 not finished\n")
	}

	// What is found by then stays; what could not be read any more is no finding.
	ctx, cancel = context.WithCancel(t.Context())
	said := make(chan struct{})
	found, late := made("T-001", SeverityError, Finding{Message: "is broken"}), made("T-002", SeverityError, Finding{})
	late.Run = func(ctx context.Context, _ *Env) Finding {
		<-said
		cancel()
		return Finding{Outcome: Failed, Message: ctx.Err().Error()}
	}
	r = runAll(ctx, []Check{found, late}, Selection{}, func(r Result) {
		if r.Code == "T-001" {
			close(said)
		}
	})
	require.Equal(t, map[string]Outcome{"T-001": Failed, "T-002": Unknown}, outcomes(r))
	require.Equal(t, 1, r.Unfinished())

	ctx, cancel = context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	r = runAll(ctx, []Check{stuck}, Selection{}, nil)
	require.Contains(t, r.Checks[0].Message, "the time for the whole run is over")
}

func TestPanicIsAFinding(t *testing.T) {
	t.Parallel()
	c := made("T-001", SeverityError, Finding{})
	c.Run = func(context.Context, *Env) Finding { panic("oops") }
	r := runAll(t.Context(), []Check{c, made("T-002", SeverityError, decide.Passf(""))}, Selection{}, nil)
	require.Equal(t, Unknown, r.Checks[0].Outcome)
	require.Contains(t, r.Checks[0].Message, "oops")
	require.Equal(t, OK, r.Checks[1].Outcome)
}

func TestFactIsReadOnce(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	release := make(chan struct{})
	e := &Env{facts: &facts{run: t.Context()}}
	f := &fact[int]{"it", func(ctx context.Context, _ *Env) (int, error) {
		reads.Add(1)
		select {
		case <-release:
			return 42, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.get(impatient, e)
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	for range 10 {
		v, err := f.get(t.Context(), e)
		require.NoError(t, err, "one impatient check does not spoil it for the others")
		require.Equal(t, 42, v)
	}
	require.EqualValues(t, 1, reads.Load())

	broken := &fact[int]{"it", func(context.Context, *Env) (int, error) { panic("oops") }}
	_, err = broken.get(t.Context(), e)
	require.ErrorContains(t, err, "oops")
}

func TestWithoutCloudStack(t *testing.T) {
	t.Parallel()
	e := &Env{Namespace: "kube-system", SecretName: DefaultSecretName}
	verify := func(outcome Outcome, message string) {
		t.Helper()
		f := e.withoutCloudStack()
		require.Equal(t, outcome, f.Outcome, "%+v", f)
		require.Contains(t, f.Message, message)
		require.Empty(t, f.Objects)
	}
	verify(Skipped, "Secret kube-system/cloudstack-secret")
	e.NoCloudStack = "because"
	verify(Skipped, "because")
	e.CloudStackErr = errors.New("the cloud-config is broken")
	verify("", "broken")
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"NODE001": "NODE-001", "node-01": "NODE-001", "nodes": "NODE", "HLEM-001": "HELM-001", "LB-1": "LB"} {
		require.Contains(t, nearest(typed, All()), want, typed)
	}
}
