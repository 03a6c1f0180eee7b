// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows csccm on this machine: a simulated CloudStack, a real Kubernetes
// control plane, three nodes, `csccm install` and its results. Everything runs as child
// processes on loopback and in one temporary folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/csccm/csccm/installer/engine/report"
)

const (
	exitFailure     = 1
	exitInterrupted = 130
)

func main() { os.Exit(run()) }

func run() int {
	d := &demo{started: time.Now(), out: os.Stdout}
	stay := "auto"
	flag.StringVar(&d.binDir, "bin-dir", os.Getenv("CSCCM_BIN_DIR"), "folder with cloudstack-ccm, csccm and cloudstack-sim; empty: build them")
	flag.StringVar(&d.ldflags, "ldflags", os.Getenv("CSCCM_LDFLAGS"), "linker flags for the programs that the demo builds")
	flag.StringVar(&stay, "stay", stay, "keep everything running after the last step until ^C: auto (on a terminal), yes or no")
	flag.Parse()
	terminal := term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stdin.Fd())) // #nosec G115 -- a descriptor fits
	switch stay {
	case "auto":
		d.stay = terminal
	case "yes", "no":
		d.stay = stay == "yes"
	default:
		_, _ = fmt.Fprintf(os.Stderr, "demo: --stay must be auto, yes or no, not %q\n", stay)
		return 2
	}
	d.style = report.Detect(os.Stdout, report.ColorAuto, os.Getenv)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := d.run(ctx)
	if err != nil && ctx.Err() == nil {
		d.explain(err)
	}
	interrupted := ctx.Err() != nil
	// From here, a second ^C ends the program at once; on Linux the kernel then kills the child processes.
	stop()
	d.cleanUp()
	switch {
	case err == nil:
		return 0
	case interrupted:
		_, _ = fmt.Fprintln(os.Stderr, "demo: interrupted; everything is stopped and removed")
		return exitInterrupted
	default:
		var f *failure
		if errors.As(err, &f) {
			_, _ = fmt.Fprintf(os.Stderr, "demo: step %d, %s, failed: %v\n", f.number, f.step, f.err)
		} else {
			_, _ = fmt.Fprintln(os.Stderr, "demo:", err)
		}
		return exitFailure
	}
}
