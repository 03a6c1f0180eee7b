// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"time"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
)

const (
	// leaderTimeout covers the lease of a controller that ended without releasing it: 15 s by default, 60 s of
	// a csccm that was killed during a takeover, and the time until a Pod tries again.
	leaderTimeout = 90 * time.Second
	leaderPoll    = 2 * time.Second
)

// AwaitLeader waits until a Pod of the controller leads: a ready Pod need not lead yet, the lease of a controller that is
// gone must expire first. After a limit it returns the check that still fails. run is Run, or a test's.
func AwaitLeader(ctx context.Context, env *Env, run func(context.Context, *Env, Selection, func(Result)) Report, skip []string, p report.Progress) (open *Result, err error) {
	const code = "CCM-002"
	waiting := false
	began := env.Clock.Now()
	_, err = engine.Poll(ctx, env.Clock, leaderPoll, leaderTimeout, func() (bool, error) {
		r := run(ctx, env, Selection{Phase: PhaseInstalled, Only: []string{code}, Skip: skip}, nil)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		open = nil
		if i := slices.IndexFunc(r.Checks, func(c Result) bool { return c.Code == code && c.Outcome == Failed }); i >= 0 {
			open = &r.Checks[i]
		}
		if open != nil && !waiting {
			waiting = true
			p.Step("Waiting for a leader")
		}
		return open == nil, nil
	})
	switch {
	case err != nil || !waiting:
	case open != nil:
		p.Fail("not within %s", leaderTimeout)
	default:
		p.Done("after %s", env.Clock.Since(began).Round(time.Second))
	}
	return open, err
}
