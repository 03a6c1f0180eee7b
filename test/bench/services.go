// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/bare"
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
func lifecycle(ctx context.Context, x *bare.Bed, label string, n, nodes int) error {
	if err := x.Start(ctx, 0); err != nil {
		return err
	}
	x.Spent()
	begun := time.Now()
	if err := x.Services(ctx, 1, 1, n); err != nil {
		return err
	}
	if err := x.Served(ctx, 1); err != nil {
		return err
	}
	took := time.Since(begun)
	if err := x.Idle(ctx); err != nil {
		return err
	}
	due := unavoidable(x.Latency, n)
	calls, polled := x.Spent()
	cells := []any{label, seconds(took), seconds(due), fmt.Sprintf("%.2f", took.Seconds()/due.Seconds()), calls, polled}

	for _, step := range []func() error{
		func() error { return touch(ctx, x) },
		func() error { return x.Join(ctx, nodes+1, nodes+1) },
		func() error { return deleteNode(ctx, x, nodes+1) },
		func() error { return x.Start(ctx, 0) },
	} {
		if err := step(); err != nil {
			return err
		}
		if err := x.Idle(ctx); err != nil {
			return err
		}
		calls, _ := x.Spent()
		cells = append(cells, calls)
	}
	begun = time.Now()
	if err := x.Clear(ctx); err != nil {
		return err
	}
	took = time.Since(begun)
	calls, _ = x.Spent()
	row(append(cells, calls, seconds(took))...)
	return nil
}

// touch makes the service controller sync the Service without a relevant change.
func touch(ctx context.Context, x *bare.Bed) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.org/touched":%q}}}`, time.Now().Format(time.RFC3339Nano))
	_, err := x.Kube.CoreV1().Services(bare.Namespace).Patch(ctx, "web1", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// deleteNode deletes a Node whose VM remains, as when a node was drained and removed from the cluster.
func deleteNode(ctx context.Context, x *bare.Bed, i int) error {
	return x.Kube.CoreV1().Nodes().Delete(ctx, fmt.Sprintf("w%d", i), metav1.DeleteOptions{})
}

var lifecycleHeader = []any{"create", "unavoidable", "ratio", "calls", "polls", "re-sync", "node joins", "node leaves", "restart", "delete", "takes"}

func byPorts(ctx context.Context, b *bench) error {
	x, err := b.newBed(ctx, 6, 5, b.profile)
	if err != nil {
		return err
	}
	defer x.Stop()
	header(append([]any{"ports"}, lifecycleHeader...)...)
	for _, n := range []int{1, 5, 10, 50} {
		if err := lifecycle(ctx, x, fmt.Sprint(n), n, 5); err != nil {
			return err
		}
	}
	return nil
}

func byNodes(ctx context.Context, b *bench) error {
	header(append([]any{"nodes"}, lifecycleHeader...)...)
	for _, nodes := range []int{5, 50, 200, 1000} {
		x, err := b.newBed(ctx, nodes+1, nodes, b.profile)
		if err != nil {
			return err
		}
		err = lifecycle(ctx, x, fmt.Sprint(nodes), 5, nodes)
		x.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func byConcurrency(ctx context.Context, b *bench) error {
	const services, ports = 50, 2
	x, err := b.newBed(ctx, 5, 5, b.profile)
	if err != nil {
		return err
	}
	defer x.Stop()
	fmt.Printf("The unavoidable jobs of one after the other: %s.\n\n", seconds(services*unavoidable(x.Latency, ports)))
	header("--concurrent-service-syncs", "rate-limit 20 (default)", "Services/s", "calls", "polls", "no rate-limit", "Services/s", "polls")
	for _, workers := range []int{1, 5, 10, 20, 50} {
		cells := []any{workers}
		for _, rate := range []float64{20, 0} {
			if err := x.Start(ctx, rate, fmt.Sprintf("--concurrent-service-syncs=%d", workers)); err != nil {
				return err
			}
			x.Spent()
			begun := time.Now()
			if err := x.Services(ctx, 1, services, ports); err != nil {
				return err
			}
			if err := x.Served(ctx, services); err != nil {
				return err
			}
			took := time.Since(begun)
			calls, polled := x.Spent()
			cells = append(cells, seconds(took), fmt.Sprintf("%.1f", services/took.Seconds()))
			if rate > 0 {
				cells = append(cells, calls)
			}
			cells = append(cells, polled)
			// Deletes the Services as fast as possible.
			if err := x.Start(ctx, 0, "--concurrent-service-syncs=20"); err != nil {
				return err
			}
			if err := x.Clear(ctx); err != nil {
				return err
			}
		}
		row(cells...)
	}
	return nil
}
