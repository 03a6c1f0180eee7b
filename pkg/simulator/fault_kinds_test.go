// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/dump"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestFaultText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Fault{
		"createLoadBalancerRule:job-fails:nth=3":                       {Command: "createLoadBalancerRule", Kind: FaultJobFails, Nth: 3},
		"*:delay:p=0.25,delay=2s":                                      {Kind: FaultDelay, Probability: 0.25, Delay: 2 * time.Second},
		"list*:error:count=2,code=503,cserrorcode=9999,text=a, b: c=d": {Command: "list*", Kind: FaultErrorBefore, Count: 2, HTTPStatus: 503, CSErrorCode: 9999, Text: "a, b: c=d"},
		"login:cut-before:caller=admin":                                {Command: "login", Kind: FaultCutBefore, Caller: "admin"},
		"associateIpAddress:capacity":                                  {Command: "associateIpAddress", Kind: FaultCapacity},
		"assign*:restart:delay=20s":                                    {Command: "assign*", Kind: FaultRestart, Delay: 20 * time.Second},
	} {
		f, err := ParseFault(text)
		require.NoError(t, err, text)
		require.Equal(t, want, f)
		again, err := ParseFault(f.String())
		require.NoError(t, err, text)
		require.Equal(t, f, again)
	}
	for text, want := range map[string]string{
		"":                                     "write it as COMMAND:KIND",
		"listZones":                            "write it as COMMAND:KIND",
		"listZones:slow":                       `kind "slow" is not known; use one of error, cut-before`,
		"listzones:error":                      `command "listzones": CloudStack has no such command`,
		"fly*:error":                           `command "fly*"`,
		"listZones:job-fails":                  "job-fails has nothing to strike in listZones",
		"listZones:capacity":                   "capacity has nothing to strike",
		"list*:quota":                          "quota has nothing to strike",
		"listZones:delay":                      "delay needs a positive delay",
		"listZones:error:delay=1s":             "error takes no delay",
		"listZones:error:code=200":             "code 200 must lie between 400 and 599",
		"listZones:throttled:code=503":         "throttled takes no code",
		"listZones:throttled:text=x":           "throttled takes no text",
		"listZones:error:nth":                  `option "nth" has no value`,
		"listZones:error:nth=0":                "nth=0 is not a number from 1",
		"listZones:error:p=2":                  "p=2 is not a probability",
		"listZones:delay:delay=2":              "delay=2 is not a positive time",
		"listZones:error:times=2":              `option "times" is not known`,
		"createTags:job-fails:cserrorcode=530": "job-fails takes no cserrorcode",
	} {
		_, err := ParseFault(text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestFaultSelection counts which calls a fault hits.
func TestFaultSelection(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"listZones:error":                     {1, 2, 3, 4, 5},
		"listZones:error:nth=2":               {2},
		"listZones:error:nth=2,count=2":       {2, 3},
		"listZones:error:count=3":             {1, 2, 3},
		"list*:error:caller=k8s-owner,nth=4":  {4},
		"listZones:error:caller=somebody":     nil,
		"listNetworks:error":                  nil,
		"*Zone*:error:count=1":                {1},
		"listZones:error:p=1":                 {1, 2, 3, 4, 5},
		"listZones:error:code=503,text=later": {1, 2, 3, 4, 5},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			w := ExampleWorld()
			w.Faults = []string{text}
			h := start(t, Options{World: w})
			var got []int
			for n := 1; n <= 5; n++ {
				if h.call(owner, "listZones").status != http.StatusOK {
					got = append(got, n)
				}
			}
			require.Equal(t, want, got)
			require.Equal(t, len(want), h.sim.Faults()[0].Hits)
		})
	}
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
	require.Contains(t, first, true)
	require.Contains(t, first, false)
}

func TestFaultAnswers(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	net := h.network()
	arm := func(text string) {
		f, err := ParseFault(text)
		require.NoError(t, err)
		h.sim.faults.Remove(0)
		h.sim.Inject(f)
	}
	arm("*:throttled:delay=1500ms,count=1")
	h.fails(h.call(owner, "listZones"), 429, wire.CSGeneric, "please retry after [1500] ms.")
	arm("*:maintenance")
	h.ok(h.call(owner, "listZones")) // only jobs are refused
	h.fails(h.call(owner, "associateIpAddress", "networkid", net), 503, wire.CSGeneric, "Can not accept new jobs")
	arm("associateIpAddress:quota")
	h.fails(h.call(owner, "associateIpAddress", "networkid", net), wire.CodeAccountLimit, wire.CSAccountLimit, "Maximum number of public IP addresses for account: k8s has been exceeded.")
	arm("associateIpAddress:capacity")
	h.fails(h.call(owner, "associateIpAddress", "networkid", net), wire.CodeCapacity, wire.CSGeneric, "Insufficient address capacity")
	arm("associateIpAddress:job-fails:code=431,text=no luck")
	h.broken(owner, h.call(owner, "associateIpAddress", "networkid", net), 431, "no luck")

	arm("stopVirtualMachine:job-never-ends")
	vm := id(h.first(h.call(owner, "listVirtualMachines"), "virtualmachine"))
	job := h.ok(h.call(owner, "stopVirtualMachine", "id", vm)).str("jobid")
	h.clock.Step(48 * time.Hour) // beyond job.expire.minutes
	require.EqualValues(t, store.JobPending, h.ok(h.call(owner, "queryAsyncJobResult", "jobid", job)).body["jobstatus"])
	require.Equal(t, job, h.first(h.call(owner, "listVirtualMachines", "id", vm), "virtualmachine")["jobid"])
}

// TestRouterRefuses compares with the recorded cases inject.*: what the jobs say and what is left.
func TestRouterRefuses(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	ip := h.legacyIP()
	rule := h.first(h.call(owner, "listLoadBalancerRules"), "loadbalancerrule")
	fw := id(h.first(h.call(owner, "listFirewallRules"), "firewallrule"))
	vm := id(h.first(h.call(owner, "listVirtualMachines", "name", "demo-cp-1"), "virtualmachine"))
	member := id(h.first(h.call(owner, "listLoadBalancerRuleInstances", "id", id(rule)), "loadbalancerruleinstance"))
	h.sim.Inject(Fault{Kind: FaultRouterRefuses})
	before := h.call(owner, "listLoadBalancerRules").raw
	for _, tc := range []struct {
		command string
		args    []string
		want    string
	}{
		{"assignToLoadBalancerRule", []string{"id", id(rule), "virtualmachineids", vm}, "Failed to assign load balancer rule"},
		{"removeFromLoadBalancerRule", []string{"id", id(rule), "virtualmachineids", member}, "Failed to remove specified load balancer rule id for vms ["},
		{"updateLoadBalancerRule", []string{"id", id(rule), "algorithm", "source", "protocol", "tcp"}, `Failed to update load balancer rule: LoadBalancer {"name":"`},
		{"deleteLoadBalancerRule", []string{"id", id(rule)}, `Unable to remove load balancer rule LoadBalancer {"name":"`},
		{"createFirewallRule", []string{"ipaddressid", ip, "protocol", "tcp", "startport", "9"}, "Failed to create firewall rule"},
		{"deleteFirewallRule", []string{"id", fw}, "Failed to delete firewall rule"},
	} {
		h.broken(owner, h.call(owner, tc.command, tc.args...), wire.CodeInternal, tc.want)
	}
	require.Equal(t, before, h.call(owner, "listLoadBalancerRules").raw, "the state is as before")
	h.done(owner, h.call(owner, "createTags", "resourceids", ip, "resourcetype", "PublicIpAddress", "tags[0].key", "k", "tags[0].value", "v"))

	h.broken(owner, h.call(owner, "disassociateIpAddress", "id", ip), wire.CodeInternal, "Failed to disassociate ip address")
	require.Empty(t, h.call(owner, "listPublicIpAddresses", "id", ip).items("publicipaddress"), "an address in state Releasing shows in no default list")
	require.Equal(t, store.RuleRevoke, h.first(h.call(owner, "listLoadBalancerRules"), "loadbalancerrule")["state"])
	h.sim.faults.Remove(0)
	h.done(owner, h.call(owner, "disassociateIpAddress", "id", ip))
	require.Empty(t, h.call(owner, "listLoadBalancerRules").items("loadbalancerrule"))
}

// TestRestart is the recorded case restart.job-right-after-restart.
func TestRestart(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{Job: time.Minute}})
	login, session := h.login("admin", "password", "")
	require.Equal(t, 200, login.status)
	h.ok(session("listZones"))
	vm := id(h.first(h.call(owner, "listVirtualMachines"), "virtualmachine"))
	h.sim.Inject(Fault{Command: "stopVirtualMachine", Kind: FaultRestart, Delay: 20 * time.Second})
	job := h.ok(h.call(owner, "stopVirtualMachine", "id", vm)).str("jobid")
	h.cut("listZones") // the server is away
	h.clock.Step(20 * time.Second)
	j := h.ok(h.call(owner, "queryAsyncJobResult", "jobid", job))
	require.EqualValues(t, store.JobFailed, j.body["jobstatus"])
	require.EqualValues(t, wire.CodeInternal, j.body["jobresultcode"])
	require.NotContains(t, j.body, "jobresult")
	require.NotContains(t, j.body, "jobresulttype")
	require.Contains(t, j.body, "completed")
	require.Contains(t, j.body, "managementserverid")
	require.NotContains(t, h.first(h.call(owner, "listVirtualMachines", "id", vm), "virtualmachine"), "jobid")
	require.Equal(t, http.StatusUnauthorized, session("listZones").status, "sessions are gone")
}

// TestRestartDuringDeployment: a VM on its way up is Stopped afterwards, with the detail that it was never started.
func TestRestartDuringDeployment(t *testing.T) {
	t.Parallel()
	h := start(t, Options{World: FreshWorld(), Latency: LatencyProfile{Job: time.Minute}})
	zone := id(h.first(h.root("listZones"), "zone"))
	vm := h.ok(h.root("deployVirtualMachine", "name", "half", "zoneid", zone,
		"templateid", id(h.first(h.root("listTemplates", "templatefilter", "all"), "template")),
		"serviceofferingid", id(h.first(h.root("listServiceOfferings"), "serviceoffering")))).str("id")
	h.clock.Step(40 * time.Second)
	require.Equal(t, store.VMStarting, h.first(h.root("listVirtualMachines", "id", vm), "virtualmachine")["state"])
	w, err := h.sim.Dump(dump.Options{})
	require.NoError(t, err)
	h.sim.Restart(0)
	for _, s := range []*harness{h, start(t, Options{World: w, Clock: h.clock})} {
		v := s.first(s.root("listVirtualMachines", "id", vm), "virtualmachine")
		require.Equal(t, store.VMStopped, v["state"])
		require.Equal(t, "true", v["details"].(map[string]any)[store.DeployFlag])
	}
}
