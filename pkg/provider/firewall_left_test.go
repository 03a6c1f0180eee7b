// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// A firewall rule whose port the Service gave up, while nobody knew that the rule had been made, is still ours:
// it goes, and it does not keep the address from being released.
func TestFirewallRuleLeftByALostAnswerGoes(t *testing.T) {
	t.Parallel()
	for _, rule := range []simulator.FaultKind{simulator.FaultJobFails, simulator.FaultRouterRefuses, simulator.FaultLostAnswer} {
		for _, firewall := range []simulator.FaultKind{0, simulator.FaultLostAnswer, simulator.FaultJobFails} {
			for _, restart := range []bool{false, true} {
				for _, synced := range []bool{false, true} {
					t.Run(fmt.Sprintf("rule %v, firewall %v, restart %v, synced %v", rule, firewall, restart, synced), func(t *testing.T) {
						t.Parallel()
						b := newBed(t)
						before := b.dump()
						b.service([]int{80})
						b.mustSync("w1")
						b.change(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 443) })
						b.sim.Inject(simulator.Fault{Command: "createLoadBalancerRule", Caller: "ccm", Kind: rule, Count: 1})
						if firewall != 0 {
							b.sim.Inject(simulator.Fault{Command: "createFirewallRule", Caller: "ccm", Kind: firewall, Count: 1})
						}
						_ = b.sync("w1") // whatever comes of it
						b.change(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
						if restart {
							b.restart()
						}
						if synced {
							b.mustSync("w1")
							assert.Len(t, of(b.dump(), b.ip()), 3, "the address, a rule, a firewall rule")
						}
						require.NoError(t, b.remove())
						assert.Equal(t, before, b.dump())
					})
				}
			}
		}
	}
}

// open makes a firewall rule for port 443 as a call of ours does that was thought lost, or somebody else.
func (b *bed) open() {
	b.t.Helper()
	ctx := b.t.Context()
	ips, err := b.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: b.ip()})
	require.NoError(b.t, err)
	require.Len(b.t, ips, 1)
	s, err := b.inspect.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{PublicIPID: ips[0].ID, Protocol: "tcp", StartPort: 443, EndPort: 443, CIDRs: []string{"0.0.0.0/0"}})
	require.NoError(b.t, err)
	_, err = b.inspect.Jobs().Wait(ctx, "", s.JobID)
	require.NoError(b.t, err)
}

// A call whose answer was lost may take effect after the next look: what the Service's record names is ours,
// and the record names a port until such a call must have ended. From then on what is there is somebody else's.
func TestFirewallRuleThatArrivesLate(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (b *bed, before []string) {
		t.Helper()
		b = newBed(t)
		before = b.dump()
		b.service([]int{80, 443})
		b.mustSync("w1")
		b.change(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
		b.mustSync("w1")
		return b, before
	}
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("it does not keep the address, restart %v", restart), func(t *testing.T) {
			t.Parallel()
			b, before := start(t)
			b.open()
			if restart {
				b.restart()
			}
			require.NoError(t, b.remove())
			assert.Equal(t, before, b.dump())
		})
	}
	t.Run("it goes", func(t *testing.T) {
		t.Parallel()
		b, _ := start(t)
		b.open()
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.mustSync("w1")
		assert.Len(t, of(b.dump(), b.ip()), 3, "the address, a rule, a firewall rule")
		assert.NotContains(t, b.get().Annotations[annotation.Addresses], "443")
	})
	t.Run("later it is somebody else's", func(t *testing.T) {
		t.Parallel()
		b, _ := start(t)
		require.Contains(t, b.get().Annotations[annotation.Addresses], "443")
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.mustSync("w1")
		require.NotContains(t, b.get().Annotations[annotation.Addresses], "443")
		b.open()
		ip := b.ip()
		require.NoError(t, b.remove())
		assert.Len(t, of(b.dump(), ip), 2, "the address and the firewall rule")
	})
}

// A deletion that the router refused leaves the rule in the list, in state Deleting: the next change of the firewall
// takes it away for good. A Service that wants the same again gets a rule of its own.
func TestFirewallRuleThatIsGoingServesNobody(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			before := b.dump()
			ranges := func(r string) func(*corev1.Service) {
				return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{r} }
			}
			b.service([]int{80}, ranges("10.0.0.0/8"))
			b.mustSync("w1")
			served := of(b.dump(), b.ip())
			b.change(ranges("172.16.0.0/12"))
			b.sim.Inject(simulator.Fault{Command: "deleteFirewallRule", Caller: "ccm", Kind: simulator.FaultRouterRefuses, Count: 1})
			require.ErrorContains(t, b.sync("w1"), "deleteFirewallRule")
			b.change(ranges("10.0.0.0/8"))
			if restart {
				b.restart()
			}
			b.mustSync("w1")
			ips, err := b.inspect.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{Address: b.ip()})
			require.NoError(t, err)
			rules, err := b.inspect.ListFirewallRules(t.Context(), cloudstack.FirewallRuleQuery{PublicIPID: ips[0].ID})
			require.NoError(t, err)
			require.Len(t, rules, 1)
			assert.Equal(t, []string{"Active", "10.0.0.0/8"}, []string{rules[0].State, rules[0].CIDRs[0]})
			assert.Equal(t, served, of(b.dump(), b.ip()))
			require.NoError(t, b.remove())
			assert.Equal(t, before, b.dump())
		})
	}
}
