// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/watch"
)

// WatchFlags are those of commands that can show their result again and again.
type WatchFlags struct {
	On       bool
	interval time.Duration
	wait     bool          // until all is well
	limit    time.Duration // of the wait; 0 = none
}

// MinInterval is the shortest time between two rounds.
const MinInterval = time.Second

// Add declares --watch, --wait and --interval.
func (f *WatchFlags) Add(cmd *cobra.Command) {
	f.AddWatch(cmd)
	cmd.Flags().Lookup("interval").Usage = "time between two rounds of --watch and --wait"
	cmd.Flags().BoolVar(&f.wait, "wait", false, "look again until nothing fails, for at most --timeout, and show the last round")
}

// AddWatch declares --watch alone.
func (f *WatchFlags) AddWatch(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.On, "watch", "w", false, "show it again and again, until ^C")
	cmd.Flags().DurationVar(&f.interval, "interval", 10*time.Second, "time between two rounds of --watch")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		t := cmd.Flags().Lookup("timeout")
		switch {
		case t == nil:
		case f.wait: // a wait ends by itself at --timeout, so that its last round is shown
			f.limit, _ = cmd.Flags().GetDuration("timeout")
			_ = t.Value.Set("0s")
		case f.On && !t.Changed: // a watch ends by ^C
			_ = t.Value.Set("0s")
		}
	}
}

// Validate judges the flags.
func (f *WatchFlags) Validate() error {
	if f.interval < MinInterval {
		return Usagef("--interval %s is too short; at least %s", f.interval, MinInterval)
	}
	if f.wait && f.On {
		return Usagef("--watch and --wait exclude each other: one ends by ^C, the other when all is well")
	}
	return nil
}

// Repeat shows rounds as the flags say: one, one after the other, or until nothing fails.
func (f *WatchFlags) Repeat(ctx context.Context, g *Globals, look watch.Round) error {
	w := watch.Watch{Out: g.Out, ErrOut: g.ErrOut, Style: g.Style(g.Out), Format: g.Format, Interval: f.interval}
	switch {
	case f.wait:
		return w.Until(ctx, f.limit, ErrTimeout, func(err error) bool { return ExitCode(err) == report.ExitUsage }, look)
	case f.On:
		return Watched(w.Forever(ctx, look))
	}
	_, err := look(ctx, g.Out)
	return err
}

// Watched is how a watch ends. ^C is the way to end one, and so no error to speak of: there is only the exit code.
func Watched(err error) error {
	if errors.Is(err, ErrInterrupted) {
		return &report.Error{Code: report.ExitInterrupted}
	}
	return err
}
