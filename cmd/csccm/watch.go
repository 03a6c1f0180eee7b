// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/watch"
)

// watchFlags are those of commands that can show their result again and again.
type watchFlags struct {
	on       bool
	interval time.Duration
	wait     time.Duration // until all is well; 0 = not at all
}

const (
	minInterval = time.Second
	defaultWait = 5 * time.Minute // of --wait without a value
)

func (f *watchFlags) add(cmd *cobra.Command) {
	f.addWatch(cmd)
	cmd.Flags().Lookup("interval").Usage = "time between two rounds of --watch and --wait"
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "look again until nothing fails, and show the last round; without a value up to "+defaultWait.String()+", then exit code 124")
	cmd.Flags().Lookup("wait").NoOptDefVal = defaultWait.String()
}

// addWatch adds --watch alone.
func (f *watchFlags) addWatch(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.on, "watch", "w", false, "show it again and again, until ^C")
	cmd.Flags().DurationVar(&f.interval, "interval", 10*time.Second, "time between two rounds of --watch")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		// A watch ends by ^C, a wait by its own time; --timeout bounds them only where it is asked to.
		if t := cmd.Flags().Lookup("timeout"); (f.on || f.wait > 0) && t != nil && !t.Changed {
			_ = t.Value.Set("0s")
		}
	}
}

func (f *watchFlags) validate() error {
	if f.interval < minInterval {
		return usagef("--interval %s is too short; at least %s", f.interval, minInterval)
	}
	switch {
	case f.wait < 0:
		return usagef("--wait %s is negative", f.wait)
	case f.wait > 0 && f.on:
		return usagef("--watch and --wait exclude each other: one ends by ^C, the other when all is well")
	}
	return nil
}

// repeat shows rounds as the flags say: one, one after the other, or until nothing fails.
func (f *watchFlags) repeat(ctx context.Context, g *globals, look watch.Round) error {
	w := watch.Watch{Clock: g.clock, Out: g.out, ErrOut: g.errOut, Style: g.style(g.out), Format: g.format, Interval: f.interval}
	switch {
	case f.wait > 0:
		return w.Until(ctx, f.wait, errTimeout, func(err error) bool { return exitCode(err) == report.ExitUsage }, look)
	case f.on:
		return watched(w.Forever(ctx, look))
	}
	_, err := look(ctx, g.out)
	return err
}

// watched is how a watch ends. ^C is the way to end one, and so no error to speak of: there is only the exit code.
func watched(err error) error {
	if errors.Is(err, errInterrupted) {
		return &report.ExitError{Code: report.ExitInterrupted}
	}
	return err
}
