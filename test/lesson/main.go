// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lesson shows what a cloud controller manager does: two Kubernetes clusters in one simulated CloudStack, one
// without and one with the controller, in six chapters. Each line that it prints as seen is a check.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/test/internal/console"
)

func main() { os.Exit(run()) }

func run() int {
	l := &lesson{started: time.Now()}
	l.Out = os.Stdout
	auto := false
	flag.StringVar(&l.binDir, "bin-dir", os.Getenv("CSCCM_BIN_DIR"), "folder with cloudstack-ccm, csccm and cloudstack-sim; empty: build them")
	flag.StringVar(&l.ldflags, "ldflags", os.Getenv("CSCCM_LDFLAGS"), "linker flags for the programs that the lesson builds")
	flag.BoolVar(&auto, "auto", false, "do not wait for Enter after each chapter (without a terminal it never waits)")
	flag.BoolVar(&l.ui, "ui", false, "show both clusters and their cloud on one page in the browser, too")
	flag.StringVar(&l.transcript, "transcript", "", "write what is printed to this file, too")
	flag.Parse()
	if flag.NArg() > 0 {
		_, _ = fmt.Fprintf(os.Stderr, "lesson: unexpected argument %q\n", flag.Arg(0))
		return console.ExitUsage
	}
	l.Style = report.Detect(os.Stdout, report.ColorAuto, os.Getenv)
	if l.transcript != "" { // the same on every terminal
		l.Style = report.Style{Unicode: true, Width: defaultWidth}
		l.Out = io.MultiWriter(os.Stdout, &l.printed)
	}
	if !auto && console.Terminal() {
		l.enter = console.Lines(context.Background(), os.Stdin)
	}
	return console.Main("lesson", l)
}
