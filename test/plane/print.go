// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// printPeriod is how often a log, which cannot redraw a line, gets a new one.
const printPeriod = 15 * time.Second

// Print reports progress to a person: what is being done and how long that takes,
// then one line that changes on a terminal, a line every 15 seconds elsewhere.
func Print(w io.Writer) func(Progress) {
	f, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd())) // #nosec G115 -- a descriptor fits
	said, first := -printPeriod, true
	return func(p Progress) {
		if first {
			first = false
			_, _ = fmt.Fprintf(w, "Building the control plane (etcd and Kubernetes %s) from source. This takes 5 to 12 minutes, once; the result is cached.\n", p.Release)
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
