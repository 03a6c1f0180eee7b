// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// TestSoak runs 64 clients at once, each with its own addresses, while others list, log in, change VMs, inject faults,
// and read objects and the ledger. Finally it checks that nothing is left.
func TestSoak(t *testing.T) {
	t.Parallel()
	const clients = 64
	rounds := 4
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
			for round := range rounds {
				h.aside(n, round, expect)
				ip := expect(h.call(owner, "associateIpAddress", "networkid", net), 200).str("id")
				if failed.Load() != nil {
					return
				}

				// The address accepts rules only after its own job has ended. Any further call ends the job.
				rule := expect(h.call(owner, "createLoadBalancerRule", "publicipid", ip, "name",
					fmt.Sprintf("lb-%d", n), "algorithm", "roundrobin",
					"publicport", "80", "privateport", "30080", "protocol", "tcp"), 200).str("id")
				expect(h.call(owner, "assignToLoadBalancerRule", "id", rule, "virtualmachineids", vm), 200)
				expect(h.call(owner, "createTags", "resourceids", ip+","+rule, "resourcetype", "LoadBalancer",
					"tags[0].key", "k", "tags[0].value", "v"), 200)
				expect(h.call(owner, "listVirtualMachines", "details", "nics,servoff"), 200)
				expect(h.call("admin", "listLoadBalancerRules", "listall", "true"), 200)
				expect(h.call(owner, "listTags"), 200)

				// createLoadBalancerRule has already created this firewall rule: openfirewall is true by default.
				expect(h.call(owner, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "80"),
					wire.CodeConflict)
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
	require.Equal(t, before,
		h.call(owner, "listPublicIpAddresses", "allocatedonly", "false", "state", store.IPAllocated).body["count"])
	require.Len(t, h.call(owner, "listLoadBalancerRules").items("loadbalancerrule"), 2)
	require.Len(t, h.call(owner, "listFirewallRules").items("firewallrule"), 2)
	require.Empty(t, h.sim.st.Due)
}

// aside makes calls that are not about addresses, other ones for each client and round.
func (h *env) aside(client, round int, expect func(answer, int) answer) {
	commands, err := loadCommands()
	if err != nil {
		panic(err)
	}

	switch (client + round) % 6 {
	case 0:
		for i := range commands.cat.APIs {
			if a, cmd := &commands.cat.APIs[i], commands.byName[commands.cat.APIs[i].Name]; cmd != nil &&
				cmd.Run != nil &&
				!cmd.Write &&
				strings.HasPrefix(a.Name, "list") &&
				a.Name != "listApis" {
				h.root(a.Name, "listall", "true")
			}
		}

	case 1:
		login, session := h.login("admin", "password", "")
		expect(login, 200)
		expect(session("listUsers", "listall", "true"), 200)
		expect(session("logout"), 200)

	case 2:
		remove := h.sim.Inject(Fault{Command: "list*", Caller: "nobody", Kind: FaultErrorBefore, Probability: 0.5})
		expect(h.call(owner, "listZones"), 200)
		remove()

	case 3:
		h.sim.Objects()
	case 4:
		h.sim.Ledger().Find("list*", owner)
		h.sim.Faults()
		h.sim.Users()

	case 5:
		vm := id(h.call(owner, "listVirtualMachines", "name", "demo-cp-1").items("virtualmachine")[0])
		h.call(owner, "stopVirtualMachine", "id", vm) // other clients do the same, so either call may fail
		h.call(owner, "startVirtualMachine", "id", vm)
	}
}
