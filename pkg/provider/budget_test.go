// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
)

// snapshots are reads that all Services share; they have their own budgets.
var snapshots = []string{"listVirtualMachines", "listNetworks"}

func without(calls []string, commands ...string) []string {
	return slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return slices.Contains(commands, c) })
}

func count(calls []string, command string) int {
	return len(calls) - len(without(calls, command))
}

func someOrTen(n int) []int { return numbers(8000, n) }

// spend returns the calls that do makes. It fails if there are more than the budget allows, not counting shared reads
// and polls of jobs.
func (env *serviceEnv) spend(what string, budget int, do func(), shared ...string) []string {
	env.t.Helper()
	env.reset()
	do()
	calls := env.calls()
	own := without(calls, shared...)
	env.t.Logf("%-28s %4d calls, budget %4d, shared %d, polls %d", what, len(own), budget, len(calls)-len(own),
		env.Ledger().Count(testenv.Polls...))
	assert.LessOrEqual(env.t, len(own), budget, "%s:\n%s", what, tally(own))
	return calls
}

// The budgets of calls are upper bounds; the test logs the actual numbers.
func TestBudget(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 10, 50} {
		parallel(t, fmt.Sprintf("%d ports", n), func(t *testing.T) {
			env := newEnv(t)
			env.create("web", someOrTen(n))
			spend := func(what string, budget int, do func()) []string {
				t.Helper()
				return env.spend(what, budget, do, snapshots...)
			}

			sync := func() { env.mustSync("web") }

			// No other Service or Node was read before, so the calls include the two snapshots.
			created := 6 + 2*n
			if n > 1 {
				created++ // one list of rules in place of the results of 2n jobs, which count as polls
			}

			spend("create", created, sync)
			if n > 1 {
				// The number of polls depends on the machine here; TestTenJobsShareTheirPolls tests it.
				asked := map[string]bool{}
				for _, c := range env.Ledger().Find("queryAsyncJobResult", "ccm") {
					asked[c.Params["jobid"]] = true
				}

				assert.LessOrEqual(t, len(asked), 3+2,
					"jobs that are asked one by one: address, tags, firewall rule, one that is alone, the last one")
				assert.Equal(t, 2, env.Ledger().Count("listLoadBalancerRules"),
					"a look for rules before, and the proof")
			}

			assert.Empty(t, spend("sync again", 0, sync))
			env.advance(6 * time.Minute)
			spend("sync after the drift period", 3, sync)
			assert.Empty(t, spend("update, same nodes", 0, func() { env.update("web", "w2", "w1") }))
			assert.LessOrEqual(t,
				count(spend("a node joins", n, func() { env.update("web", "w1", "w2", "w3") }), "listVirtualMachines"),
				1)
			spend("a node leaves", n, func() { env.update("web", "w1", "w2") })

			// After a restart, the members are read again: rule by rule or, if there are fewer VMs, VM by VM.
			env.restart()
			env.noticed()
			spend("restart", 3+min(n, 5), sync)
			spend("add a port", 5, func() {
				env.edit("web", changed(t, []string{"+9999"}))
				sync()
			})

			// The address is read before it is released.
			spend("delete", 5, func() { require.NoError(t, env.remove("web")) })
		})
	}
}

// F port forwardings cost F calls in addition to the calls of every Service.
func TestBudgetOfForwards(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10} {
		env := newEnv(t)
		env.create("web", nil, withUDP(someOrTen(n)...))
		spend := func(what string, budget int, do func()) {
			t.Helper()
			env.spend(what, budget, do, append(snapshots, "listApis")...)
		}

		sync := func() { env.mustSync("web") }

		// The address takes three calls. The search for rules of the same name, the tags, the firewall rule and its
		// tags take one call each.
		spend("create", 7+n, sync)
		spend("sync again", 0, sync)
		env.advance(6 * time.Minute)
		spend("sync after the drift period", 4, sync)
		was := env.ledTo(env.ip("web"))[0]
		spend("failover", n, func() { env.update("web", map[string]string{"w1": "w2", "w2": "w1"}[was]) })
		assert.Equal(t, n, count(env.calls(), "updatePortForwardingRule"))
		env.restart()
		spend("restart", 4, sync)
		spend("delete", 5, func() { require.NoError(t, env.remove("web")) })
	}
}

// nodesUpTo returns the Nodes of n VMs that withVMs adds.
func nodesUpTo(n int) []*corev1.Node {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return nodesNamed(names...)
}

func pages(n int) int { return (n + 499) / 500 }

// With many Services and nodes, a restart and a round of the drift loop read complete lists, and a node event costs
// only the calls for its changes.
func TestBudgetAtScale(t *testing.T) {
	t.Parallel()
	sizes := []struct{ services, ports, nodes int }{{1, 1, 5}, {20, 2, 5}, {20, 5, 100}, {2, 1, 1000}}
	if !testing.Short() {
		sizes = append(sizes, struct{ services, ports, nodes int }{500, 2, 5})
	}
	for _, size := range sizes {
		parallel(t, fmt.Sprintf("%d Services of %d ports, %d nodes", size.services, size.ports, size.nodes),
			func(t *testing.T) {
				env := newEnv(t, withWorld(func(w string) string { return withVMs(w, size.nodes+1) }))
				s, n, v := size.services, size.ports, size.nodes+1+7
				nodes := nodesUpTo(size.nodes)
				// Use several namespaces, because the budget of a namespace limits how many changes it may make at
				// once.
				key := func(i int) string { return fmt.Sprintf("team%d/web%d", i/100, i) }
				for i := range s {
					env.create(key(i), someOrTen(n))
				}
				env.setNodes(nodes)
				env.noticed()
				all := func() { // ten at a time
					workqueue.ParallelizeUntil(t.Context(), 10, s,
						func(i int) { assert.NoError(t, env.attempt(key(i))) })
				}
				rules := s*n + 2
				// lists of rules, firewall rules, addresses, VMs and networks
				lists := pages(rules) + pages(s+2) + pages(s+6) + pages(v) + 1
				members := min(s*n, v*pages(rules))

				env.spend("create", s*(7+2*n)+pages(v)+1, all)
				env.restart()
				env.spend("restart", lists+members, all)
				env.spend("re-sync", 0, all)
				env.advance(5 * time.Minute)
				env.spend("drift round", lists+members, func() { env.round() })
				// Most changes of Nodes do not matter for load balancers, such as another order of the Nodes.
				slices.Reverse(nodes)
				nodes[0] = nodes[0].DeepCopy()
				nodes[0].ResourceVersion, nodes[0].Labels = "2", map[string]string{"changed": "yes"}
				nodes[0].Status.Conditions = []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "changed"},
				}
				env.setNodes(nodes)
				env.spend("update, same nodes", 0, all)
				env.setNodes(nodesUpTo(size.nodes + 1))
				env.spend("a node joins", s*n+pages(v), all)
				env.setNodes(nodesUpTo(size.nodes))
				env.spend("a node leaves", s*n+pages(v), all)
				assert.Empty(t, grep(env.events(), " DriftRepaired "))
			})
	}
}

// The server counts the calls for Nodes in clusters of all sizes. The number of calls depends on the account's VMs and
// on time, never on the number of Nodes.
func TestNodeBudgets(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 100, 1000, 5000} {
		parallel(t, fmt.Sprint(size), func(t *testing.T) {
			if size > 1000 && testing.Short() {
				t.Skip("takes seconds")
			}

			env := newEnv(t, withWorld(func(w string) string { return withVMs(w, size) }))
			vms, err := env.inspect.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
			require.NoError(t, err)
			nodes := nodesUpTo(size)
			for i := range nodes {
				at := slices.IndexFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == nodes[i].Name })
				nodes[i].Spec.ProviderID = node.ProviderID(node.FormUpstream, vms[at].ID)
			}

			instances := env.provider.instances
			instances.List = func() ([]*corev1.Node, error) { return nodes, nil }
			round := func(list []*corev1.Node) func() {
				return func() {
					var wg sync.WaitGroup
					for w := range 16 {
						wg.Go(func() {
							for i := w; i < len(list); i += 16 {
								_, err := instances.InstanceMetadata(t.Context(), list[i])
								assert.NoError(t, err)
							}
						})
					}

					wg.Wait()
				}
			}

			exactly := func(what string, budget int, do func()) {
				t.Helper()
				assert.Len(t, env.spend(what, budget, do), budget, what)
			}

			exists := func(i int) bool {
				there, err := instances.InstanceExists(t.Context(), nodes[i])
				assert.NoError(t, err)
				return there
			}

			whole := pages(len(vms))
			exactly("all Nodes at once share a flight", whole, round(nodesUpTo(size)))
			exactly("a list serves all for its age", 0, round(nodes))
			exactly("load balancers among them", 0,
				func() { _, _ = env.provider.inventory.VMs(t.Context(), node.VMAge) })
			env.advance(node.VMAge + time.Second)
			exactly("a steady round", whole, round(nodes))
			env.Admin("stopVirtualMachine", "id", env.vm("n1"))
			env.advance(node.VMAge + time.Second)
			exactly("one VM stopped", whole, func() {
				assert.True(t, exists(1))
				off, err := instances.InstanceShutdown(t.Context(), nodes[1])
				require.NoError(t, err)
				assert.True(t, off)
			})

			env.Admin("destroyVirtualMachine", "id", env.vm("n2"))
			env.advance(node.VMAge + time.Second)
			exactly("one VM destroyed: the list and the look-up by id", whole+1, func() { assert.False(t, exists(2)) })
			env.advance(node.MissAge + time.Second)
			exactly("an unknown id: one look-up, or the list where that is one call as well", 1, func() {
				_, err := instances.InstanceMetadata(t.Context(),
					testenv.Node("nobody", node.ProviderID(node.FormUpstream, testenv.VMID(1))))
				assert.Error(t, err)
			})
		})
	}
}
