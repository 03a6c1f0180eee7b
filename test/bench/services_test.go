// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// unavoidable returns the time of the calls and jobs that a Service with n ports needs at least, one after the other,
// because the server runs the jobs of one address in sequence: the address, a rule and its members for each port, one
// firewall rule.
func unavoidable(p simulator.LatencyProfile, n int) time.Duration {
	one := func(command string) time.Duration {
		call, known := p.Calls[command]
		if !known {
			call = p.Call
		}
		job, known := p.Jobs[command]
		if !known {
			job = p.Job
		}
		return call + job
	}
	return one("associateIpAddress") + time.Duration(n)*(one("createLoadBalancerRule")+one("assignToLoadBalancerRule")) + one("createFirewallRule")
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
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.org/touched":%q}}}`, time.Now().Format(time.RFC3339Nano))
			_, err := env.Client.CoreV1().Services(testenv.Namespace).Patch(ctx, "web1", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
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

var lifecycleHeader = []any{"create", "unavoidable", "ratio", "calls", "polls", "re-sync", "node joins", "node leaves", "restart", "delete", "takes"}

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
			func() { // each alone
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
		fmt.Printf("The unavoidable jobs of one after the other: %s.\n\n", seconds(services*unavoidable(env.Latency, ports)))
		header("--concurrent-service-syncs", "rate-limit auto (default)", "Services/s", "calls", "polls", "no rate-limit", "Services/s", "polls")
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
