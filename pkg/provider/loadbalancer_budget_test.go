// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// snapshots are reads that all Services share; they have budgets of their own.
var snapshots = []string{"listVirtualMachines", "listNetworks"}

func without(calls []string, commands ...string) []string {
	return slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return slices.Contains(commands, c) })
}

func count(calls []string, command string) int {
	return len(calls) - len(without(calls, command))
}

func someOrTen(n int) []int {
	var ports []int
	for i := range n {
		ports = append(ports, 8000+i)
	}
	return ports
}

// The budgets of calls, polls of jobs apart. They are upper bounds: the test
// logs what it was.
func TestBudget(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 10, 50} {
		t.Run(fmt.Sprintf("%d ports", n), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.service(someOrTen(n))
			spend := func(what string, budget int, do func()) []string {
				t.Helper()
				b.reset()
				do()
				calls := b.calls()
				own := without(calls, snapshots...)
				t.Logf("%-28s %3d calls, budget %3d, snapshots %d, polls %d", what, len(own), budget, len(calls)-len(own), b.sim.Ledger().Count(pollCommands...))
				assert.LessOrEqual(t, len(own), budget, "%s: %v", what, own)
				return calls
			}
			// Without any other Service or Node having been looked at, the two snapshots come on top.
			spend("create", 6+2*n, func() { b.mustSync("w1", "w2") })
			calls := spend("sync again", 0, func() { b.mustSync("w1", "w2") })
			assert.Empty(t, calls)
			b.clock.SetTime(b.clock.Now().Add(6 * time.Minute))
			spend("sync after the drift period", 2, func() { b.mustSync("w1", "w2") })
			calls = spend("update, same nodes", 0, func() {
				require.NoError(t, b.lb.UpdateLoadBalancer(t.Context(), "", b.get(), nodesNamed("w2", "w1")))
			})
			assert.Empty(t, calls)
			calls = spend("a node joins", n, func() {
				require.NoError(t, b.lb.UpdateLoadBalancer(t.Context(), "", b.get(), nodesNamed("w1", "w2", "w3")))
			})
			assert.LessOrEqual(t, count(calls, "listVirtualMachines"), 1)
			spend("a node leaves", n, func() {
				require.NoError(t, b.lb.UpdateLoadBalancer(t.Context(), "", b.get(), nodesNamed("w1", "w2")))
			})
			// A restart forgets the members; CloudStack tells them rule by rule or, when these are fewer, VM by VM.
			b.restart()
			spend("restart", 2+min(n, 5), func() { b.mustSync("w1", "w2") })
			spend("add a port", 4, func() {
				b.change(func(s *corev1.Service) {
					s.Spec.Ports = append(s.Spec.Ports, servicePorts(9999)...)
					s.Spec.Ports[len(s.Spec.Ports)-1].NodePort = 32099
				})
				b.mustSync("w1", "w2")
			})
			spend("delete", 4, func() { require.NoError(t, b.remove()) })
		})
	}
}

// Polls are shared and at most one in 200 ms (here 4 ms: the clock of the tests is fifty times faster),
// and each job's result is read once.
func TestBudgetOfPolls(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service(someOrTen(10))
	b.mustSync("w1", "w2")
	jobs := 0
	for _, c := range b.calls() {
		if !strings.HasPrefix(c, "list") {
			jobs++
		}
	}
	assert.LessOrEqual(t, b.sim.Ledger().Count("queryAsyncJobResult"), jobs+3, "one result a job, and first polls of a lone job")
}
