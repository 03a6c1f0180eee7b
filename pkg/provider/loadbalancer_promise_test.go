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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/simulator"
)

// scenario is a piece of a Service's life that is disturbed at every call it makes.
type scenario struct {
	name  string
	world []bedOption        // on top of the usual one
	setup func(b *bed)       // undisturbed
	act   func(b *bed) error // disturbed, and repeated until it succeeds
}

func scenarios() []scenario {
	createN := func(n int) scenario {
		return scenario{
			name:  fmt.Sprintf("create %d", n),
			setup: func(b *bed) { b.service(someOrTen(n)) },
			act:   func(b *bed) error { return b.sync("w1", "w2") },
		}
	}
	deleteN := func(n int) scenario {
		return scenario{
			name:  fmt.Sprintf("delete %d", n),
			setup: func(b *bed) { b.service(someOrTen(n)); b.mustSync("w1", "w2") },
			act:   func(b *bed) error { return b.remove() },
		}
	}
	changed := func(name string, nodes []string, change func(*corev1.Service), setup ...func(*corev1.Service)) scenario {
		return scenario{
			name: name,
			setup: func(b *bed) {
				b.service([]int{80, 81}, setup...)
				b.mustSync("w1", "w2")
				b.change(change)
			},
			act: func(b *bed) error { return b.sync(nodes...) },
		}
	}
	both := []string{"w1", "w2"}
	return append(moreScenarios(), []scenario{
		createN(1), createN(3), deleteN(1), deleteN(3),
		changed("add a port", both, func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81, 82) }),
		changed("remove a port", both, func(s *corev1.Service) { s.Spec.Ports = servicePorts(81) }),
		changed("node ports", both, func(s *corev1.Service) { s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = 31998, 31999 }),
		changed("nodes", []string{"w2", "w3"}, func(*corev1.Service) {}),
		changed("PROXY protocol", both, annotate(annotation.ProxyProtocol, "on")),
		changed("tighten", both, annotate(annotation.SourceCIDRs, "10.0.0.0/8,192.168.0.0/16")),
		changed("another address", both, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.77" }),
		{
			name:  "create on a held address",
			setup: func(b *bed) { b.service([]int{443}, annotate(annotation.Address, foreignIP)) },
			act:   func(b *bed) error { return b.sync("w1", "w2") },
		},
		{
			name: "delete from a held address",
			setup: func(b *bed) {
				b.service([]int{443}, annotate(annotation.Address, foreignIP))
				b.mustSync("w1", "w2")
			},
			act: func(b *bed) error { return b.remove() },
		},
		{
			name: "delete and keep",
			setup: func(b *bed) {
				b.service([]int{80}, annotate(annotation.KeepIP, "true"))
				b.mustSync("w1", "w2")
			},
			act: func(b *bed) error { return b.remove() },
		},
	}...)
}

// repeat does what the framework's queue does, with a clock that goes on.
func (b *bed) repeat(act func(*bed) error) error {
	var err error
	for range 12 {
		if err = act(b); err == nil {
			return nil
		}
		b.clock.SetTime(b.clock.Now().Add(20 * time.Second))
	}
	return err
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

// maskAddresses makes states comparable in which an automatic address came out differently.
func maskAddresses(dump []string) []string {
	out := make([]string, len(dump))
	for i, line := range dump {
		for _, auto := range autoAddresses {
			line = strings.ReplaceAll(line, " "+auto+" ", " AUTO ")
		}
		line = aclNumber.ReplaceAllString(line, "$1 N ")
		out[i] = line
	}
	slices.Sort(out)
	return out
}

// point is one disturbance.
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

// points are all disturbances of the calls that the undisturbed run made.
func points(ledger []simulator.Call) []point {
	seen := map[string]int{}
	var out []point
	for _, c := range ledger {
		if c.Caller != "ccm" {
			continue
		}
		seen[c.Command]++
		n := seen[c.Command]
		if slices.Contains(pollCommands, c.Command) {
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

// Whatever call fails, whatever answer is lost, wherever the process dies: the
// next syncs converge, nothing is left over, nothing foreign is touched.
func TestPromiseNothingIsLostLeakedOrStolen(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() {
		t.Logf("%d points tried in %d scenarios; clean if nothing failed", pointsTried.Load(), len(scenarios()))
	})
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			clean := newBed(t, sc.world...)
			empty := clean.dump()
			sc.setup(clean)
			clean.reset()
			require.NoError(t, sc.act(clean))
			all := points(clean.sim.Ledger().Calls())
			want := maskAddresses(clean.dump())
			if testing.Short() {
				all = all[:min(len(all), 12)]
			}
			var group sync.WaitGroup
			gate := make(chan struct{}, 16) // they mostly wait
			for _, p := range all {
				gate <- struct{}{}
				group.Go(func() {
					defer func() { <-gate }()
					t.Run(p.String(), func(t *testing.T) { disturb(t, sc, p, want, empty) })
				})
			}
			group.Wait()
			t.Logf("%s: %d points tried", sc.name, len(all))
			pointsTried.Add(int64(len(all)))
		})
	}
}

// disturb runs a scenario with one disturbance, and then without until it is done.
func disturb(t *testing.T, sc scenario, p point, want, empty []string) {
	b := newBed(t, sc.world...)
	sc.setup(b)
	remove := func() {}
	if p.kill {
		b.killer.arm(p.command, p.nth, p.kind == simulator.FaultLostAnswer)
	} else {
		remove = b.sim.Inject(simulator.Fault{Command: p.command, Nth: p.nth, Kind: p.kind})
	}
	err := sc.act(b)
	if p.kill {
		if b.killer.isDead() {
			require.Error(t, err, "a dead process does not succeed")
		}
		b.restart()
		b.clock.SetTime(b.clock.Now().Add(20 * time.Second))
	}
	remove()
	if err != nil || p.kill {
		require.NoError(t, b.repeat(sc.act), "never succeeds")
	}
	// One more sync later, when the grace of lost answers is over.
	b.clock.SetTime(b.clock.Now().Add(10 * time.Minute))
	require.NoError(t, b.repeat(sc.act), "later")
	assert.Equal(t, want, maskAddresses(b.dump()), "converged")
	assert.Empty(t, records(b).Pending, "nothing is pending")
	if strings.Contains(sc.name, "keep") {
		return
	}
	require.NoError(t, b.repeat(func(b *bed) error { return b.remove() }), "can be deleted")
	if strings.Contains(sc.name, "shared") {
		require.NoError(t, b.repeat(func(b *bed) error { return b.removeAs("mail") }), "the other one too")
	}
	assert.Equal(t, empty, b.dump(), "nothing is left over")
}

func records(b *bed) annotation.Records {
	r, err := annotation.ParseRecords(b.get().Annotations)
	require.NoError(b.t, err)
	return r
}

// Every call is one that the default User role may make: the account of the tests has that role, and the
// list of commands that the installer's own role allows is complete.
func TestPromiseLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		b := newBed(t, sc.world...)
		sc.setup(b)
		require.NoError(t, sc.act(b))
		b.restart()
		require.NoError(t, sc.act(b))
		for _, c := range b.sim.Ledger().Calls() {
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
			b := newBed(t)
			b.service([]int{80})
			f.Command = command
			remove := b.sim.Inject(f)
			if err := b.sync("w1"); err != nil {
				out.WriteString(err.Error() + "\n")
			}
			remove()
			for _, e := range b.events() {
				out.WriteString(e + "\n")
			}
			fmt.Fprintln(&out, b.get().Annotations)
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
