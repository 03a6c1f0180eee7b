// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

// TestSoak lets 32 clients work at once, each on addresses of its own, and looks whether anything is left over.
func TestSoak(t *testing.T) {
	t.Parallel()
	const clients = 32
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	w := ExampleWorld()
	w.Accounts[1].Limits = map[string]int64{"publicIPs": -1}
	h := start(t, Options{World: w, Clock: clock.RealClock{}})
	net := h.network()
	vm := id(h.first(h.call(owner, "listVirtualMachines"), "virtualmachine"))
	before := h.call(owner, "listPublicIpAddresses").body["count"]
	var failed atomic.Pointer[string]
	expect := func(a answer, status int) answer {
		if a.status != status {
			s := fmt.Sprintf("status %d instead of %d: %s", a.status, status, a.raw)
			failed.CompareAndSwap(nil, &s)
		}
		return a
	}
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			for range rounds {
				ip := expect(h.call(owner, "associateIpAddress", "networkid", net), 200).str("id")
				if failed.Load() != nil {
					return
				}
				// The address's own job must have ended before it takes rules; any next call ends it.
				rule := expect(h.call(owner, "createLoadBalancerRule", "publicipid", ip, "name", fmt.Sprintf("lb-%d", n), "algorithm", "roundrobin",
					"publicport", "80", "privateport", "30080", "protocol", "tcp"), 200).str("id")
				expect(h.call(owner, "assignToLoadBalancerRule", "id", rule, "virtualmachineids", vm), 200)
				expect(h.call(owner, "createTags", "resourceids", ip+","+rule, "resourcetype", "LoadBalancer", "tags[0].key", "k", "tags[0].value", "v"), 200)
				expect(h.call(owner, "listVirtualMachines", "details", "nics,servoff"), 200)
				expect(h.call("admin", "listLoadBalancerRules", "listall", "true"), 200)
				expect(h.call(owner, "listTags"), 200)
				expect(h.call(owner, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "80"), codeConflict) // openfirewall made one
				expect(h.call(owner, "disassociateIpAddress", "id", ip), 200)
				h.sim.Ledger().Count("listTags")
			}
		})
	}
	wg.Wait()
	if s := failed.Load(); s != nil {
		t.Fatal(*s)
	}
	h.call(owner, "listZones") // ends the last jobs
	require.Equal(t, before, h.call(owner, "listPublicIpAddresses", "allocatedonly", "false", "state", ipAllocated).body["count"])
	require.Len(t, h.call(owner, "listLoadBalancerRules").items("loadbalancerrule"), 2)
	require.Len(t, h.call(owner, "listFirewallRules").items("firewallrule"), 2)
	require.Empty(t, h.sim.st.due)
}
