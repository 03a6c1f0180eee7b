// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

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
				t.Logf("%-28s %3d calls, budget %3d, snapshots %d, polls %d", what, len(own), budget, len(calls)-len(own), env.Ledger().Count(testenv.Polls...))
				assert.LessOrEqual(t, len(own), budget, "%s: %v", what, own)
				return calls
			}
			// Without any other Service or Node having been looked at, the two snapshots come on top.
			created := 6 + 2*n
			if n == 1 {
				created-- // the results of three jobs are shorter than the list that proves them
			}
			spend("create", created, func() { env.mustSync("web") })
			if n > 1 {
				assert.LessOrEqual(t, env.Ledger().Count(testenv.Polls...), 3+5, "results of the address, its tags and the firewall rule, and lists of jobs")
			}
			calls := spend("sync again", 0, func() { env.mustSync("web") })
			assert.Empty(t, calls)
			env.advance(6 * time.Minute)
			spend("sync after the drift period", 2, func() { env.mustSync("web") })
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
			spend("restart", 2+min(n, 5), func() { env.mustSync("web") })
			spend("add a port", 4, func() {
				env.changed(func(s *corev1.Service) {
					s.Spec.Ports = append(s.Spec.Ports, servicePorts(9999)...)
					s.Spec.Ports[len(s.Spec.Ports)-1].NodePort = 32099
				})
			})
			spend("delete", 4, func() { require.NoError(t, env.remove("web")) })
		})
	}
}

// Polls are shared and at most one in 200 ms (here 4 ms: the clock of the tests is fifty times faster),
// and results are read of the few jobs that no list proves.
func TestBudgetOfPolls(t *testing.T) {
	t.Parallel()
	env := served(t, someOrTen(10))
	assert.LessOrEqual(t, env.Ledger().Count("queryAsyncJobResult"), 3+3, "of the address, its tags and the firewall rule, and polls of a lone job")
}

// A thousand events of Nodes over many Services, each of which makes the framework call UpdateLoadBalancer for every
// Service: they cost what changed for the load balancers, and no more. Upstream pays for each event and Service the
// list of all VMs and 1+N calls.
func TestBudgetOfNodeEvents(t *testing.T) {
	t.Parallel()
	const (
		events = 1000
		every  = 250 // events from one that changes the nodes to the next
		nodes  = 6
	)
	services := 100
	if testing.Short() {
		services = 20
	}
	env := newEnv(t, withNodes(nodes+1))
	list := nodesUpTo(nodes)
	byName := map[string]*corev1.Service{}
	env.createMany(services, []int{80})
	env.each(services, func(name string) error {
		_, err := env.lb.EnsureLoadBalancer(t.Context(), "", env.get(name), list)
		return err
	})
	for i := range services {
		name := fmt.Sprintf("web%d", i)
		byName[name] = env.get(name)
	}
	update := func() {
		env.each(services, func(name string) error { return env.lb.UpdateLoadBalancer(t.Context(), "", byName[name], list) })
	}

	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- a test
	changes := 0
	env.reset()
	for i := range events {
		if i%every == every/2 { // a node joins, later it leaves
			changes++
			list = nodesUpTo(nodes + changes%2)
			update()
			continue
		}
		// What changes about Nodes most of the time: nothing that matters, in another order.
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		n := list[0].DeepCopy()
		n.Labels = map[string]string{"changed": fmt.Sprint(i)}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: fmt.Sprint(i)}}
		n.ResourceVersion = fmt.Sprint(i)
		list[0] = n
		update()
	}
	calls := env.calls()
	want := changes * services
	t.Logf("%d events, %d of which changed the nodes, over %d Services of 1 port: %d calls (%d assign or remove)",
		events, changes, services, len(calls), want)
	assert.Equal(t, want, count(calls, "assignToLoadBalancerRule")+count(calls, "removeFromLoadBalancerRule"), "each change once for each rule")
	assert.Empty(t, without(calls, "assignToLoadBalancerRule", "removeFromLoadBalancerRule", "listVirtualMachines"))
	assert.LessOrEqual(t, count(calls, "listVirtualMachines"), changes, "at most one list of VMs a change, for all Services")
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
		*w = strings.Replace(*w, "  - name: k8s\n    role: User\n", "  - name: k8s\n    role: User\n    limits: {publicIPs: -1}\n", 1)
		*w = strings.Replace(*w, "publicRanges: [203.0.113.10-203.0.113.99]", "publicRanges: [203.0.113.10-203.0.113.99, 198.18.0.1-198.18.3.250]", 1)
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
			ensure := func(name string) error {
				status, err := env.lb.EnsureLoadBalancer(t.Context(), "", env.get(name), nodes)
				if err != nil {
					return err
				}
				env.edit(name, func(s *corev1.Service) { s.Status.LoadBalancer = *status })
				return nil
			}
			update := func(name string) error { return env.lb.UpdateLoadBalancer(t.Context(), "", env.get(name), nodes) }
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
			lists := pages(rules) + pages(s+2) + pages(v) + 1 // rules, firewall, VMs, network
			members := min(s*n, v*pages(rules))

			spend("create", s*(6+2*n)+pages(v)+1, func() { env.each(s, ensure) })
			env.restart()
			spend("restart", lists+members, func() { env.each(s, ensure) })
			spend("re-sync", 0, func() { env.each(s, ensure) })
			env.advance(5 * time.Minute)
			// The search for orphans adds the list of addresses.
			spend("drift round", lists+members+pages(s+6), func() { env.round(0) })
			spend("update, same nodes", 0, func() { env.each(s, update) })
			nodes = nodesUpTo(size.nodes + 1)
			spend("a node joins", s*n+pages(v), func() { env.each(s, update) })
			nodes = nodesUpTo(size.nodes)
			spend("a node leaves", s*n+pages(v), func() { env.each(s, update) })
			require.NotContains(t, env.event("DriftRepaired"), "repairing")
		})
	}
}
