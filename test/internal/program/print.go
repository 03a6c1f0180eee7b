// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// printPeriod is the time between lines where the output is not a terminal, which cannot redraw a line.
const printPeriod = 15 * time.Second

// Print returns a function that writes progress to w: first what is built and how
// long that takes, then, on a terminal, one line that is redrawn, elsewhere a line
// every printPeriod.
func Print(w io.Writer) func(Progress) {
	f, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd())) // #nosec G115 -- a descriptor fits
	said, first := -printPeriod, true
	return func(p Progress) {
		if first {
			first = false
			_, _ = fmt.Fprintf(w, "Building %s from source. This takes %s, once; the result is cached.\n", p.Program.What, p.Program.Takes)
		}
		switch {
		case terminal && p.Finished:
			_, _ = fmt.Fprintf(w, "\r\033[K  built in %s\n", p.Elapsed.Round(time.Second))
		case p.Finished:
			_, _ = fmt.Fprintf(w, "  built in %s\n", p.Elapsed.Round(time.Second))
		case terminal:
			_, _ = fmt.Fprintf(w, "\r\033[K  %s", p)
		case p.Elapsed-said >= printPeriod:
			said = p.Elapsed
			_, _ = fmt.Fprintf(w, "  %s\n", p)
		}
	}
}
