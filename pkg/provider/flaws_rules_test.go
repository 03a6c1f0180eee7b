// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/simulator"
)

// ruleWrites are the commands that change rules themselves.
var ruleWrites = []string{"createLoadBalancerRule", "updateLoadBalancerRule", "deleteLoadBalancerRule"}

func TestFlaw03MembersAfterAFailedAssignment(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"refused":         {Kind: simulator.FaultErrorBefore, HTTPStatus: 431},
		"the job fails":   {Kind: simulator.FaultJobFails},
		"the answer lost": {Kind: simulator.FaultLostAnswer},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.service([]int{80})
				fault.Command, fault.Caller, fault.Count = "assignToLoadBalancerRule", "ccm", 1
				b.sim.Inject(fault)
				if err := b.sync("w1", "w2"); err != nil {
					if restarted {
						b.restart()
					}
					b.mustSync("w1", "w2")
				}
				assert.Contains(t, grep(b.dump(), webLB)[0], "[w1 w2]", "the Service has a status, so it has members")
			})
		}
	}
}

func TestFlaw04SeveralRangesConverge(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80, 81})
	b.mustSync("w1")
	b.change(func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{"192.168.0.0/16", "10.0.0.0/8", "172.16.0.0/12"}
	})
	b.mustSync("w1")
	// What the server stored after an update is read back, by a controller that remembers nothing.
	for range 3 {
		b.restart()
		b.reset()
		b.mustSync("w1")
		assert.Zero(t, b.sim.Ledger().Count(ruleWrites...))
	}
	for _, r := range b.rulesAt(b.ip()) {
		assert.ElementsMatch(t, []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}, r.CIDRs)
	}
}

func TestFlaw05RulesWithoutRangesAreKept(t *testing.T) {
	t.Parallel()
	b := takenOver(t, []int{80}, `
      - {name: LB-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, members: [w1, w2]}`)
	before, id := b.dump(), b.rulesAt("203.0.113.40")[0].ID
	b.reset()
	b.mustSync("w1", "w2")
	assert.Zero(t, b.sim.Ledger().Count(ruleWrites...))
	assert.Equal(t, before, b.dump())
	assert.Equal(t, id, b.rulesAt("203.0.113.40")[0].ID)
}

func TestFlaw06ProxyProtocolOnALiveService(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80})
	b.mustSync("w1")
	id := b.rulesAt(b.ip())[0].ID
	for _, c := range []struct{ value, protocol string }{{"true", "tcp-proxy"}, {"false", "tcp"}, {"true", "tcp-proxy"}} {
		b.change(annotate(annotation.ProxyProtocol, c.value))
		b.mustSync("w1")
		rule := b.rulesAt(b.ip())[0]
		assert.Equal(t, c.protocol, rule.Protocol)
		assert.Equal(t, id, rule.ID, "the rule is the same one: traffic goes on")
	}
}

func TestFlaw18RuleWithoutProtocolIsDeleted(t *testing.T) {
	t.Parallel()
	b := takenOver(t, []int{80}, `
      - {name: LB-80, publicPort: 80, privatePort: 30080, members: [w1]}`)
	require.Empty(t, b.rulesAt("203.0.113.40")[0].Protocol)
	b.mustSync("w1")
	require.NoError(t, b.remove())
	assert.Equal(t, []string{"address Allocated []"}, of(b.dump(), "203.0.113.40"), "rule and firewall are gone; the address was never ours")
}

func TestFlaw25HostnameInGetLoadBalancer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80}, annotate(annotation.Hostname, "lb.example.org"))
	b.mustSync("w1")
	for range 2 { // the second time by a controller that has just started
		status, exists, err := b.lb.GetLoadBalancer(t.Context(), "", b.get())
		require.NoError(t, err)
		assert.True(t, exists)
		assert.Equal(t, b.get().Status.LoadBalancer, *status)
		assert.Equal(t, "lb.example.org", status.Ingress[0].Hostname)
		assert.Empty(t, status.Ingress[0].IP)
		b.restart()
	}
}
