// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
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
				assert.LessOrEqual(t, env.Ledger().Count(testenv.Polls...), 3+5, "results of the address, its tags and the firewall rule, and lists of jobs")
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
	env.createMany(services, []int{80})
	update := func() {
		env.setNodes(slices.Clone(list))
		env.each(services, env.attempt)
	}
	env.noticed()
	update()

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
			spend("update, same nodes", 0, func() { env.each(s, ensure) })
			env.setNodes(nodesUpTo(size.nodes + 1))
			spend("a node joins", s*n+pages(v), func() { env.each(s, ensure) })
			env.setNodes(nodesUpTo(size.nodes))
			spend("a node leaves", s*n+pages(v), func() { env.each(s, ensure) })
			require.NotContains(t, env.event("DriftRepaired"), "repairing")
		})
	}
}

// One list of an address's rules shows which jobs on them succeeded. Results are read of those that no list shows: of
// the acquisition, the address's tags and the single firewall rule.
func TestResultsOfFewJobsAreRead(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", someOrTen(10))
	env.reset()
	env.mustSync("web")
	assert.LessOrEqual(t, env.Ledger().Count("queryAsyncJobResult"), 3+2, "polls of a lone job and of the last one are such calls, too")
	assert.Equal(t, 2, count(env.calls(), "listLoadBalancerRules"), "a look for rules before, and the proof")
}

// A job whose effect the list does not show is asked for its result, and so are all if there is no list: nothing is
// taken for done that is not, and CloudStack's own words are passed on.
func TestJobsThatTheListDoesNotProve(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault simulator.Fault
		want  string // of the error; empty for none
	}{
		"members are refused":    {simulator.Fault{Command: "assignToLoadBalancerRule", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}, "cloudstack assignToLoadBalancerRule: Failed to assign load balancer rule (code 530)"},
		"a rule is refused":      {simulator.Fault{Command: "createLoadBalancerRule", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}, "cloudstack createLoadBalancerRule: "},
		"the list is refused":    {simulator.Fault{Command: "listLoadBalancerRules", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 431}, ""},
		"members, and no list":   {simulator.Fault{Command: "listLoadBalancerRules", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 431}, "cloudstack assignToLoadBalancerRule: Failed to assign load balancer rule (code 530)"},
		"tags of rules are late": {simulator.Fault{Command: "createTags", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}, ""},
	} {
		parallel(t, name, func(t *testing.T) {
			env := newEnv(t)
			env.create("web", []int{80, 81, 82})
			var once sync.Once
			var stop []func()
			env.watch(func(command string) {
				if command == "createTags" { // of the address: what comes before it has an effect of its own
					once.Do(func() {
						stop = append(stop, env.Inject(tc.fault))
						if name == "members, and no list" {
							stop = append(stop, env.Inject(simulator.Fault{Command: "assignToLoadBalancerRule", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}))
						}
					})
				}
			})
			err := env.sync("web")
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
			} else {
				require.NoError(t, err)
			}
			for _, f := range stop {
				f()
			}
			env.mustSync("web")
			env.round(0)
			rules := grep(env.dump(), webLB)
			assert.Len(t, rules, 3)
			for _, rule := range rules {
				assert.Contains(t, rule, "[w1 w2]")
			}
			require.NoError(t, env.remove("web"))
			assert.Equal(t, env.before, env.dump())
		})
	}
}

// Many Services at once with rate-limit = auto: a server that throttles refuses no call, and one that does not is not
// held back.
func TestAutomaticRateLimit(t *testing.T) {
	t.Parallel()
	const services = 50
	for name, tc := range map[string]struct {
		settings string
		most     time.Duration // that the Services take
	}{
		"throttled":     {"settings: {api.throttling.enabled: 'true'}\n", 50 * time.Second},
		"by the minute": {"settings: {api.throttling.enabled: 'true', api.throttling.max: '600', api.throttling.interval: '60'}\n", 100 * time.Second},
		"free":          {"", 12 * time.Second},
	} {
		parallel(t, name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refused atomic.Int64
				env := newEnv(t, withNodes(2), func(env *serviceEnv, w *string) {
					var err error
					env.latency, err = simulator.Profile("simulator")
					require.NoError(t, err)
					env.auto = true
					env.look = func(_ url.Values, res *http.Response) {
						if res.StatusCode == http.StatusTooManyRequests {
							refused.Add(1)
						}
					}
					*w = strings.Replace(*w, "zones:\n", tc.settings+"zones:\n", 1)
				})
				time.Sleep(time.Minute) // the test itself has made calls as the account
				env.createMany(services, someOrTen(2))
				begun := time.Now()
				env.setNodes(nodesUpTo(2))
				env.noticed()
				env.each(services, env.attempt)
				took := time.Since(begun)
				require.Zero(t, refused.Load())
				require.LessOrEqual(t, took, tc.most)
				require.Equal(t, 1, env.Ledger().Count("listCapabilities"))
				t.Logf("%s: %d calls, %d polls", took, len(env.calls()), env.Ledger().Count(testenv.Polls...))
			})
		})
	}
}

// Three firewall rules take at most 1.0 s over the time of one: CloudStack lets one that is submitted while the job of the one
// before runs wait for 5 s.
func TestBudgetOfFirewallRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took := func(rules int, ports ...int) time.Duration {
			env := newEnv(t, func(env *serviceEnv, _ *string) {
				var err error
				env.latency, err = simulator.Profile("simulator")
				require.NoError(t, err)
				env.auto = true
			})
			env.create("web", ports)
			begun := time.Now()
			env.mustSync("web")
			took := time.Since(begun)
			require.Len(t, env.firewallAt(env.ip("web")), rules)
			return took
		}
		one, three := took(1, 80, 81, 82), took(3, 80, 443, 8443)
		t.Logf("one: %s, three: %s", one, three)
		require.LessOrEqual(t, three, one+time.Second)
	})
}
