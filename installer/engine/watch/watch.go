// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watch shows a report again and again: until it is interrupted, or until the report is good.
package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Round looks once and writes a report. open says what is not well, for a line while csccm waits.
type Round func(ctx context.Context, out io.Writer) (open string, err error)

// Watch is where and how often reports are written.
type Watch struct {
	Out, ErrOut io.Writer
	Style       report.Style // of Out
	Format      string       // of the report: text, short, json, yaml
	Interval    time.Duration
}

// clearScreen moves to the top and removes what is below.
var clearScreen = terminal.Own("\x1b[H\x1b[2J")

// Forever looks again and again until ctx ends, whose cause it returns. A terminal shows the newest
// round alone; elsewhere rounds follow each other, YAML documents apart by "---". What a report says by
// its exit code is no reason to stop; another error is.
func (w Watch) Forever(ctx context.Context, look Round) error {
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
		if w.Format == "yaml" {
			head = "---\n"
		} else if w.Format != "json" && w.Style.TTY {
			head = clearScreen + w.Style.Paint(report.Faint, fmt.Sprintf("every %s, now %s", w.Interval, time.Now().Format(time.TimeOnly))) + "\n\n"
		}
		if _, err := io.WriteString(w.Out, head+round.String()); err != nil {
			return err
		}
		Pause(ctx, w.Interval, nil)
	}
}

// Pause waits for a time, or for a signal; false if ctx has ended.
func Pause(ctx context.Context, d time.Duration, or <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
	case <-or:
	}
	return true
}

// Until looks until a round has no error, or one that final reports, and writes that round alone. After the limit
// (0 is none) it writes the last round that ended, and returns an error that wraps over. It also waits for an API server that
// does not answer.
func (w Watch) Until(ctx context.Context, limit time.Duration, over error, final func(error) bool, look Round) error {
	limited := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, limit, over)
		defer cancel()
	}
	var last bytes.Buffer
	for said := ""; ; {
		var now bytes.Buffer
		open, err := look(limited, &now)
		ended := limited.Err() != nil
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !ended || last.Len() == 0 {
			last = now
		}
		if ended || err == nil || final(err) {
			if _, werr := w.Out.Write(last.Bytes()); werr != nil {
				return werr
			}
			if ended {
				err = report.Remedied(fmt.Errorf("%w after %s (--timeout): %s", over, limit, said), "correct what the report says, or raise --timeout")
			}
			return err
		}
		if open = cmp.Or(open, err.Error()); said != open {
			said = open
			if _, err := fmt.Fprintf(w.ErrOut, "waiting: %s\n", open); err != nil {
				return err
			}
		}
		Pause(limited, w.Interval, nil)
	}
}
