// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/csccm/csccm/test/internal/must"
)

func BenchmarkScale(b *testing.B) { atScale(b, 5000, 1000, 500, 30*time.Second) }

func BenchmarkLarge(b *testing.B) {
	if !*large {
		b.Skip("without -large")
	}
	atScale(b, 5100, 5000, 1000, 150*time.Second)
}

// cpu is the CPU time of a process in seconds, which for this one is almost only the simulator's.
func cpu(pid int) float64 {
	return must.Get(must.Get(must.Get(procfs.NewDefaultFS()).Proc(pid)).Stat()).CPUTime()
}

// atScale measures the controller alone, with as many rules as Services: CloudStack answers without latency, and the controller has
// no rate limit. drift is its --drift-period; the default is 5 minutes.
func atScale(b *testing.B, vms, nodes, services int, drift time.Duration) {
	run(b, fmt.Sprintf("The controller at %d nodes, %d Services of 1 port, %d VMs", nodes, services, vms), func(b bench) {
		env := b.newEnv(vms, nodes, "instant")
		defer env.Stop()
		header("step", "takes", "CPU of the controller", "of the simulator", "memory", "peak", "calls", "polls")
		var ours, server float64
		step := func(what string, do func() error) {
			if env.Controller == nil {
				ours = 0
			}
			server = cpu(os.Getpid())
			env.Spent()
			begun := time.Now()
			must.OK(do())
			took := time.Since(begun)
			now, serverNow := cpu(env.Controller.PID()), cpu(os.Getpid())
			status := must.Get(must.Get(procfs.NewProc(env.Controller.PID())).NewStatus())
			calls, polled := env.Spent()
			row(what, seconds(took), fmt.Sprintf("%.1f s", now-ours), fmt.Sprintf("%.1f s", serverNow-server),
				fmt.Sprintf("%d MiB", status.VmRSS>>20), fmt.Sprintf("%d MiB", status.VmHWM>>20), calls, polled)
			ours = now
		}
		idle := func(err error) error {
			must.OK(err)
			return env.Idle(b.Context())
		}
		start := func() error { return env.Start(b.Context(), 0, "--drift-period="+drift.String()) }
		step("start, no Service yet", start)
		step(fmt.Sprintf("%d Services are created", services), func() error {
			must.OK(env.Services(b.Context(), 1, services, 1))
			return idle(env.Served(b.Context(), services))
		})
		step(fmt.Sprintf("two drift periods of %s, nothing to do", drift), func() error { time.Sleep(2 * drift); return nil })
		step("a node joins", func() error { return idle(env.Join(b.Context(), nodes+1, nodes+1)) })
		env.Kill()
		step("restart with all of it", start)
		step("all Services are deleted", func() error { return idle(env.Clear(b.Context())) })
	})
}
