// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// ticks is the number of clock ticks per second in /proc/PID/stat. It is the same on every Linux architecture that Go
// supports.
const ticks = 100

// used is the CPU time and memory of a process.
type used struct {
	cpu       time.Duration
	server    time.Duration // CPU time of this process, which is almost only the simulator's
	now, peak int           // resident memory, MiB
}

func usage(env *testenv.Env) (used, error) {
	var u used
	pid := strconv.Itoa(env.Controller.PID())
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return u, errors.Join(errors.New("CPU and memory are read from /proc, which exists only on Linux"), err)
	}
	// The second field, in parentheses, may contain spaces; user and system time are the 14th and 15th fields.
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return u, fmt.Errorf("/proc/%s/stat has fewer fields than expected", pid)
	}
	inUser, _ := strconv.Atoi(f[11])
	inSystem, _ := strconv.Atoi(f[12])
	u.cpu = time.Duration(inUser+inSystem) * time.Second / ticks
	if u.server, err = ownCPU(); err != nil {
		return u, err
	}
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "VmRSS:":
			u.now = kib >> 10
		case "VmHWM:":
			u.peak = kib >> 10
		}
	}
	return u, nil
}

// ownCPU is the CPU time of this process.
func ownCPU() (time.Duration, error) {
	var own syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()), err
}

// size is that of a cluster, with as many rules as Services.
type size struct {
	vms, nodes, services int
	drift                time.Duration // --drift-period; the default is 5 minutes
}

func (s size) String() string {
	return fmt.Sprintf("%d nodes, %d Services of 1 port, %d VMs", s.nodes, s.services, s.vms)
}

// atScale measures the controller alone: CloudStack answers without latency, and the controller has no rate limit.
func (s size) atScale(ctx context.Context, b *bench) error {
	vms, nodes, services := s.vms, s.nodes, s.services
	const ports = 1
	env := must.Get(b.newEnv(ctx, vms, nodes, "instant"))
	defer env.Stop()
	header("step", "takes", "CPU of the controller", "of the simulator", "memory", "peak", "calls", "polls")
	var last used
	last.server = must.Get(ownCPU())
	measure := func(what string, do func() error) error {
		env.Spent()
		begun := time.Now()
		must.OK(do())
		took := time.Since(begun)
		u := must.Get(usage(env))
		calls, polled := env.Spent()
		row(what, seconds(took), seconds(u.cpu-last.cpu), seconds(u.server-last.server), fmt.Sprintf("%d MiB", u.now), fmt.Sprintf("%d MiB", u.peak), calls, polled)
		last = u
		return nil
	}
	start := func() error { last.cpu = 0; return env.Start(ctx, 0, "--drift-period="+s.drift.String()) }
	settle := func(do func() error) func() error {
		return func() error {
			if err := do(); err != nil {
				return err
			}
			return env.Idle(ctx)
		}
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"start, no Service yet", start},
		{fmt.Sprintf("%d Services are created", services), settle(func() error {
			if err := env.Services(ctx, 1, services, ports); err != nil {
				return err
			}
			return env.Served(ctx, services)
		})},
		{fmt.Sprintf("two drift periods of %s, nothing to do", s.drift), func() error { return pause(ctx, 2*s.drift) }},
		{"a node joins", settle(func() error { return env.Join(ctx, nodes+1, nodes+1) })},
		{"restart with all of it", settle(start)},
		{"all Services are deleted", settle(func() error { return env.Clear(ctx) })},
	}
	for _, step := range steps {
		if err := measure(step.what, step.do); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
