// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// cut sends a signed call and demands that the connection breaks without an answer.
func (h *harness) cut(command string, pairs ...string) {
	h.t.Helper()
	// POST: a client repeats a broken GET on its own.
	resp, err := http.Post(h.url+"?"+h.signed(owner, command, pairs...).Encode(), "text/plain", nil)
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(h.t, err, "the call was answered")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	net := h.network()
	owned := func() int { return len(h.ok(h.call(owner, "listPublicIpAddresses")).items("publicipaddress")) }
	before := owned()

	h.sim.Inject(Fault{Command: "associateIpAddress", Nth: 2, Kind: FaultErrorBefore, HTTPStatus: 503, Text: "in maintenance"})
	h.done(owner, h.call(owner, "associateIpAddress", "networkid", net))
	h.fails(h.call(owner, "associateIpAddress", "networkid", net), 503, wire.CSGeneric, "in maintenance")
	h.done(owner, h.call(owner, "associateIpAddress", "networkid", net))
	require.Equal(t, before+2, owned())

	remove := h.sim.Inject(Fault{Command: "associateIpAddress", Kind: FaultCutBefore})
	h.cut("associateIpAddress", "networkid", net)
	require.Equal(t, before+2, owned(), "cut before: no effect")
	remove()
	remove = h.sim.Inject(Fault{Command: "associateIpAddress", Kind: FaultLostAnswer})
	h.cut("associateIpAddress", "networkid", net)
	remove()
	require.Equal(t, before+3, owned(), "lost answer: the effect is there")

	remove = h.sim.Inject(Fault{Command: "associateIpAddress", Kind: FaultJobFails, Text: "Failed to associate IP address"})
	h.broken(owner, h.call(owner, "associateIpAddress", "networkid", net), 530, "Failed to associate IP address")
	remove()
	require.Equal(t, before+3, owned())
	require.Empty(t, h.call(owner, "listPublicIpAddresses", "state", store.IPAllocating, "allocatedonly", "false").items("publicipaddress"), "a failed job frees the address")

	remove = h.sim.Inject(Fault{Command: "createLoadBalancerRule", Kind: FaultJobFails})
	h.broken(owner, h.call(owner, "createLoadBalancerRule", "publicipid", h.legacyIP(), "name", "gone", "algorithm", "source", "publicport", "1", "privateport", "1"), 530, "Failed to create load balancer rule")
	remove()
	require.Empty(t, h.call(owner, "listLoadBalancerRules", "name", "gone").items("loadbalancerrule"), "a failed job removes the rule")
	require.Len(t, h.call(owner, "listFirewallRules").items("firewallrule"), 2, "and its firewall rule")
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
	require.Equal(t, Call{Seq: 1, Command: "listZones", Caller: owner, Params: map[string]string{"command": "listZones", "response": "json", "name": "zone-1"}, Status: 200}, calls[0])
	require.Equal(t, 432, calls[1].ErrorCode)
	for _, c := range calls {
		require.NotContains(t, c.Params, "signature")
		require.NotContains(t, c.Params, "apikey")
		require.NotContains(t, c.Params, "password")
	}
	require.Equal(t, 2, h.sim.Ledger().Count("listZones", "createZone"))
	require.Equal(t, 3, h.sim.Ledger().Count())
	h.sim.Ledger().Reset()
	require.Empty(t, h.sim.Ledger().Calls())
}
