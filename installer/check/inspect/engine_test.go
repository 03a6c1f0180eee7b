// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// made returns a check with the finding f.
func made(code string, severity check.Severity, f check.Finding, needs ...string) check.Check {
	return check.Check{
		Code: code, Title: "title of " + code, Severity: severity, Needs: needs, Remedy: "the usual",
		Judge: func(*check.Facts) check.Finding { return f },
	}
}

// reads returns a check that reads something and has the finding f.
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

func (readers readers) run(
	ctx context.Context, catalogue []check.Check, sel check.Selection, progress func(check.Result),
) check.Report {
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
	var running atomic.Int32
	full := make(chan struct{})
	var open sync.Once
	var catalogue []check.Check
	sources := readers{}
	for i := range n {
		s := check.Source(fmt.Sprint(i))
		sources[s] = func(context.Context) error {
			switch now := running.Add(1); {
			case now > cluster.AtOnce:
				t.Errorf("%d are read at a time", now)
			case now == cluster.AtOnce: // all reads that may run at once have begun: let them end
				open.Do(func() { close(full) })
			}
			<-full
			running.Add(-1)
			return nil
		}
		catalogue = append(catalogue, reads(fmt.Sprintf("T-%03d", i), check.Passf("fine"), s))
	}

	var seen []string
	r := sources.run(t.Context(), catalogue, check.Selection{}, func(r check.Result) { seen = append(seen, r.Code) })
	require.Equal(t, check.Summary{OK: n}, r.Summary)
	require.Len(t, seen, n)
	require.True(t, slices.IsSorted(seen))
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
		"T-001": check.Failed,
		"T-002": check.Skipped,
		"T-003": check.Skipped,
		"T-004": check.Warning,
		"T-005": check.OK,
		"T-006": check.Unknown,
		"T-007": check.Skipped,
	}, outcomes(r))

	require.Equal(t, "needs T-001 (failed)", r.Checks[1].Message)
	require.Equal(t, "needs T-002 (skipped)", r.Checks[2].Message)
	require.Equal(t, "needs T-006 (unknown)", r.Checks[6].Message)
}

func TestSelection(t *testing.T) {
	t.Parallel()
	pre := made("A-001", check.SeverityError, check.Passf(""))
	pre.Phase = check.PhasePreflight
	catalogue := []check.Check{
		pre, made("A-002", check.SeverityError, check.Problemf("no")),
		made("B-001", check.SeverityError, check.Passf(""), "A-002"),
		made("B-002", check.SeverityError, check.Passf("")),
	}

	for name, tt := range map[string]struct {
		sel  check.Selection
		want string
	}{
		"all": {check.Selection{}, "map[A-001:ok A-002:failed B-001:skipped B-002:ok]"},
		"a phase": {check.Selection{Phase: check.PhaseInstalled},
			"map[A-002:failed B-001:skipped B-002:ok]"},
		"a code in lower case": {check.Selection{Only: []string{"b-002"}}, "map[B-002:ok]"},
		"a group":              {check.Selection{Only: []string{"B"}}, "map[A-002:failed B-001:skipped B-002:ok]"},
		"what a selected check needs is shown when it fails": {
			check.Selection{Only: []string{"B-001"}}, "map[A-002:failed B-001:skipped]",
		},
		"what is left out on purpose counts as passed": {check.Selection{Skip: []string{"A"}},
			"map[B-001:ok B-002:ok]"},
		"only and skip": {check.Selection{Only: []string{"B"}, Skip: []string{"B-002"}},
			"map[A-002:failed B-001:skipped]"},
	} {
		require.Equal(t, tt.want, fmt.Sprint(outcomes(readers{}.run(t.Context(), catalogue, tt.sel, nil))), name)
	}

	require.ErrorContains(t, check.Selection{Only: []string{"NOPE-001"}}.Validate(), "NOPE-001")
	require.ErrorContains(t, check.Selection{Skip: []string{"NOD"}}.Validate(), "NOD")
	require.NoError(t, check.Selection{Only: []string{"NODE", "cs-001"}}.Validate())
}

// A source that cannot be read, or a check that panics, affects only that check.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	sources := readers{
		"slow": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, "odd": func(context.Context) error { panic("oops") },
	}

	broken := made("T-002", check.SeverityError, check.Finding{})
	broken.Judge = func(*check.Facts) check.Finding { panic("oops") }
	catalogue := []check.Check{
		reads("T-001", check.Passf("too late"), "slow"), broken, reads("T-003", check.Passf(""), "odd"),
		made("T-004", check.SeverityError, check.Passf("fine")),
	}

	r := sources.run(t.Context(), catalogue, check.Selection{Timeout: time.Millisecond}, nil)
	require.Equal(t, check.Summary{OK: 1, Unknown: 3}, r.Summary)
	for i, says := range []string{
		"slow could not be read: no result within 1ms", "oops", "odd could not be read: csccm failed (oops)", "fine",
	} {
		require.Contains(t, r.Checks[i].Message, says)
	}
}

// Results from before the end of the run are kept. Sources that could not be read in time cause no findings.
func TestEndOfTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan struct{})
	sources := readers{"slow": func(ctx context.Context) error {
		<-said
		cancel() // ^C
		<-ctx.Done()
		return nil
	}}
	stuck := reads("T-002", check.Finding{}, "slow")
	catalogue := []check.Check{
		made("T-001", check.SeverityError, check.Finding{Message: "is broken"}), stuck,
		made("T-003", check.SeverityError, check.Passf(""), "T-002"),
	}
	r := sources.run(ctx, catalogue, check.Selection{}, func(r check.Result) {
		if r.Code == "T-001" {
			close(said)
		}
	})
	require.Equal(t, map[string]check.Outcome{"T-001": check.Failed, "T-002": check.Unknown, "T-003": check.Unknown},
		outcomes(r))
	require.Contains(t, r.Checks[1].Message, "interrupted")
	require.Equal(t, 2, r.Unfinished, "also what needs it: %s", r.Checks[2].Message)
	for _, short := range []bool{true, false} {
		var out bytes.Buffer
		require.NoError(t, r.WriteText(&out, check.TextOptions{Short: short}))
		require.NotContains(t, out.String(), "T-002", "no finding")
		require.Contains(t, out.String(), "0 unknown, 2 not finished\n")
	}

	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	r = sources.run(ctx, []check.Check{stuck}, check.Selection{}, nil)
	require.Contains(t, r.Checks[0].Message, "the time for the whole run is over")
}
