// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows csccm on this machine: a simulated CloudStack, a real Kubernetes
// control plane, three nodes, `csccm install` and its results. Everything runs as child
// processes on loopback and in one temporary folder.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/test/internal/console"
)

func main() { os.Exit(run()) }

func run() int {
	d := &demo{started: time.Now()}
	d.Out = os.Stdout
	stay := "auto"
	flag.StringVar(&d.binDir, "bin-dir", os.Getenv("CSCCM_BIN_DIR"), "folder with cloudstack-ccm, csccm and cloudstack-sim; empty: build them")
	flag.StringVar(&d.ldflags, "ldflags", os.Getenv("CSCCM_LDFLAGS"), "linker flags for the programs that the demo builds")
	flag.StringVar(&stay, "stay", stay, "keep everything running after the last step until ^C: auto (on a terminal), yes or no")
	flag.Parse()
	switch stay {
	case "auto":
		d.stay = console.Terminal()
	case "yes", "no":
		d.stay = stay == "yes"
	default:
		_, _ = fmt.Fprintf(os.Stderr, "demo: --stay must be auto, yes or no, not %q\n", stay)
		return console.ExitUsage
	}
	d.Style = report.Detect(os.Stdout, report.ColorAuto, os.Getenv)
	return console.Main("demo", d)
}
