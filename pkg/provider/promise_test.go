// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// scenario is a change of a Service. A fault is injected at every call that the change makes.
type scenario struct {
	name  string
	world []envOption                 // on top of the usual one
	setup func(env *serviceEnv)       // without faults
	act   func(env *serviceEnv) error // with a fault; repeated until it succeeds
}

// on is the set of nodes of a scenario's syncs.
func on(nodes ...string) func(*serviceEnv) error {
	return func(env *serviceEnv) error { return env.sync("web", nodes...) }
}

// created makes a Service; deleted serves one and removes it.
func created(name string, ports []int, changes ...func(*corev1.Service)) scenario {
	return scenario{name: name, setup: func(env *serviceEnv) { env.create("web", ports, changes...) }, act: on("w1", "w2")}
}

func deleted(name string, ports []int, changes ...func(*corev1.Service)) scenario {
	return scenario{name: name, setup: func(env *serviceEnv) { env.create("web", ports, changes...); env.mustSync("web") }, act: removeWeb}
}

// changedTo serves a Service and changes it.
func changedTo(name string, ports []int, change func(*corev1.Service), nodes ...string) scenario {
	return scenario{
		name: name,
		setup: func(env *serviceEnv) {
			env.create("web", ports)
			env.mustSync("web")
			env.edit("web", change)
		},
		act: on(nodes...),
	}
}

func scenarios() []scenario {
	two := []int{80, 81}
	return append(append(moreScenarios(), forwardScenarios()...),
		created("create 1", someOrTen(1)), created("create 3", someOrTen(3)), deleted("delete 1", someOrTen(1)), deleted("delete 3", someOrTen(3)),
		changedTo("add a port", two, func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81, 82) }, "w1", "w2"),
		changedTo("remove a port", two, func(s *corev1.Service) { s.Spec.Ports = servicePorts(81) }, "w1", "w2"),
		changedTo("node ports", two, func(s *corev1.Service) { s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = 31998, 31999 }, "w1", "w2"),
		changedTo("nodes", two, func(*corev1.Service) {}, "w2", "w3"),
		changedTo("PROXY protocol", two, annotate(annotation.ProxyProtocol, "on"), "w1", "w2"),
		changedTo("tighten", two, annotate(annotation.SourceCIDRs, "10.0.0.0/8,192.168.0.0/16"), "w1", "w2"),
		changedTo("another address", two, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.77" }, "w1", "w2"),
		changedTo("a port out of a range, and a single source", []int{80, 81, 82}, func(s *corev1.Service) {
			s.Spec.Ports = servicePorts(80, 82)
			s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.1/32"}
		}, "w1", "w2"),
		created("create on a held address", []int{443}, at(foreignIP)), deleted("delete from a held address", []int{443}, at(foreignIP)),
		deleted("delete and keep", []int{80}, annotate(annotation.KeepIP, "true")),
		created("stickiness", []int{80}, annotate(annotation.StickinessMethod, "source")),
	)
}

// autoAddresses are what CloudStack gives when it is not asked for an address in particular.
var autoAddresses = func() []string {
	var out []string
	for i := range 20 {
		out = append(out, fmt.Sprintf("203.0.113.%d", 13+i-i/17*17), fmt.Sprintf("10.2.2.%d", i+2))
	}
	return out
}()

// aclNumber is the number of an item of ours: which of the free ones it takes depends on what stood there before.
var aclNumber = regexp.MustCompile(`^(acl acl-1) [6-9] `)

// forwardedTo is the VM of a port forwarding: which node it is depends on ids.
var forwardedTo = regexp.MustCompile(`^(forwarding .*) [a-z][0-9]$`)

// maskAddresses makes states comparable in which an automatic address came out differently.
func maskAddresses(dump []string) []string {
	out := make([]string, len(dump))
	for i, line := range dump {
		for _, auto := range autoAddresses {
			line = strings.ReplaceAll(line, " "+auto+" ", " AUTO ")
		}
		line = aclNumber.ReplaceAllString(line, "$1 N ")
		line = forwardedTo.ReplaceAllString(line, "$1 NODE")
		out[i] = line
	}
	slices.Sort(out)
	return out
}

// point is a fault at one call.
type point struct {
	command string
	nth     int
	kind    simulator.FaultKind
	kill    bool
}

func (p point) String() string {
	kinds := map[simulator.FaultKind]string{
		simulator.FaultErrorBefore: "error before", simulator.FaultLostAnswer: "answer lost", simulator.FaultCutBefore: "cut before", simulator.FaultJobFails: "job fails",
	}
	s := fmt.Sprintf("%s of %s %d", kinds[p.kind], p.command, p.nth)
	if p.kill {
		s += ", killed"
	}
	return s
}

// points returns the faults to inject, by the calls of a run without faults.
func points(ledger []simulator.Call) []point {
	seen := map[string]int{}
	var out []point
	for _, c := range ledger {
		if c.Caller != "ccm" {
			continue
		}
		seen[c.Command]++
		n := seen[c.Command]
		if slices.Contains(testenv.Polls, c.Command) {
			// Killed here, the process leaves jobs under way.
			if n <= 5 {
				out = append(out, point{c.Command, n, simulator.FaultCutBefore, true})
			}
			if n <= 2 {
				out = append(out, point{c.Command, n, simulator.FaultErrorBefore, false})
			}
			continue
		}
		if strings.HasPrefix(c.Command, "list") || strings.HasPrefix(c.Command, "query") {
			// A read has no effect that could be lost.
			out = append(out, point{c.Command, n, simulator.FaultErrorBefore, false}, point{c.Command, n, simulator.FaultCutBefore, true})
			continue
		}
		for _, k := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultJobFails} {
			out = append(out, point{c.Command, n, k, false})
		}
		for _, k := range []simulator.FaultKind{simulator.FaultLostAnswer, simulator.FaultCutBefore} {
			out = append(out, point{c.Command, n, k, false}, point{c.Command, n, k, true})
		}
	}
	return out
}

var pointsTried atomic.Int64

// Whichever call fails, whichever answer is lost, wherever the process is killed: the next syncs converge, nothing is
// left over, and nothing foreign is changed.
func TestPromiseNothingIsLostLeakedOrStolen(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() {
		t.Logf("%d points tried in %d scenarios; clean if nothing failed", pointsTried.Load(), len(scenarios()))
	})
	for _, sc := range scenarios() {
		parallel(t, sc.name, func(t *testing.T) {
			var want, empty []string
			var all []point
			synctest.Test(t, func(t *testing.T) {
				env := newEnv(t, append(sc.world, withSlowJobs)...)
				empty = env.dump()
				sc.setup(env)
				env.reset()
				require.NoError(t, sc.act(env))
				all = points(env.Ledger().Calls())
				want = maskAddresses(env.dump())
			})
			if testing.Short() {
				all = all[:min(len(all), 6)] // all of them in make test; the race detector needs some of each
			}
			for _, p := range all {
				t.Run(p.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testPoint(t, sc, p, want, empty) })
				})
			}
			t.Logf("%s: %d points tried", sc.name, len(all))
			pointsTried.Add(int64(len(all)))
		})
	}
}

// withSlowJobs makes jobs last longer than a poll, so that a process can be killed while they run. Tests with slow jobs
// run in the bubble of a synctest, where that takes no time.
func withSlowJobs(env *serviceEnv, _ *string) {
	env.latency = simulator.LatencyProfile{Job: 500 * time.Millisecond / 50}
}

// testPoint runs a scenario with one fault, and then without faults until it succeeds.
func testPoint(t *testing.T, sc scenario, p point, want, empty []string) {
	env := newEnv(t, append(sc.world, withSlowJobs)...)
	sc.setup(env)
	remove := func() {}
	if p.kill {
		env.killer.arm(p.command, p.nth, p.kind == simulator.FaultLostAnswer)
	} else {
		remove = env.Inject(simulator.Fault{Command: p.command, Nth: p.nth, Kind: p.kind})
	}
	err := sc.act(env)
	for _, f := range env.Faults() {
		require.Positive(t, f.Hits, "%s was not hit", f.Fault)
	}
	if p.kill {
		require.True(t, env.killer.isDead(), "the call at which the process is killed was not made")
		require.Error(t, err, "a dead process does not succeed")
		env.restart()
		time.Sleep(time.Second) // jobs under way end
		env.advance(20 * time.Second)
	}
	remove()
	if err != nil || p.kill {
		require.NoError(t, env.repeat(sc.act), "never succeeds")
	}
	// One more sync later, when the grace of lost answers is over.
	env.advance(10 * time.Minute)
	require.NoError(t, env.repeat(sc.act), "later")
	assert.Equal(t, want, maskAddresses(env.dump()), "converged")
	assert.Empty(t, records(env).Pending, "nothing is pending")
	if strings.Contains(sc.name, "keep") {
		return
	}
	require.NoError(t, env.repeat(removeWeb), "can be deleted")
	if strings.Contains(sc.name, "shared") {
		require.NoError(t, env.repeat(func(env *serviceEnv) error { return env.remove("mail") }), "the other one too")
	}
	assert.Equal(t, empty, env.dump(), "nothing is left over")
}

func removeWeb(env *serviceEnv) error { return env.remove("web") }

func records(env *serviceEnv) annotation.Records {
	r, err := annotation.ParseRecords(env.get("web").Annotations)
	require.NoError(env.t, err)
	return r
}

// Every call is one that the default User role may make: the account of the tests has that role, and the
// list of commands that the installer's own role allows is complete.
func TestPromiseLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		env := newEnv(t, sc.world...)
		sc.setup(env)
		require.NoError(t, sc.act(env))
		env.restart()
		require.NoError(t, sc.act(env))
		for _, c := range env.Ledger().Calls() {
			if c.Caller == "ccm" {
				assert.Contains(t, RequiredCommands, c.Command, sc.name)
				assert.NotEqual(t, 432, c.ErrorCode, "%s: %s", sc.name, c.Command)
			}
		}
	}
}

// No key, signature or other secret comes out in errors, Events, annotations or logs.
func TestPromiseNoSecretLeaves(t *testing.T) {
	var log bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	defer func() { klog.SetOutput(nil); klog.LogToStderr(true) }()
	var out strings.Builder
	for _, f := range []simulator.Fault{
		{Kind: simulator.FaultErrorBefore, HTTPStatus: 401, Text: "unable to verify user credentials and/or request signature"},
		{Kind: simulator.FaultErrorBefore, HTTPStatus: 530, Text: "at apiKey=" + testAPIKey + "&signature=abc"},
		{Kind: simulator.FaultCutBefore},
		{Kind: simulator.FaultLostAnswer},
	} {
		for _, command := range []string{"listVirtualMachines", "listLoadBalancerRules", "associateIpAddress", "createLoadBalancerRule"} {
			env := newEnv(t)
			env.create("web", []int{80})
			f.Command = command
			remove := env.Inject(f)
			if err := env.sync("web", "w1"); err != nil {
				out.WriteString(err.Error() + "\n")
			}
			remove()
			for _, e := range env.events() {
				out.WriteString(e + "\n")
			}
			fmt.Fprintln(&out, env.get("web").Annotations)
		}
	}
	klog.Flush()
	klog.SetOutput(io.Discard) // who still runs writes no more to what is read now
	out.WriteString(log.String())
	require.NotEmpty(t, out.String())
	for _, secret := range []string{testSecret, testAPIKey, "signature=abc"} {
		assert.NotContains(t, strings.ToLower(out.String()), strings.ToLower(secret))
	}
}

// withProject moves the cluster into a project.
func withProject(env *serviceEnv, w *string) { env.project, *w = projectID, projectIn(*w) }

// moreScenarios are those on other networks than the isolated one of the account.
func moreScenarios() []scenario {
	create := func(env *serviceEnv) { env.create("web", []int{80, 81}) }
	in := func(world envOption, kind string, nodes []string, setup func(*serviceEnv)) []scenario {
		sync := on(nodes...)
		made := func(env *serviceEnv) {
			setup(env)
			env.mustSync("web", nodes...)
		}
		changed := func(change func(*corev1.Service)) func(*serviceEnv) {
			return func(env *serviceEnv) { made(env); env.edit("web", change) }
		}
		all := []envOption{world}
		return []scenario{
			{kind + ": create", all, setup, sync},
			{kind + ": delete", all, made, removeWeb},
			{kind + ": ports", all, changed(func(s *corev1.Service) { s.Spec.Ports = servicePorts(81, 443) }), sync},
			{kind + ": ranges", all, changed(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "172.16.0.0/12"} }), sync},
			{kind + ": a node leaves", all, made, on(nodes[1])},
		}
	}
	out := in(withVPC, "VPC", []string{"v1", "v2"}, create)
	out = append(out, in(withVPC, "internal", []string{"i1", "i2"}, func(env *serviceEnv) { env.create("web", []int{80, 81}, annotate(annotation.Internal, "true")) })...)
	out = append(out, in(withProject, "project", []string{"p1", "p2"}, create)...)
	return append(out,
		scenario{
			name: "shared: the second joins",
			setup: func(env *serviceEnv) {
				sharing(env)
				env.edit("mail", func(s *corev1.Service) { s.Spec.Ports = servicePorts(25, 587) })
			},
			act: func(env *serviceEnv) error { return env.sync("mail") },
		},
		scenario{name: "shared: the first leaves", setup: func(env *serviceEnv) { sharing(env) }, act: removeWeb},
	)
}
