// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
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
	cmd.Flags().BoolVar(&f.wait, "wait", false,
		"look again until nothing fails, for at most --timeout, and show the last round")
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

// Round looks once and writes a report. open says what is not well, for a line while csccm waits.
type Round = func(ctx context.Context, out io.Writer) (open string, err error)

// Repeat shows rounds as the flags say.
func (f *WatchFlags) Repeat(ctx context.Context, g *Globals, look Round) error {
	switch {
	case f.wait:
		return f.untilWell(ctx, g, look)
	case f.On:
		return Watched(f.forever(ctx, g, look))
	}
	_, err := look(ctx, g.Out)
	return err
}

// forever looks again and again until ctx ends, whose cause it returns. A terminal shows the newest round alone;
// elsewhere rounds follow each other, YAML documents apart by "---". What a report says by its exit code is no reason
// to stop; another error is.
func (f *WatchFlags) forever(ctx context.Context, g *Globals, look Round) error {
	style := g.Style(g.Out)
	for {
		var round bytes.Buffer
		_, err := look(ctx, &round)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		var said *report.Error
		if err != nil && (!errors.As(err, &said) || !said.Silent()) {
			return err
		}

		head := ""
		if g.Format == "yaml" {
			head = "---\n"
		} else if g.Format != "json" && style.TTY {
			now := style.Paint(report.Faint,
				fmt.Sprintf("every %s, now %s", f.interval, time.Now().Format(time.TimeOnly)))
			head = terminal.Own("\x1b[H\x1b[2J") + now + "\n\n" // to the top, and what is below is removed
		}

		if _, err := io.WriteString(g.Out, head+round.String()); err != nil {
			return err
		}

		f.pause(ctx)
	}
}

func (f *WatchFlags) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(f.interval):
	}
}

// untilWell looks until a round has no error, or one of usage, and writes that round alone. After the limit it writes
// the last round that ended, and returns an error. It also waits for an API server that does not answer.
func (f *WatchFlags) untilWell(ctx context.Context, g *Globals, look Round) error {
	limited := ctx
	if f.limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, f.limit, ErrTimeout)
		defer cancel()
	}

	var last bytes.Buffer
	for said := ""; ; f.pause(limited) {
		var now bytes.Buffer
		open, err := look(limited, &now)
		ended := limited.Err() != nil
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if !ended || last.Len() == 0 {
			last = now
		}

		if ended || err == nil || ExitCode(err) == report.ExitUsage {
			if _, werr := g.Out.Write(last.Bytes()); werr != nil {
				return werr
			}
			if ended {
				err = report.Errorf(
					"correct what the report says, or raise --timeout",
					"%w after %s (--timeout): %s", ErrTimeout, f.limit, said,
				)
			}
			return err
		}

		if open = cmp.Or(open, err.Error()); said != open {
			said = open
			if _, err := fmt.Fprintf(g.ErrOut, "waiting: %s\n", open); err != nil {
				return err
			}
		}
	}
}

// Watched is how a watch ends. ^C is the way to end one, and so no error to speak of: there is only the exit code.
func Watched(err error) error {
	if errors.Is(err, ErrInterrupted) {
		return &report.Error{Code: report.ExitInterrupted}
	}
	return err
}
