// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// find returns the object with an ID.
func find(t *testing.T, s model.Snapshot, id string) model.Object {
	t.Helper()
	i := slices.IndexFunc(s.Objects, func(o model.Object) bool { return o.ID == id })
	require.GreaterOrEqual(t, i, 0, "no object %s in %v", id, s.Objects)
	return s.Objects[i]
}

// TestExample compares the snapshot of the example world with the simulator's own description.
func TestExample(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	s, err := New(sim).Snapshot(t.Context())
	require.NoError(t, err)
	names := map[string]string{}
	var objects, links []string
	for _, o := range s.Objects {
		names[o.ID] = o.Name
		objects = append(objects, strings.TrimSpace(fmt.Sprintf("%s %s %s", o.Kind, o.Name, o.Label)))
		assert.Equal(t, model.HealthOK, o.Health, o.Name)
		assert.NotEmpty(t, o.Commands, o.Name)
	}

	for _, l := range s.Links {
		links = append(links, fmt.Sprintf("%s - %s: %s", names[l.From], names[l.To], l.Label))
	}

	assert.ElementsMatch(t, []string{
		"network k8s-net 10.1.1.0/24", "vm demo-cp-1 10.1.1.11", "vm demo-worker-1 10.1.1.21",
		"vm demo-worker-2 10.1.1.22",
		"address 203.0.113.10 source NAT", "address 203.0.113.20 open: tcp 80 from 0.0.0.0/0; tcp 443 from 0.0.0.0/0",
		"rule 80 → 30080 a0123456789abcdef0123456789abcde-80", "rule 443 → 30443 a0123456789abcdef0123456789abcde-443",
	}, objects)

	assert.ElementsMatch(t, []string{
		"203.0.113.10 - k8s-net: source NAT", "203.0.113.20 - 80 → 30080: 80", "203.0.113.20 - 443 → 30443: 443",
		"80 → 30080 - demo-worker-1: 30080", "80 → 30080 - demo-worker-2: 30080", "443 → 30443 - demo-worker-1: 30443",
		"443 → 30443 - demo-worker-2: 30443", "demo-cp-1 - k8s-net: 10.1.1.11", "demo-worker-1 - k8s-net: 10.1.1.21",
		"demo-worker-2 - k8s-net: 10.1.1.22",
	}, links)

	assert.True(t, slices.IsSortedFunc(s.Objects, func(a, b model.Object) int { return strings.Compare(a.ID, b.ID) }))
}

func TestHealth(t *testing.T) {
	t.Parallel()
	vms := []simulator.VMInfo{
		{ID: "up", State: "Running", Owner: "k8s"}, {ID: "down", State: "Stopped", Owner: "k8s"},
		{ID: "starts", State: "Starting"}, {ID: "bad", State: "Error"},
	}

	network := func(state string) func(*simulator.Objects) {
		return func(o *simulator.Objects) { o.Networks = []simulator.NetworkInfo{{ID: "n", State: state}} }
	}
	forward := func(vm string) func(*simulator.Objects) {
		return func(o *simulator.Objects) { o.Forwards = []simulator.ForwardInfo{{ID: "f", State: "Active", VM: vm}} }
	}
	leaves := func(o *simulator.Objects) { o.Addresses = []simulator.AddressInfo{{ID: "a", State: "Releasing"}} }
	for name, test := range map[string]struct {
		set    func(*simulator.Objects)
		id     string
		health model.Health
		why    string
	}{
		"stopped VM":  {nil, "vm/down", model.HealthWarning, "the VM is in state Stopped"},
		"starting VM": {nil, "vm/starts", model.HealthPending, "the VM is in state Starting"},
		"failed VM":   {nil, "vm/bad", model.HealthError, "the VM is in state Error"},
		"network without VMs": {network("Allocated"), "network/n", model.HealthPending,
			"the network is in state Allocated"},
		"shared network":    {network("Setup"), "network/n", model.HealthOK, ""},
		"address that goes": {leaves, "address/a", model.HealthPending, "the address is in state Releasing"},
		"rule without members": {rule("Add"), "rule/r", model.HealthWarning,
			"the rule has no members, and is not on the router"},
		"rule that is new": {rule("Add", "up"), "rule/r", model.HealthPending,
			"the rule is not on the router yet"},
		"rule that goes": {rule("Deleting", "up"), "rule/r", model.HealthPending,
			"the rule is being deleted"},
		"rule that works": {rule("Active", "up"), "rule/r", model.HealthOK, ""},
		"rule with a stopped member": {rule("Active", "up", "down"), "rule/r", model.HealthWarning,
			"1 of 2 members run"},
		"rule whose members are down": {rule("Active", "down"), "rule/r", model.HealthError, "no member runs"},
		"forward to a stopped VM":     {forward("down"), "forward/f", model.HealthError, "the VM does not run"},
		"forward to a running VM":     {forward("up"), "forward/f", model.HealthOK, ""},
	} {
		objects := simulator.Objects{VMs: vms}
		if test.set != nil {
			test.set(&objects)
		}
		o := find(t, snapshot(state{now: now, objects: objects, speed: 1}), test.id)
		assert.Equal(t, test.health, o.Health, name)
		assert.Equal(t, test.why, strings.Join(o.Why, "; "), name)
	}
}

func rule(ruleState string, members ...string) func(*simulator.Objects) {
	return func(o *simulator.Objects) {
		o.Rules = []simulator.RuleInfo{{ID: "r", State: ruleState, Owner: "k8s", Members: members}}
	}
}

// TestLinksLead: both ends of each link exist, even if CloudStack's answer names an object that no longer exists. A
// rule for all VMs of a large account has one link.
func TestLinksLead(t *testing.T) {
	t.Parallel()
	o := simulator.Objects{
		Networks:  []simulator.NetworkInfo{{ID: "tier", VPC: "vpc", State: "Implemented", CIDR: "10.0.0.0/24"}},
		Addresses: []simulator.AddressInfo{{ID: "a", StaticNAT: "gone"}, {ID: "b", StaticNAT: "vm0"}},
		Rules: []simulator.RuleInfo{
			{ID: "internal", Internal: "10.0.0.9", Network: "tier", Members: []string{"vm0", "gone"}},
			{ID: "all", Address: "b", PrivatePort: 30080},
		},
		Forwards: []simulator.ForwardInfo{
			{ID: "f", Address: "b", VM: "vm0", PublicPorts: "53", VMPorts: "30053", Protocol: "udp"},
		},
	}

	for i := range manyMembers {
		id := fmt.Sprintf("vm%d", i)
		o.VMs = append(o.VMs,
			simulator.VMInfo{
				ID:    id,
				Owner: "k8s",
				State: "Running",
				NICs:  []simulator.NICInfo{{Network: "tier"}, {Network: "gone"}},
			})
		o.Rules[1].Members = append(o.Rules[1].Members, id)
	}

	s := snapshot(state{now: now, objects: o, speed: 1})
	exists := map[string]bool{model.GroupID(model.KindVM, "k8s"): true}
	for _, o := range s.Objects {
		exists[o.ID] = true
	}

	for _, l := range s.Links {
		assert.True(t, exists[l.From] && exists[l.To], "%v", l)
	}

	want := []model.Link{
		{From: "address/b", To: "forward/f", Label: "53"}, {From: "address/b", To: "rule/all", Label: "0"},
		{From: "address/b", To: "vm/vm0", Label: "static NAT"},
		{From: "forward/f", To: "vm/vm0", Label: "30053"}, {From: "rule/all", To: "group/vm/k8s", Label: "30080"},
		{From: "rule/internal", To: "vm/vm0", Label: "0"},
	}

	assert.Equal(t, want, s.Links[:len(want)])
	assert.Len(t, s.Links, len(want)+manyMembers)
	assert.Equal(t, "10.0.0.0/24 in VPC vpc", find(t, s, "network/tier").Label)
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	at := func(age time.Duration, c simulator.Call) simulator.Call {
		c.At = now.Add(-age)
		return c
	}

	ok := simulator.Call{
		Command: "queryAsyncJobResult",
		Caller:  "ccm",
		Status:  200,
		Params:  map[string]string{"jobid": "j"},
	}

	calls := []simulator.Call{
		at(time.Second, ok), at(2*time.Second, ok), at(3*time.Second, ok),
		at(4*time.Second, simulator.Call{
			Command:   "createLoadBalancerRule",
			Caller:    "ccm",
			Status:    200,
			JobID:     "j",
			JobStatus: 2,
			JobCode:   530,
			Took:      250 * time.Millisecond,
			Params: map[string]string{
				"publicipid": "a",
				"publicport": "80",
				"privatekey": "secret",
				"userdata":   "secret",
			},
		}),
		at(5*time.Second, simulator.Call{Command: "listZones", Status: 401, ErrorCode: 401}),
		at(6*time.Second, simulator.Call{Command: "listZones", Caller: "ccm"}),
		at(2*time.Minute, simulator.Call{Status: 200, JobID: "j", JobStatus: 1}),
		at(2*time.Minute, simulator.Call{Status: 200, JobID: "j"}),
	}

	s := snapshot(state{
		now:     now,
		speed:   1,
		calls:   calls,
		objects: simulator.Objects{Addresses: []simulator.AddressInfo{{ID: "a"}}},
	})

	for i, want := range []model.Entry{
		{Reason: "queryAsyncJobResult", Caller: "ccm", Message: "answered", Count: 3},
		{
			Reason:       "createLoadBalancerRule",
			Caller:       "ccm",
			Message:      "the job failed with 530, publicipid=a, publicport=80",
			Object:       "address/a",
			Warning:      true,
			Milliseconds: 250,
		},
		{Reason: "listZones", Caller: "nobody", Message: "refused with 401", Warning: true},
		{Reason: "listZones", Caller: "ccm", Message: "the connection was cut", Warning: true},
		{Reason: "(no command)", Caller: "nobody", Message: "the job runs"},
		{Reason: "(no command)", Caller: "nobody", Message: "the job succeeded"},
	} {
		have := s.Timeline[i]
		want.At, want.Kind = have.At, "call"
		assert.Equal(t, want, have)
	}

	assert.Len(t, s.Timeline, 6)
	assert.Equal(t, now.Add(-time.Second), s.Timeline[0].At)
	assert.Equal(t, []model.Calls{
		{Command: "createLoadBalancerRule", Code: "200", PerMinute: 1},
		{Command: "listZones", Code: "401", PerMinute: 1},
		{Command: "listZones", Code: "cut", PerMinute: 1}, {Command: "queryAsyncJobResult", Code: "200", PerMinute: 3},
	}, s.Calls)
}
