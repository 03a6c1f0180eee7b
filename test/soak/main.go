// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command soak creates, changes and deletes Services, nodes and VMs at random for
// minutes, with the controller as a process, a real API server and a simulated
// CloudStack in which one call in twenty fails. It checks invariants all the time, and
// at the end that CloudStack's state matches the Services exactly.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := command(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context) (err error) {
	defer must.Return(&err)
	o := options{Out: os.Stdout}
	flag.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long to make changes; the checks at the end take a minute or two more")
	flag.Int64Var(&o.Seed, "seed", 0, "seed of the random changes; 0 means the current time")
	flag.Float64Var(&o.Faults, "faults", 0.05, "share of the controller's calls that fail")
	flag.IntVar(&o.Services, "services", 10, "maximum number of Services at the same time")
	flag.DurationVar(&o.Pace, "pace", 400*time.Millisecond, "time between two changes")
	flag.StringVar(&o.Profile, "profile", "simulator", "how long CloudStack's calls and jobs take: instant, simulator or production")
	bin := flag.String("bin-dir", os.Getenv("CSCCM_BIN_DIR"), "folder with the product's programs; empty: build them")
	flag.Parse()
	if o.Seed == 0 {
		o.Seed = time.Now().UnixNano()
	}

	o.Plane = must.Get(plane.Ensure(ctx, plane.Newest, program.Print(os.Stderr)))
	o.Programs = must.Get(testenv.Build(ctx, testenv.BuildOptions{Dir: *bin, LDFlags: os.Getenv("CSCCM_LDFLAGS")}))
	return soak(ctx, o)
}
