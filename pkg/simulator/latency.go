// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// LatencyProfile defines how long calls and jobs take. The zero value is instant.
type LatencyProfile struct {
	Name string
	// Call is the duration of every HTTP call; Calls overrides it for single commands.
	Call  time.Duration
	Calls map[string]time.Duration
	// Job is the run time of every job; Jobs overrides it for single commands.
	Job  time.Duration
	Jobs map[string]time.Duration
	// LockRetry is the time that a create phase sleeps if another one holds the lock of its row; 0 wakes it as soon
	// as the row is unlocked.
	LockRetry time.Duration
}

// Profile returns one of the named profiles: instant, simulator or production.
//
// simulator has the medians measured on a CloudStack 4.22 management server with the simulator hypervisor on two
// cores. Where only a range was measured (start and stop of VMs, listApis) it has the middle of the range. Commands
// that were not measured take 15 ms, their jobs 150 ms.
//
// production is an assumption, not a measurement: every command of a virtual router takes one to five seconds, so
// jobs that change a router take 2 to 4 s, and the start of a VM takes 30 s.
func Profile(name string) (LatencyProfile, error) {
	switch name {
	case "instant", "":
		return LatencyProfile{Name: "instant"}, nil
	case "simulator":
		return LatencyProfile{Name: name, Call: ms(15), Calls: measuredCalls, Job: ms(150), Jobs: measuredJobs, LockRetry: lockRetry}, nil
	case "production":
		return LatencyProfile{Name: name, Call: ms(25), Calls: measuredCalls, Job: ms(2000), Jobs: assumedJobs, LockRetry: lockRetry}, nil
	}
	return LatencyProfile{}, fmt.Errorf("latency profile %q is not known; use instant, simulator or production", name)
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// lockRetry is the time that CloudStack's create phase sleeps before it tries a locked row again.
const lockRetry = 5 * time.Second

var (
	measuredCalls = map[string]time.Duration{
		"listVirtualMachines": ms(24), "listLoadBalancerRules": ms(10), "listPublicIpAddresses": ms(18), "listFirewallRules": ms(13),
		"listNetworks": ms(35), "queryAsyncJobResult": ms(11), "associateIpAddress": ms(41), "createLoadBalancerRule": ms(49),
		"assignToLoadBalancerRule": ms(22), "createFirewallRule": ms(27), "createNetworkACL": ms(12), "listZones": ms(33), "listApis": ms(315),
	}
	measuredJobs = map[string]time.Duration{
		"associateIpAddress": ms(40), "disassociateIpAddress": ms(170), "createLoadBalancerRule": ms(13), "assignToLoadBalancerRule": ms(194),
		"removeFromLoadBalancerRule": ms(196), "updateLoadBalancerRule": ms(144), "deleteLoadBalancerRule": ms(167), "createFirewallRule": ms(50),
		"deleteFirewallRule": ms(46), "createNetworkACL": ms(14), "createTags": ms(8), "deleteTags": ms(8),
		"startVirtualMachine": ms(1400), "deployVirtualMachine": ms(1400), "stopVirtualMachine": ms(300), "destroyVirtualMachine": ms(300),
		"rebootVirtualMachine": ms(300), "expungeVirtualMachine": ms(6000), "restartNetwork": ms(17000), "restartVPC": ms(17000),
	}
	assumedJobs = map[string]time.Duration{
		"associateIpAddress": ms(2000), "disassociateIpAddress": ms(4000), "createLoadBalancerRule": ms(13), "assignToLoadBalancerRule": ms(3000),
		"removeFromLoadBalancerRule": ms(3000), "updateLoadBalancerRule": ms(3000), "deleteLoadBalancerRule": ms(3000), "createFirewallRule": ms(2000),
		"deleteFirewallRule": ms(2000), "createTags": ms(8), "deleteTags": ms(8),
		"startVirtualMachine": ms(30000), "deployVirtualMachine": ms(30000), "stopVirtualMachine": ms(15000), "destroyVirtualMachine": ms(15000),
		"rebootVirtualMachine": ms(15000), "expungeVirtualMachine": ms(20000), "restartNetwork": ms(90000), "restartVPC": ms(120000),
	}
)

// Add adds d to the duration of every call.
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
