// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

func TestFlaw09SharedAddressOutlivesItsFirstService(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	before := b.dump()
	ip := sharing(b) // web acquired the address, mail uses it
	mail := grep(of(b.dump(), ip), "25->")
	require.Len(t, mail, 1)
	require.NoError(t, b.remove())
	assert.Equal(t, mail, grep(of(b.dump(), ip), "rule "), "address and rule of the other Service stay")
	require.NoError(t, b.syncAs("mail", "w1", "w2"))
	require.NoError(t, b.removeAs("mail"))
	assert.Equal(t, before, b.dump(), "released with the last one")
}

func TestFlaw10FailedReleaseLeaksNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"refused":         {Kind: simulator.FaultErrorBefore},
		"the job fails":   {Kind: simulator.FaultJobFails},
		"the answer lost": {Kind: simulator.FaultLostAnswer},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				before := b.dump()
				b.service([]int{80})
				b.mustSync("w1")
				fault.Command, fault.Caller, fault.Count = "disassociateIpAddress", "ccm", 1
				b.sim.Inject(fault)
				// The framework drops its finalizer when GetLoadBalancer says that nothing exists.
				for attempt := 0; ; attempt++ {
					require.Less(t, attempt, 5)
					_, exists, err := b.lb.GetLoadBalancer(t.Context(), "", b.get())
					require.NoError(t, err)
					if !exists {
						break
					}
					if b.lb.EnsureLoadBalancerDeleted(t.Context(), "", b.get()) == nil {
						break
					}
					if restarted {
						b.restart()
					}
				}
				assert.Equal(t, before, b.dump())
			})
		}
	}
}

func TestFlaw11CrashAfterTheAddressLeaksNothing(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"associateIpAddress", "createTags", "createLoadBalancerRule"} {
		for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer} {
			for _, deleted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s, deleted %v", command, kind, deleted), func(t *testing.T) {
					t.Parallel()
					b := newBed(t)
					before := b.dump()
					b.service([]int{80})
					b.sim.Inject(simulator.Fault{Command: command, Caller: "ccm", Kind: kind, Count: 1})
					_ = b.sync("w1")
					b.restart() // nothing is remembered but what stands in CloudStack and on the Service
					if !deleted {
						require.NoError(t, b.repeat(func(b *bed) error { return b.sync("w1") }))
						assert.Len(t, grep(b.dump(), webTags), 1, "one address, whatever happened")
					}
					require.NoError(t, b.repeat((*bed).remove))
					assert.Equal(t, before, b.dump())
				})
			}
		}
	}
}

func TestFlaw19DeletionInAProject(t *testing.T) {
	t.Parallel()
	b := newBed(t, withProject)
	before := b.dump()
	b.service([]int{80, 81})
	b.mustSync("p1")
	require.NotEqual(t, before, b.dump())
	b.restart()
	b.reset()
	require.NoError(t, b.remove())
	assert.Equal(t, before, b.dump())
	for _, c := range b.sim.Ledger().Find("list*", "ccm") {
		if c.Command == "listPublicIpAddresses" || c.Command == "listLoadBalancerRules" || c.Command == "listFirewallRules" {
			assert.Equal(t, b.project, c.Params["projectid"], c.Command)
		}
	}
}

func TestFlaw20FailedReadOfAnAddressIsAnError(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80})
	b.mustSync("w1")
	want := b.dump()
	b.restart()
	b.reset()
	b.sim.Inject(simulator.Fault{Command: "listPublicIpAddresses", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 431, CSErrorCode: 9999, Text: "no such address"})
	require.ErrorContains(t, b.remove(), "no such address")
	for _, c := range b.sim.Ledger().Find("listNetworks", "ccm") {
		assert.NotEmpty(t, c.Params["id"], "no list of all networks")
	}
	assert.Equal(t, want, b.dump(), "nothing was done on a guess")
}

func TestFlaw21AnotherAddressIsTaken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	before := b.dump()
	b.service([]int{80})
	b.mustSync("w1")
	old := b.ip()
	for _, ip := range []string{"203.0.113.77", "203.0.113.31"} { // a free one, and one that the account holds
		b.change(func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip })
		b.mustSync("w1")
		assert.Equal(t, ip, b.ip())
		assert.Len(t, grep(of(b.dump(), ip), "rule "), 1)
		assert.Empty(t, of(b.dump(), old), "the old one was ours")
		old = ip
	}
	require.NoError(t, b.remove())
	assert.Equal(t, before, b.dump())
}

func TestFlaw22FirewallRuleThatWouldNotGo(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"refused":       {Kind: simulator.FaultErrorBefore},
		"the job fails": {Kind: simulator.FaultJobFails},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			before := b.dump()
			b.service([]int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.31" }) // the user's own: not released
			b.mustSync("w1")
			fault.Command, fault.Caller, fault.Count = "deleteFirewallRule", "ccm", 1
			b.sim.Inject(fault)
			require.Error(t, b.remove(), "the framework tries again")
			_, exists, err := b.lb.GetLoadBalancer(t.Context(), "", b.get())
			require.NoError(t, err)
			assert.True(t, exists)
			b.restart()
			require.NoError(t, b.repeat((*bed).remove))
			assert.Equal(t, before, b.dump(), "nothing is left open")
			assert.NotEmpty(t, b.event(plan.ReasonAddressKept))
		})
	}
}
