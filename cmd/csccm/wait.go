// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/csccm/csccm/installer/engine/report"
)

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
