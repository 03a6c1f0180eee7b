// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/engine/report"
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
func (f *watchFlags) repeat(ctx context.Context, g *globals, look round) error {
	draw := func(ctx context.Context, out io.Writer) error {
		_, err := look(ctx, out)
		return err
	}
	switch {
	case f.wait > 0:
		return g.wait(ctx, *f, look)
	case f.on:
		return g.watch(ctx, f.interval, g.format, draw)
	}
	return draw(ctx, g.out)
}

// clearScreen moves to the top and removes what is below.
const clearScreen = "\x1b[H\x1b[2J"

// watch draws round after round until ctx ends, whose cause it returns. A terminal shows the newest
// round alone; elsewhere rounds follow each other, YAML documents apart by "---". What a report says by
// its exit code is no reason to stop; another error is.
func (g *globals) watch(ctx context.Context, interval time.Duration, format string, draw func(context.Context, io.Writer) error) error {
	style := g.style(g.out)
	for first := true; ; first = false {
		var round bytes.Buffer
		err := draw(ctx, &round)
		if ctx.Err() != nil {
			return watched(ctx)
		}
		var said *report.ExitError
		if err != nil && (!errors.As(err, &said) || !said.Silent()) {
			return err
		}
		head := ""
		switch text := format == "text" || format == "short"; {
		case text && style.TTY:
			head = clearScreen + style.Paint(report.Faint, fmt.Sprintf("every %s, now %s", interval, g.clock.Now().Format(time.TimeOnly))) + "\n\n"
		case text && !first:
			head = "\n"
		case format == "yaml":
			head = "---\n"
		}
		if _, err := io.WriteString(g.out, head+round.String()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return watched(ctx)
		case <-g.clock.After(interval):
		}
	}
}

// watched is how a watch ends. ^C is the way to end one, and so no error to speak of: there is only the exit code.
func watched(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errInterrupted) {
		return &report.ExitError{Code: report.ExitInterrupted}
	}
	return cause
}

// round is one look at the cluster. open says what is not well, for a line while csccm waits.
type round func(ctx context.Context, out io.Writer) (open string, err error)

// wait looks until a round has no error, and writes that round alone. When the time is over it writes the last round
// that ended. An API server that does not answer is waited for; wrong usage is not.
func (g *globals) wait(ctx context.Context, f watchFlags, look round) error {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := g.clock.NewTimer(f.wait)
	defer over.Stop()
	go func() {
		select {
		case <-over.C():
			cancel(errTimeout)
		case <-limited.Done():
		}
	}()
	var last bytes.Buffer
	said := ""
	for {
		var now bytes.Buffer
		open, err := look(limited, &now)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if limited.Err() == nil || last.Len() == 0 {
			last = now
		}
		if limited.Err() == nil {
			if err == nil || exitCode(err) == report.ExitUsage {
				_, werr := g.out.Write(last.Bytes())
				if err == nil {
					err = werr
				}
				return err
			}
			if open == "" {
				open = err.Error()
			}
			if said != open {
				said = open
				if _, err := fmt.Fprintf(g.errOut, "waiting: %s\n", open); err != nil {
					return err
				}
			}
			select {
			case <-g.clock.After(f.interval):
				continue
			case <-limited.Done():
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := g.out.Write(last.Bytes()); err != nil {
			return err
		}
		return report.Remedied(fmt.Errorf("%w after %s (--wait): %s", errTimeout, f.wait, said), "correct what the report says, or give --wait more time")
	}
}
