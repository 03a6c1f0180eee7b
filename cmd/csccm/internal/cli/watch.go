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

// WatchFlags are the flags of commands that can repeat and show their result each time.
type WatchFlags struct {
	On       bool
	interval time.Duration
	wait     bool          // until nothing fails
	limit    time.Duration // limit of the wait; 0 means none
}

// MinInterval is the shortest time between two rounds.
const MinInterval = time.Second

// Add declares --watch, --wait and --interval.
func (f *WatchFlags) Add(cmd *cobra.Command) {
	f.AddWatch(cmd)
	cmd.Flags().Lookup("interval").Usage = "time between two rounds of --watch and --wait"
	cmd.Flags().BoolVar(&f.wait, "wait", false,
		"repeat until nothing fails, for at most --timeout, and show the last round")
}

// AddWatch declares --watch alone.
func (f *WatchFlags) AddWatch(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.On, "watch", "w", false, "repeat until ^C")
	cmd.Flags().DurationVar(&f.interval, "interval", 10*time.Second, "time between two rounds of --watch")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		t := cmd.Flags().Lookup("timeout")
		switch {
		case t == nil:
		case f.wait: // a wait applies --timeout itself, to show its last round
			f.limit, _ = cmd.Flags().GetDuration("timeout")
			_ = t.Value.Set("0s")
		case f.On && !t.Changed: // a watch ends by ^C
			_ = t.Value.Set("0s")
		}
	}
}

// Validate validates the flags.
func (f *WatchFlags) Validate() error {
	if f.interval < MinInterval {
		return Usagef("--interval %s is too short; at least %s", f.interval, MinInterval)
	}
	if f.wait && f.On {
		return Usagef("--watch and --wait exclude each other: one ends by ^C, the other when all is well")
	}
	return nil
}

// Round makes one round and writes its report. open names what fails; it is shown while csccm waits.
type Round = func(ctx context.Context, out io.Writer) (open string, err error)

// Repeat runs one round, or several, as the flags say.
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

// forever runs rounds until ctx ends, and returns the cause of that. A terminal shows only the newest round. Other
// outputs get the rounds one after the other, YAML documents separated by "---". Failures that a report already shows
// do not stop it; other errors do.
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
			head = terminal.Own("\x1b[H\x1b[2J") + now + "\n\n" // cursor to the top, clear the screen
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

// untilWell runs rounds until one has no error, or a usage error, and writes only that round. After the limit it writes
// the last complete round, and returns an error. While the API server does not answer, it also waits.
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

// Watched converts the error of a watch that has ended. ^C is the normal way to end a watch, so it is not printed as an
// error; only the exit code remains.
func Watched(err error) error {
	if errors.Is(err, ErrInterrupted) {
		return &report.Error{Code: report.ExitInterrupted}
	}
	return err
}
