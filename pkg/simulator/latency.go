// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// LatencyProfile says how long calls and jobs take. The zero value is instant.
type LatencyProfile struct {
	Name string
	// Call is the time of every HTTP call; Calls overrides it for single commands.
	Call  time.Duration
	Calls map[string]time.Duration
	// Job is the run time of every job; Jobs overrides it for single commands.
	Job  time.Duration
	Jobs map[string]time.Duration
	// LockRetry is how long a create phase sleeps when another one holds its
	// row; 0 wakes it as soon as the row is free.
	LockRetry time.Duration
}

// Profile returns one of the named profiles: instant, simulator or production.
//
// simulator has the medians measured on a real management server with its
// simulator hypervisor. production adds what real routers need: one to five
// seconds for each of their commands.
func Profile(name string) (LatencyProfile, error) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	calls := map[string]time.Duration{
		"listVirtualMachines": ms(24), "listLoadBalancerRules": ms(10), "listPublicIpAddresses": ms(18), "listFirewallRules": ms(13),
		"listNetworks": ms(35), "queryAsyncJobResult": ms(11), "associateIpAddress": ms(41), "createLoadBalancerRule": ms(49),
		"assignToLoadBalancerRule": ms(22), "createFirewallRule": ms(27), "createNetworkACL": ms(12), "listZones": ms(33), "listApis": ms(300),
	}
	switch name {
	case "instant", "":
		return LatencyProfile{Name: "instant"}, nil
	case "simulator":
		return LatencyProfile{
			Name: name, Call: ms(15), Calls: calls, Job: ms(150), LockRetry: 5 * time.Second,
			Jobs: map[string]time.Duration{
				"associateIpAddress": ms(40), "disassociateIpAddress": ms(170), "createLoadBalancerRule": ms(13),
				"assignToLoadBalancerRule": ms(194), "removeFromLoadBalancerRule": ms(196), "updateLoadBalancerRule": ms(144),
				"deleteLoadBalancerRule": ms(167), "createFirewallRule": ms(50), "deleteFirewallRule": ms(46), "createNetworkACL": ms(14),
				"createTags": ms(8), "deleteTags": ms(8), "startVirtualMachine": ms(1500), "stopVirtualMachine": ms(400),
				"destroyVirtualMachine": ms(400), "expungeVirtualMachine": ms(6000),
				"deployVirtualMachine": ms(2500), "rebootVirtualMachine": ms(500),
			},
		}, nil
	case "production":
		return LatencyProfile{
			Name: name, Call: ms(25), Calls: calls, Job: ms(2000), LockRetry: 5 * time.Second,
			Jobs: map[string]time.Duration{
				"associateIpAddress": ms(2000), "disassociateIpAddress": ms(4000), "createLoadBalancerRule": ms(13),
				"assignToLoadBalancerRule": ms(3000), "removeFromLoadBalancerRule": ms(3000), "updateLoadBalancerRule": ms(3000),
				"deleteLoadBalancerRule": ms(3000), "createFirewallRule": ms(2000), "deleteFirewallRule": ms(2000),
				"createTags": ms(8), "deleteTags": ms(8), "startVirtualMachine": ms(30000), "stopVirtualMachine": ms(15000),
				"destroyVirtualMachine": ms(15000), "expungeVirtualMachine": ms(20000),
				"deployVirtualMachine": ms(40000), "rebootVirtualMachine": ms(30000),
			},
		}, nil
	}
	return LatencyProfile{}, fmt.Errorf("latency profile %q is not known; use instant, simulator or production", name)
}

// Add makes every call take d longer.
func (p *LatencyProfile) Add(d time.Duration) {
	if d <= 0 {
		return
	}
	p.Call += d
	calls := make(map[string]time.Duration, len(p.Calls))
	for k, v := range p.Calls {
		calls[k] = v + d
	}
	p.Calls = calls
}

func (p *LatencyProfile) call(command string) time.Duration {
	if d, ok := p.Calls[command]; ok {
		return d
	}
	return p.Call
}

func (p *LatencyProfile) job(command string) time.Duration {
	if d, ok := p.Jobs[command]; ok {
		return d
	}
	return p.Job
}
