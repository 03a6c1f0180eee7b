// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"
	"time"

	"github.com/csccm/csccm/installer/check"
)

const (
	// leaderTimeout covers the lease of a controller that ended without releasing it: 15 s by default, 60 s of
	// a csccm that was killed during a takeover, and the time until a Pod tries again.
	leaderTimeout = 90 * time.Second
	leaderPoll    = 2 * time.Second

	leaderCheck = "CCM-002"
)

// awaitLeader waits until a Pod of the controller leads. A ready Pod need not lead yet: the lease of a controller
// that is gone must expire first. Without a leader in time the checks after the install say what is wrong.
func (in *Installer) awaitLeader(ctx context.Context) error {
	began := in.Clock.Now()
	for waiting := false; ; waiting = true {
		r := in.Checks(ctx, in.installed(), check.Selection{
			Phase: check.PhaseInstalled, Only: []string{leaderCheck}, Skip: in.Options.SkipChecks,
		}, nil)
		failed := slices.ContainsFunc(r.Checks, func(c check.Result) bool { return c.Code == leaderCheck && c.Outcome == check.Failed })
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !failed:
			if waiting {
				in.Progress.Done("after %s", in.Clock.Since(began).Round(time.Second))
			}
			return nil
		case in.Clock.Since(began) >= leaderTimeout:
			in.Progress.Fail("none within %s", leaderTimeout)
			return nil
		case !waiting:
			in.Progress.Step("Waiting for a leader")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-in.Clock.After(leaderPoll):
		}
	}
}
