// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"
)

// Profile defines how long calls and jobs take. The zero value is instant.
type Profile struct {
	Name string
	// Call is the duration of every HTTP call; Calls overrides it for single commands.
	Call  time.Duration
	Calls map[string]time.Duration
	// Job is the run time of every job; Jobs overrides it for single commands.
	Job  time.Duration
	Jobs map[string]time.Duration
	// LockRetry is the time that a create phase sleeps if another one holds the lock of its row. With 0 it continues
	// as soon as the row is unlocked.
	LockRetry time.Duration
}

// NamedProfile returns one of the named profiles: instant, simulator or production.
//
// simulator has the medians measured on a CloudStack 4.22 management server with the simulator hypervisor on two
// cores. Where only a range was measured (start and stop of VMs, listApis) it has the middle of the range. Commands
// that were not measured take 15 ms, their jobs 150 ms.
//
// production is an assumption, not a measurement. Every command of a virtual router takes one to five seconds, so jobs
// that change a router take 2 to 4 s. The start of a VM takes 30 s. For a Kubernetes cluster, kubeadm takes 4 minutes,
// the upgrade of a node 2 minutes and the download of an ISO 1 minute in addition.
func NamedProfile(name string) (Profile, error) {
	switch name {
	case "instant", "":
		return Profile{Name: "instant"}, nil
	case "simulator":
		return Profile{
			Name:      name,
			Call:      Ms(15),
			Calls:     measuredCalls,
			Job:       Ms(150),
			Jobs:      measuredJobs,
			LockRetry: lockRetry,
		}, nil
	case "production":
		return Profile{
			Name:      name,
			Call:      Ms(25),
			Calls:     measuredCalls,
			Job:       Ms(2000),
			Jobs:      assumedJobs,
			LockRetry: lockRetry,
		}, nil
	}

	return Profile{}, fmt.Errorf("latency profile %q is not known; use instant, simulator or production", name)
}

// Ms returns a number of milliseconds.
func Ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// lockRetry is the time that CloudStack's create phase sleeps before it tries a locked row again.
const lockRetry = 5 * time.Second

var (
	measuredCalls = map[string]time.Duration{
		"listVirtualMachines":      Ms(24),
		"listLoadBalancerRules":    Ms(10),
		"listPublicIpAddresses":    Ms(18),
		"listFirewallRules":        Ms(13),
		"listNetworks":             Ms(35),
		"queryAsyncJobResult":      Ms(11),
		"associateIpAddress":       Ms(41),
		"createLoadBalancerRule":   Ms(49),
		"assignToLoadBalancerRule": Ms(22),
		"createFirewallRule":       Ms(27),
		"createNetworkACL":         Ms(12),
		"listZones":                Ms(33),
		"listApis":                 Ms(315),
	}
	measuredJobs = map[string]time.Duration{
		"associateIpAddress":         Ms(40),
		"disassociateIpAddress":      Ms(170),
		"createLoadBalancerRule":     Ms(13),
		"assignToLoadBalancerRule":   Ms(194),
		"removeFromLoadBalancerRule": Ms(196),
		"updateLoadBalancerRule":     Ms(144),
		"deleteLoadBalancerRule":     Ms(167),
		"createFirewallRule":         Ms(50),
		"deleteFirewallRule":         Ms(46),
		"createNetworkACL":           Ms(14),
		"createTags":                 Ms(8),
		"deleteTags":                 Ms(8),
		"createPortForwardingRule":   Ms(200), // until a poll saw the end
		"updatePortForwardingRule":   Ms(230), // until a poll saw the end
		"startVirtualMachine":        Ms(1400),
		"deployVirtualMachine":       Ms(1400),
		"stopVirtualMachine":         Ms(300),
		"destroyVirtualMachine":      Ms(300),
		"rebootVirtualMachine":       Ms(300),
		"expungeVirtualMachine":      Ms(6000),
		"restartNetwork":             Ms(17000),
	}
	assumedJobs = map[string]time.Duration{
		"associateIpAddress":         Ms(2000),
		"disassociateIpAddress":      Ms(4000),
		"createLoadBalancerRule":     Ms(13),
		"assignToLoadBalancerRule":   Ms(3000),
		"removeFromLoadBalancerRule": Ms(3000),
		"updateLoadBalancerRule":     Ms(3000),
		"deleteLoadBalancerRule":     Ms(3000),
		"createFirewallRule":         Ms(2000),
		"deleteFirewallRule":         Ms(2000),
		"createTags":                 Ms(8),
		"deleteTags":                 Ms(8),
		"updatePortForwardingRule":   Ms(4000), // the router is configured twice: revoke, then apply
		"startVirtualMachine":        Ms(30000),
		"deployVirtualMachine":       Ms(30000),
		"stopVirtualMachine":         Ms(15000),
		"destroyVirtualMachine":      Ms(15000),
		"rebootVirtualMachine":       Ms(15000),
		"expungeVirtualMachine":      Ms(20000),
		"restartNetwork":             Ms(60000),
		"createKubernetesCluster":    Ms(240000),
		"startKubernetesCluster":     Ms(60000),
		"scaleKubernetesCluster":     Ms(90000),
		"upgradeKubernetesCluster":   Ms(120000),
		"registerIso":                Ms(60000),
	}
)

// CallTime returns the duration of a call.
func (p *Profile) CallTime(command string) time.Duration {
	if d, ok := p.Calls[command]; ok {
		return d
	}
	return p.Call
}

// JobTime returns the run time of a job.
func (p *Profile) JobTime(command string) time.Duration {
	if d, ok := p.Jobs[command]; ok {
		return d
	}
	return p.Job
}

// activeProfile is a speed other than the normal one, with its profile.
type activeProfile struct {
	speed   float64
	profile Profile
}

// Profile returns the current durations.
func (s *Server) Profile() *Profile {
	if p := s.profile.Load(); p != nil {
		return &p.profile
	}
	return &s.Latency
}

// Speed returns the current speed; 1 is normal.
func (s *Server) Speed() float64 {
	if p := s.profile.Load(); p != nil {
		return p.speed
	}
	return 1
}

// Limits of the speed: a call of 25 ms takes 2.5 s at the slowest.
const (
	slowest = 0.01
	fastest = 100
)

// SetSpeed makes calls and jobs that begin from now on take 1/speed of their time. An instant server that is slowed
// down uses the times of the profile simulator. The wait for a locked row is CloudStack's own and does not change.
func (s *Server) SetSpeed(speed float64) error {
	if !(speed >= slowest && speed <= fastest) {
		return fmt.Errorf("speed %g must lie between %g and %d; 1 is normal", speed, slowest, fastest)
	}
	if speed == 1 {
		s.profile.Store(nil)
		return nil
	}
	from := s.Latency
	if speed < 1 && from.Call == 0 && from.Job == 0 && from.Calls == nil && from.Jobs == nil {
		var err error
		if from, err = NamedProfile("simulator"); err != nil {
			return err
		}
	}
	s.profile.Store(&activeProfile{speed, from.scaled(1 / speed)})
	return nil
}

// scaled returns the profile with all durations multiplied by n.
func (p Profile) scaled(n float64) Profile {
	times := func(d time.Duration) time.Duration { return time.Duration(float64(d) * n) }
	all := func(m map[string]time.Duration) map[string]time.Duration {
		out := make(map[string]time.Duration, len(m))
		for k, d := range m {
			out[k] = times(d)
		}
		return out
	}
	p.Call, p.Calls, p.Job, p.Jobs = times(p.Call), all(p.Calls), times(p.Job), all(p.Jobs)
	return p
}
