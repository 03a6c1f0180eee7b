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
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// One call in ten fails and one answer in ten is lost, reads and polls included: eight Services of three ports all have
// their address within two minutes, and nothing is acquired twice.
func TestFaultyCloudServesEightServices(t *testing.T) {
	t.Parallel()
	const services = 8
	measured, err := simulator.Profile("simulator")
	require.NoError(t, err)
	for seed := range uint64(6) {
		parallel(t, fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			withFramework(t, simulator.Options{Seed: seed, Latency: measured}, lbWorld, func(env *frameworkEnv) {
				stop := []func(){
					env.Inject(simulator.Fault{Kind: simulator.FaultErrorBefore, Caller: "ccm", Probability: 0.1}),
					env.Inject(simulator.Fault{Kind: simulator.FaultLostAnswer, Caller: "ccm", Probability: 0.1}),
				}
				before := env.addresses()
				env.count()
				begun := time.Now()
				env.createMany(services, []int{80, 81, 443})
				served := 0
				for time.Since(begun) < 10*time.Minute && served < services {
					time.Sleep(500 * time.Millisecond)
					served = 0
					for i := range services {
						if env.served(fmt.Sprintf("web%d", i)) {
							served++
						}
					}
				}
				took := time.Since(begun)
				calls, _ := env.count()
				t.Logf("%d of %d served after %s, %d calls", served, services, took, len(calls))
				assert.Equal(t, services, served)
				assert.LessOrEqual(t, took, 2*time.Minute)
				for _, remove := range stop {
					remove()
				}
				for i := range services {
					env.remove(fmt.Sprintf("web%d", i))
				}
				assert.Equal(t, before, env.addresses(), "nothing is left over")
			})
		})
	}
}

// A Service is served although its tags cannot be set. The next drift round sets them; if that fails too, there is a
// Warning.
func TestServiceIsServedWithoutItsTags(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	stop := env.Inject(simulator.Fault{Command: "createTags", Kind: simulator.FaultJobFails})
	env.create("web", []int{80, 81})
	env.mustSync("web")
	ip := env.ip("web")
	assert.Contains(t, env.get("web").Annotations[annotation.Addresses], ip)
	assert.NotContains(t, env.dump(), "address "+ip+" Allocated "+webTags)
	assert.Empty(t, env.event(plan.ReasonTaggingFailed), "one failure passes")
	env.restart()
	env.mustSync("web")
	env.round(0)
	event := env.event(plan.ReasonTaggingFailed)
	assert.Contains(t, event, "Failed by an injected fault")
	assert.Contains(t, event, "tag address "+ip)

	stop()
	env.round(0)
	assert.Contains(t, env.dump(), "address "+ip+" Allocated "+webTags)
	for _, r := range env.rulesAt(ip) {
		assert.Equal(t, "test", r.Tags[plan.TagCluster])
	}
	assert.Empty(t, env.event(plan.ReasonTaggingFailed))
}

// A firewall rule whose creation was not confirmed, for a port that the Service no longer has, is still ours: it is
// deleted and does not keep the address from being released.
func TestFirewallRuleLeftByALostAnswerGoes(t *testing.T) {
	t.Parallel()
	for _, rule := range []simulator.FaultKind{simulator.FaultJobFails, simulator.FaultRouterRefuses, simulator.FaultLostAnswer} {
		for _, firewall := range []simulator.FaultKind{0, simulator.FaultLostAnswer, simulator.FaultJobFails} {
			for _, restart := range []bool{false, true} {
				for _, synced := range []bool{false, true} {
					parallel(t, fmt.Sprintf("rule %v, firewall %v, restart %v, synced %v", rule, firewall, restart, synced), func(t *testing.T) {
						env := served(t, []int{80}, by("w1"))
						env.edit("web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 443) })
						env.Inject(simulator.Fault{Command: "createLoadBalancerRule", Caller: "ccm", Kind: rule, Count: 1})
						if firewall != 0 {
							env.Inject(simulator.Fault{Command: "createFirewallRule", Caller: "ccm", Kind: firewall, Count: 1})
						}
						_ = env.sync("web", "w1") // whatever comes of it
						env.edit("web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
						if restart {
							env.restart()
						}
						if synced {
							env.mustSync("web", "w1")
							assert.Len(t, of(env.dump(), env.ip("web")), 3, "the address, a rule, a firewall rule")
						}
						env.removed("web")
					})
				}
			}
		}
	}
}

// open creates a firewall rule for port 443, as somebody else does, or a call of ours that was thought lost.
func (env *serviceEnv) open() {
	env.t.Helper()
	env.did(env.inspect.CreateFirewallRule(env.t.Context(), cloudstack.CreateFirewallRuleRequest{
		PublicIPID: env.address(env.ip("web")).ID, Protocol: "tcp", StartPort: 443, EndPort: 443, CIDRs: []string{"0.0.0.0/0"},
	}))
}

// A call whose answer was lost may take effect after the next read. The Service's record names the port until such a call
// must have ended; a rule for that port is ours until then, and foreign afterwards.
func TestFirewallRuleThatArrivesLate(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) *serviceEnv {
		t.Helper()
		env := served(t, []int{80, 443}, by("w1"))
		env.changed(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) }, "w1")
		return env
	}
	for _, restart := range []bool{false, true} {
		parallel(t, fmt.Sprintf("it does not keep the address, restart %v", restart), func(t *testing.T) {
			env := start(t)
			env.open()
			if restart {
				env.restart()
			}
			env.removed("web")
		})
	}
	parallel(t, "it goes", func(t *testing.T) {
		env := start(t)
		env.open()
		env.advance(5 * time.Minute)
		env.mustSync("web", "w1")
		assert.Len(t, of(env.dump(), env.ip("web")), 3, "the address, a rule, a firewall rule")
		assert.NotContains(t, env.get("web").Annotations[annotation.Addresses], "443")
	})
	parallel(t, "later it is somebody else's", func(t *testing.T) {
		env := start(t)
		require.Contains(t, env.get("web").Annotations[annotation.Addresses], "443")
		env.advance(5 * time.Minute)
		env.mustSync("web", "w1")
		require.NotContains(t, env.get("web").Annotations[annotation.Addresses], "443")
		env.open()
		ip := env.ip("web")
		require.NoError(t, env.remove("web"))
		assert.Len(t, of(env.dump(), ip), 2, "the address and the firewall rule")
	})
}

// A deletion that the router refused leaves the rule in state Deleting until the next change of the firewall. A Service
// that wants the same rule again gets a new one.
func TestFirewallRuleInStateDeletingIsReplaced(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		parallel(t, fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			env := newEnv(t)
			env.create("web", []int{80}, ranges("10.0.0.0/8"))
			env.mustSync("web", "w1")
			served := of(env.dump(), env.ip("web"))
			env.edit("web", ranges("172.16.0.0/12"))
			env.Inject(simulator.Fault{Command: "deleteFirewallRule", Caller: "ccm", Kind: simulator.FaultRouterRefuses, Count: 1})
			require.ErrorContains(t, env.sync("web", "w1"), "deleteFirewallRule")
			env.edit("web", ranges("10.0.0.0/8"))
			if restart {
				env.restart()
			}
			env.mustSync("web", "w1")
			address := env.address(env.ip("web"))
			rules := env.firewallAt(address.Address)
			require.Len(t, rules, 1)
			assert.Equal(t, []string{"Active", "10.0.0.0/8"}, []string{rules[0].State, rules[0].CIDRs[0]})
			assert.Equal(t, served, of(env.dump(), env.ip("web")))
			env.removed("web")
		})
	}
}
