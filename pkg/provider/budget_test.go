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
	"k8s.io/client-go/util/workqueue"

	"github.com/csccm/csccm/pkg/internal/testenv"
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
		parallel(t, fmt.Sprintf("%d ports", n), func(t *testing.T) {
			env := newEnv(t)
			env.create("web", someOrTen(n))
			spend := func(what string, budget int, do func()) []string {
				t.Helper()
				env.reset()
				do()
				calls := env.calls()
				own := without(calls, snapshots...)
				t.Logf("%-28s %3d calls, budget %3d, snapshots %d, polls %d\n%s", what, len(own), budget, len(calls)-len(own), env.Ledger().Count(testenv.Polls...), tally(own))
				assert.LessOrEqual(t, len(own), budget, "%s: %v", what, own)
				return calls
			}
			// Without any other Service or Node having been looked at, the two snapshots come on top.
			created := 6 + 2*n
			if n > 1 {
				created++ // one list of rules in place of the results of 2n jobs, which count as polls
			}
			spend("create", created, func() { env.mustSync("web") })
			if n > 1 {
				asked := map[string]bool{} // how often is TestTenJobsShareTheirPolls' matter: that depends on the machine here
				for _, c := range env.Ledger().Find("queryAsyncJobResult", "ccm") {
					asked[c.Params["jobid"]] = true
				}
				assert.LessOrEqual(t, len(asked), 3+2, "jobs that are asked one by one: address, tags, firewall rule, one that is alone, the last one")
				assert.Equal(t, 2, env.Ledger().Count("listLoadBalancerRules"), "a look for rules before, and the proof")
			}
			calls := spend("sync again", 0, func() { env.mustSync("web") })
			assert.Empty(t, calls)
			env.advance(6 * time.Minute)
			spend("sync after the drift period", 3, func() { env.mustSync("web") })
			calls = spend("update, same nodes", 0, func() {
				env.update("web", "w2", "w1")
			})
			assert.Empty(t, calls)
			calls = spend("a node joins", n, func() {
				env.update("web", "w1", "w2", "w3")
			})
			assert.LessOrEqual(t, count(calls, "listVirtualMachines"), 1)
			spend("a node leaves", n, func() {
				env.update("web", "w1", "w2")
			})
			// A restart forgets the members; They are read rule by rule or, if there are fewer VMs, VM by VM.
			env.restart()
			env.noticed()
			spend("restart", 3+min(n, 5), func() { env.mustSync("web") })
			spend("add a port", 5, func() {
				env.changed(func(s *corev1.Service) {
					s.Spec.Ports = append(s.Spec.Ports, servicePorts(9999)...)
					s.Spec.Ports[len(s.Spec.Ports)-1].NodePort = 32099
				})
			})
			spend("delete", 4, func() { require.NoError(t, env.remove("web")) })
		})
	}
}

// withNodes adds n VMs named n0, n1 ... to the network, and room for many addresses.
func withNodes(n int) envOption {
	return func(_ *serviceEnv, w *string) {
		var vms strings.Builder
		vms.WriteString("virtualMachines:\n")
		for i := range n {
			fmt.Fprintf(&vms, "  - {name: n%d, account: k8s, nics: [{network: k8s-net, ip: 10.1.%d.%d}]}\n", i, 4+i/200, 10+i%200)
		}
		*w = strings.Replace(*w, "virtualMachines:\n", vms.String(), 1)
		*w = strings.Replace(*w, "cidr: 10.1.1.0/24, sourceNAT: 203.0.113.10", "cidr: 10.1.0.0/16, sourceNAT: 203.0.113.10", 1)
		*w = limitedTo(*w, -1)
	}
}

func nodesUpTo(n int) []*corev1.Node {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return nodesNamed(names...)
}

// each runs work on all Services, some at a time.
func (env *serviceEnv) each(n int, work func(name string) error) {
	env.t.Helper()
	workqueue.ParallelizeUntil(env.t.Context(), 10, n, func(i int) { assert.NoError(env.t, work(fmt.Sprintf("web%d", i))) })
}

// What many Services and nodes cost: a restart and a round of the drift loop by whole lists, a node event by what
// changes and no more.
func TestBudgetAtScale(t *testing.T) {
	t.Parallel()
	sizes := []struct{ services, ports, nodes int }{{1, 1, 5}, {20, 2, 5}, {20, 5, 100}, {2, 1, 1000}}
	if !testing.Short() {
		sizes = append(sizes, struct{ services, ports, nodes int }{500, 2, 5})
	}
	for _, size := range sizes {
		parallel(t, fmt.Sprintf("%d Services of %d ports, %d nodes", size.services, size.ports, size.nodes), func(t *testing.T) {
			env := newEnv(t, withNodes(size.nodes+1))
			nodes := nodesUpTo(size.nodes)
			env.createMany(size.services, someOrTen(size.ports))
			env.setNodes(nodes)
			env.noticed()
			ensure := env.attempt
			spend := func(what string, budget int, do func()) {
				t.Helper()
				env.reset()
				do()
				calls := env.calls()
				t.Logf("%-22s %5d calls, budget %5d", what, len(calls), budget)
				assert.LessOrEqual(t, len(calls), budget, what)
			}
			s, n, v := size.services, size.ports, size.nodes+1+7
			rules := s*n + 2
			pages := func(x int) int { return (x + 499) / 500 }
			lists := pages(rules) + pages(s+2) + pages(s+6) + pages(v) + 1 // rules, firewall, addresses, VMs, network
			members := min(s*n, v*pages(rules))

			spend("create", s*(7+2*n)+pages(v)+1, func() { env.each(s, ensure) })
			env.restart()
			spend("restart", lists+members, func() { env.each(s, ensure) })
			spend("re-sync", 0, func() { env.each(s, ensure) })
			env.advance(5 * time.Minute)
			spend("drift round", lists+members, func() { env.round(0) })
			// What changes about Nodes most of the time: nothing that matters, in another order.
			slices.Reverse(nodes)
			nodes[0] = nodes[0].DeepCopy()
			nodes[0].ResourceVersion, nodes[0].Labels = "2", map[string]string{"changed": "yes"}
			nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "changed"}}
			env.setNodes(nodes)
			spend("update, same nodes", 0, func() { env.each(s, ensure) })
			env.setNodes(nodesUpTo(size.nodes + 1))
			spend("a node joins", s*n+pages(v), func() { env.each(s, ensure) })
			env.setNodes(nodesUpTo(size.nodes))
			spend("a node leaves", s*n+pages(v), func() { env.each(s, ensure) })
			require.NotContains(t, env.event("DriftRepaired"), "repairing")
		})
	}
}
