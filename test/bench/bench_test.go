// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench measures the controller, which runs as a process, with a real API server and the simulator: the
// durations for Services, the number of their API calls, and the controller's CPU time and memory. Each benchmark
// prints a Markdown table; docs/contributing/performance.md shows the tables of one run.
package bench

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

var (
	latency = flag.String("profile", "simulator",
		"how long CloudStack's calls and jobs take: instant, simulator or production")
	large = flag.Bool("large", false, "measure 5,000 nodes, too, which takes many minutes and some GB of memory")
)

// bench is one benchmark, with what its environments are made of.
type bench struct {
	*testing.B
	plane    string
	programs testenv.Binaries
}

// run prints a title and what a benchmark measures.
func run(b *testing.B, title string, measure func(bench)) {
	b.Helper()
	load, _ := os.ReadFile("/proc/loadavg") // durations are longer on a busy machine
	fmt.Printf("\n%s (%s, %d CPUs, load %.4s, latency profile %s)\n\n",
		title, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), load, *latency)
	require.NoError(b, must.Catch(func() {
		path := must.Get(plane.Ensure(b.Context(), plane.Newest, b.Output()))
		measure(bench{b, path, must.Get(testenv.Build(b.Context(), b.Output()))})
	}))
}

// newEnv starts an environment, which the caller stops.
func (b bench) newEnv(vms, nodes int, profile string) *testenv.Env {
	return must.Get(testenv.New(b.Context(),
		testenv.Options{Programs: b.programs, Plane: b.plane, VMs: vms, Nodes: nodes, Profile: profile}))
}

// row prints a line of a table.
func row(cells ...any) {
	text := make([]string, 0, len(cells))
	for _, c := range cells {
		text = append(text, fmt.Sprint(c))
	}
	fmt.Println("| " + strings.Join(text, " | ") + " |")
}

func header(cells ...any) {
	row(cells...)
	fmt.Println("|" + strings.Repeat("---|", len(cells)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// unavoidable returns the minimum time of the calls and jobs for a Service with n ports. They run one after the other,
// because the server runs the jobs of one address in sequence: the address, a rule and its members for each port, and
// one firewall rule.
func unavoidable(p simulator.LatencyProfile, n int) time.Duration {
	or := func(times map[string]time.Duration, command string, usual time.Duration) time.Duration {
		if d, known := times[command]; known {
			return d
		}
		return usual
	}
	one := func(command string) time.Duration { return or(p.Calls, command, p.Call) + or(p.Jobs, command, p.Job) }
	return one("associateIpAddress") +
		time.Duration(n)*(one("createLoadBalancerRule")+one("assignToLoadBalancerRule")) + one("createFirewallRule")
}

// lifecycle creates, changes and deletes a Service with n ports and prints the calls and durations of each step.
func (b bench) lifecycle(env *testenv.Env, label any, n, nodes int) {
	ctx := b.Context()
	must.OK(env.Start(ctx, 0))
	env.Spent()
	begun := time.Now()
	must.OK(env.Services(ctx, 1, 1, n))
	must.OK(env.Served(ctx, 1))
	took := time.Since(begun)
	must.OK(env.Idle(ctx))
	due := unavoidable(env.Latency, n)
	calls, polled := env.Spent()
	cells := []any{label, seconds(took), seconds(due), fmt.Sprintf("%.2f", took.Seconds()/due.Seconds()), calls, polled}
	for _, step := range []func() error{
		func() error { // without a relevant change
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.org/touched":%q}}}`,
				time.Now().Format(time.RFC3339Nano))
			_, err := env.Client.CoreV1().Services(testenv.Namespace).Patch(ctx, "web1", types.MergePatchType,
				[]byte(patch), metav1.PatchOptions{})
			return err
		},
		func() error { return env.Join(ctx, nodes+1, nodes+1) },
		func() error { // its VM remains, as when a node was drained and removed from the cluster
			return env.Client.CoreV1().Nodes().Delete(ctx, fmt.Sprint("w", nodes+1), metav1.DeleteOptions{})
		},
		func() error { return env.Start(ctx, 0) },
	} {
		must.OK(step())
		must.OK(env.Idle(ctx))
		calls, _ := env.Spent()
		cells = append(cells, calls)
	}

	begun = time.Now()
	must.OK(env.Clear(ctx))
	took = time.Since(begun)
	calls, _ = env.Spent()
	row(append(cells, calls, seconds(took))...)
}

var lifecycleHeader = []any{"create", "unavoidable", "ratio", "calls", "polls", "re-sync", "node joins", "node leaves",
	"restart", "delete", "takes"}

func BenchmarkPorts(b *testing.B) {
	run(b, "One Service by its number of ports, 5 nodes", func(b bench) {
		env := b.newEnv(6, 5, *latency)
		defer env.Stop()
		header(append([]any{"ports"}, lifecycleHeader...)...)
		for _, n := range []int{1, 5, 10, 50} {
			b.lifecycle(env, n, n, 5)
		}
	})
}

func BenchmarkNodes(b *testing.B) {
	run(b, "One Service of 5 ports by the number of nodes", func(b bench) {
		header(append([]any{"nodes"}, lifecycleHeader...)...)
		for _, nodes := range []int{5, 50, 200, 1000} {
			func() { // one environment at a time
				env := b.newEnv(nodes+1, nodes, *latency)
				defer env.Stop()
				b.lifecycle(env, nodes, 5, nodes)
			}()
		}
	})
}

func BenchmarkConcurrency(b *testing.B) {
	const services, ports = 50, 2
	run(b, fmt.Sprintf("%d Services of %d ports created at once", services, ports), func(b bench) {
		env, ctx := b.newEnv(5, 5, *latency), b.Context()
		defer env.Stop()
		fmt.Printf("The unavoidable jobs of one after the other: %s.\n\n",
			seconds(services*unavoidable(env.Latency, ports)))
		header("--concurrent-service-syncs", "rate-limit auto (default)", "Services/s", "calls", "polls",
			"no rate-limit", "Services/s", "polls")
		for _, workers := range []int{1, 5, 10, 20, 50} {
			cells := []any{workers}
			for _, rate := range []float64{cloudconfig.AutoRate, 0} {
				must.OK(env.Start(ctx, rate, fmt.Sprintf("--concurrent-service-syncs=%d", workers)))
				env.Spent()
				begun := time.Now()
				must.OK(env.Services(ctx, 1, services, ports))
				must.OK(env.Served(ctx, services))
				took := time.Since(begun)
				calls, polled := env.Spent()
				cells = append(cells, seconds(took), fmt.Sprintf("%.1f", services/took.Seconds()))
				if rate != 0 {
					cells = append(cells, calls)
				}

				cells = append(cells, polled)

				// Deletes the Services as fast as possible.
				must.OK(env.Start(ctx, 0, "--concurrent-service-syncs=20"))
				must.OK(env.Clear(ctx))
			}

			row(cells...)
		}
	})
}

func BenchmarkScale(b *testing.B) { atScale(b, 5000, 1000, 500, 30*time.Second) }

func BenchmarkLarge(b *testing.B) {
	if !*large {
		b.Skip("without -large")
	}
	atScale(b, 5100, 5000, 1000, 150*time.Second)
}

// cpu returns the CPU time of a process in seconds. For this process, that is almost only the simulator's.
func cpu(pid int) float64 {
	return must.Get(must.Get(must.Get(procfs.NewDefaultFS()).Proc(pid)).Stat()).CPUTime()
}

// atScale measures only the controller, with as many rules as Services: CloudStack answers without latency, and the
// controller has no rate limit. drift is its --drift-period; the default is 5 minutes.
func atScale(b *testing.B, vms, nodes, services int, drift time.Duration) {
	run(b, fmt.Sprintf("The controller at %d nodes, %d Services of 1 port, %d VMs", nodes, services, vms),
		func(b bench) {
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

			// All Services are in one namespace, which has no limits here.
			start := func() error { return env.Start(b.Context(), 0, "--drift-period="+drift.String(), "--tenancy={}") }
			step("start, no Service yet", start)
			step(fmt.Sprintf("%d Services are created", services), func() error {
				must.OK(env.Services(b.Context(), 1, services, 1))
				return idle(env.Served(b.Context(), services))
			})

			step(fmt.Sprintf("two drift periods of %s, nothing to do", drift),
				func() error { time.Sleep(2 * drift); return nil })
			step("a node joins", func() error { return idle(env.Join(b.Context(), nodes+1, nodes+1)) })
			env.Kill()
			step("restart with all of it", start)
			step("all Services are deleted", func() error { return idle(env.Clear(b.Context())) })
		})
}
