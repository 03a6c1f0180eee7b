// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

func TestFaultText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"createLoadBalancerRule:job-fails:nth=3",
		"*:delay:p=0.25,delay=2s",
		"list*:error:count=2,code=503,cserrorcode=9999,text=a, b: c=d",
		"login:cut-before:caller=admin",
		"associateIpAddress:capacity",
		"assign*:restart:delay=20s",
	} {
		f, err := ParseFault(text)
		require.NoError(t, err, text)
		require.Equal(t, text, f.String())
	}
}

func TestWrongFaults(t *testing.T) {
	cases.Run(t, "testdata/fault-errors.yaml", func(t *testing.T, text, want string) {
		_, err := ParseFault(text)
		require.ErrorContains(t, err, want)
	})
}

// TestFaultSelection counts which calls a fault hits.
func TestFaultSelection(t *testing.T) {
	cases.Run(t, "testdata/fault-hits.yaml", func(t *testing.T, text string, want []int) {
		w := ExampleWorld()
		w.Faults = []string{text}
		h := start(t, Options{World: w})
		got := []int{}
		for n := 1; n <= 5; n++ {
			if h.call(owner, "listZones").status != http.StatusOK {
				got = append(got, n)
			}
		}

		require.Equal(t, want, got)
		require.Equal(t, len(want), h.sim.Faults()[0].Hits)
	})
}

func TestFaultProbability(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (out []bool) {
		h := start(t, Options{Seed: seed})
		h.sim.Inject(Fault{Command: "listZones", Kind: FaultErrorBefore, Probability: 0.5})
		for range 64 {
			out = append(out, h.call(owner, "listZones").status == http.StatusOK)
		}
		return out
	}
	first, again, other := run(1), run(1), run(2)
	require.Equal(t, first, again, "a seed repeats its sequence")
	require.NotEqual(t, first, other)
}

// cut sends a signed call and checks that the connection closes without an answer.
func (h *env) cut(user, command string, pairs ...string) {
	h.t.Helper()
	// The call is a POST, because Go's HTTP client repeats a GET whose connection breaks.
	resp, err := http.Post(h.url+"?"+h.signed(user, command, pairs...).Encode(), "text/plain", nil)
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(h.t, err, "the call was answered")
}

func TestFaultDelay(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	defer h.sim.Inject(Fault{Kind: FaultDelay, Delay: time.Hour})()
	done := make(chan int, 1)
	go func() { done <- h.call(owner, "listZones").status }()
	require.Eventually(t, h.clock.HasWaiters, time.Minute, time.Millisecond)
	require.Empty(t, done)
	h.clock.Step(time.Hour)
	require.Equal(t, 200, <-done)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.ok(h.call(owner, "listZones", "name", "zone-1"))
	h.call(owner, "createZone")
	h.login("admin", "password", "")
	calls := h.sim.Ledger().Calls()
	require.Len(t, calls, 3)
	require.Equal(t,
		Call{
			Seq:     1,
			At:      h.clock.Now(),
			Command: "listZones",
			Caller:  owner,
			Params:  map[string]string{"command": "listZones", "response": "json", "name": "zone-1"},
			Status:  200,
		}, calls[0])

	require.Equal(t, 432, calls[1].ErrorCode)
	for _, c := range calls {
		require.NotContains(t, c.Params, "signature")
		require.NotContains(t, c.Params, "apikey")
		require.NotContains(t, c.Params, "password")
	}

	require.Equal(t, 2, h.sim.Ledger().Count("listZones", "createZone"))
	require.Equal(t, 3, h.sim.Ledger().Count())
	commands := func(calls []Call) (out []string) {
		for _, c := range calls {
			out = append(out, c.Command)
		}
		return out
	}

	h.clock.Step(time.Minute)
	h.call(owner, "listNetworks")
	require.Equal(t, []string{"listNetworks"}, commands(h.sim.Ledger().Newest(h.clock.Now(), 0)))
	require.Equal(t, []string{"listNetworks", "login"}, commands(h.sim.Ledger().Newest(h.clock.Now(), 2)))
	require.Len(t, h.sim.Ledger().Newest(time.Time{}, 0), 4)
	h.sim.Ledger().Reset()
	require.Empty(t, h.sim.Ledger().Calls())
}

func TestSpeed(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{Job: time.Second}})
	ends := func(after time.Duration) {
		t.Helper()
		job := h.ok(h.call(owner, "associateIpAddress", "networkid", h.network())).body["jobid"].(string)
		status := func() any { return h.ok(h.call(owner, "queryAsyncJobResult", "jobid", job)).body["jobstatus"] }
		h.clock.Step(after - time.Millisecond)
		require.EqualValues(t, 0, status())
		h.clock.Step(time.Millisecond)
		require.EqualValues(t, 1, status())
	}
	ends(time.Second)
	require.NoError(t, h.sim.SetSpeed(0.1))
	require.InDelta(t, 0.1, h.sim.Speed(), 0)
	ends(10 * time.Second)
	require.NoError(t, h.sim.SetSpeed(2))
	ends(500 * time.Millisecond)
	require.NoError(t, h.sim.SetSpeed(1))
	ends(time.Second)
	for _, speed := range []float64{0, -1, 0.001, 1000, math.NaN(), math.Inf(1)} {
		require.ErrorContains(t, h.sim.SetSpeed(speed), "between 0.01 and 100")
	}

	instant := start(t, Options{})
	require.NoError(t, instant.sim.SetSpeed(0.5))
	measured, err := Profile("simulator")
	require.NoError(t, err)
	require.Equal(t, 2*measured.CallTime("listZones"), instant.sim.server.Profile().CallTime("listZones"))
	require.Equal(t, 2*measured.JobTime("assignToLoadBalancerRule"),
		instant.sim.server.Profile().JobTime("assignToLoadBalancerRule"))
}

const owner = "k8s-owner"

func (h *env) network() string { return h.netID("k8s-net") }

func (h *env) legacyIP() string { return h.ipID("203.0.113.20") }

// TestCreatesOnOneAddressWait: create calls for the same address wait for each other and retry every 5 s. Calls for
// other addresses do not wait.
func TestCreatesOnOneAddressWait(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{LockRetry: 5 * time.Second}})
	ip := h.legacyIP()
	release, err := h.sim.locks.Acquire(t.Context(), "ip/"+ip)
	require.NoError(t, err)
	done := make(chan int, 1)
	go func() {
		done <- h.call(owner, "createLoadBalancerRule", "publicipid", ip, "name", "n", "algorithm", "source",
			"publicport", "1", "privateport", "1").status
	}()

	require.Eventually(t, h.clock.HasWaiters, time.Minute, time.Millisecond)
	release() // the address is free at once, but the waiter still sleeps
	h.clock.Step(4 * time.Second)
	require.Empty(t, done)
	h.clock.Step(time.Second)
	require.Eventually(t, func() bool { // the create phase itself holds the row for a moment
		h.clock.Step(createTime)
		return len(done) == 1
	}, time.Minute, time.Millisecond)

	require.Equal(t, http.StatusOK, <-done)
}

// TestFirewallRulesOfOneAddressWaitForEachOther: a rule that is submitted before the job of the previous one has ended
// waits for 5 s. A rule that is submitted after that job, or for another address, does not wait.
func TestFirewallRulesOfOneAddressWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"simulator", "production"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			profile, err := wire.NamedProfile(name)
			require.NoError(t, err)
			h := start(t, Options{Latency: profile})
			ip := h.legacyIP()
			job := profile.JobTime("createFirewallRule")
			created := make(chan time.Duration, 1)

			// create sends a call and moves the clock until its answer is there.
			create := func(port string) time.Duration {
				begin := h.clock.Now()
				go func() {
					h.ok(h.call(owner, "createFirewallRule", "ipaddressid", ip, "protocol", "udp", "startport", port))
					created <- h.clock.Since(begin)
				}()

				for {
					select {
					case took := <-created:
						return took
					default:
					}

					if h.clock.HasWaiters() {
						h.clock.Step(time.Millisecond)
					}
				}
			}

			quick := profile.CallTime("createFirewallRule") + createTime + 2*time.Millisecond
			require.LessOrEqual(t, create("1"), quick)
			second := create("2")
			require.Greater(t, second, 5*time.Second)
			require.Less(t, second, 5*time.Second+2*quick)
			h.clock.Step(job)
			require.LessOrEqual(t, create("3"), quick)
		})
	}
}

func TestSamePortAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	ip := h.legacyIP()
	var wg sync.WaitGroup
	got := make(chan int, 8)
	for range 8 {
		wg.Go(func() {
			got <- h.call(owner, "createLoadBalancerRule", "publicipid", ip, "name", "n", "algorithm", "source",
				"publicport", "1", "privateport", "1").status
		})
	}

	wg.Wait()
	close(got)
	count := map[int]int{}
	for s := range got {
		count[s]++
	}

	require.Equal(t, map[int]int{200: 1, 537: 7}, count)
}

// TestProfilesNameCommands: a profile names only existing commands; a misspelt one would have no effect.
func TestProfilesNameCommands(t *testing.T) {
	t.Parallel()
	cat, err := catalogue.Load()
	require.NoError(t, err)
	for _, name := range []string{"simulator", "production"} {
		p, err := wire.NamedProfile(name)
		require.NoError(t, err)
		for _, m := range []map[string]time.Duration{p.Calls, p.Jobs} {
			for command := range m {
				require.Contains(t, cat.ByName, command, "%s: no such command", name)
			}
		}
	}
}
