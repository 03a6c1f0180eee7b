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

func TestFlaw10FailedReleaseLeaksNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"refused":         {Kind: simulator.FaultErrorBefore},
		"the job fails":   {Kind: simulator.FaultJobFails},
		"the answer lost": {Kind: simulator.FaultLostAnswer},
	} {
		for _, restarted := range []bool{false, true} {
			parallel(t, fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				env := newEnv(t)
				before := env.dump()
				env.create("web", []int{80})
				env.mustSync("web", "w1")
				fault.Command, fault.Caller, fault.Count = "disassociateIpAddress", "ccm", 1
				env.Inject(fault)
				// The framework drops its finalizer when GetLoadBalancer says that nothing exists.
				for attempt := 0; ; attempt++ {
					require.Less(t, attempt, 5)
					_, exists, err := env.lb.GetLoadBalancer(t.Context(), "", env.get("web"))
					require.NoError(t, err)
					if !exists {
						break
					}
					if env.lb.EnsureLoadBalancerDeleted(t.Context(), "", env.get("web")) == nil {
						break
					}
					if restarted {
						env.restart()
					}
				}
				assert.Equal(t, before, env.dump())
			})
		}
	}
}

func TestFlaw11CrashAfterTheAddressLeaksNothing(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"associateIpAddress", "createTags", "createLoadBalancerRule"} {
		for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer} {
			for _, deleted := range []bool{false, true} {
				parallel(t, fmt.Sprintf("%s %s, deleted %v", command, kind, deleted), func(t *testing.T) {
					env := newEnv(t)
					before := env.dump()
					env.create("web", []int{80})
					env.Inject(simulator.Fault{Command: command, Caller: "ccm", Kind: kind, Count: 1})
					_ = env.sync("web", "w1")
					env.restart() // only CloudStack and the Service keep their state
					if !deleted {
						require.NoError(t, env.repeat(func(env *serviceEnv) error { return env.sync("web", "w1") }))
						assert.Len(t, grep(env.dump(), webTags), 1, "one address, whatever happened")
					}
					require.NoError(t, env.repeat(removeWeb))
					assert.Equal(t, before, env.dump())
				})
			}
		}
	}
}

func TestFlaw19DeletionInAProject(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withProject)
	before := env.dump()
	env.create("web", []int{80, 81})
	env.mustSync("web", "p1")
	require.NotEqual(t, before, env.dump())
	env.restart()
	env.reset()
	env.removed(before, "web")
	for _, c := range env.Ledger().Find("list*", "ccm") {
		if c.Command == "listPublicIpAddresses" || c.Command == "listLoadBalancerRules" || c.Command == "listFirewallRules" {
			assert.Equal(t, env.project, c.Params["projectid"], c.Command)
		}
	}
}

func TestFlaw20FailedReadOfAnAddressIsAnError(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80})
	env.mustSync("web", "w1")
	want := env.dump()
	env.restart()
	env.reset()
	env.Inject(simulator.Fault{Command: "listPublicIpAddresses", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 431, CSErrorCode: 9999, Text: "no such address"})
	require.ErrorContains(t, env.remove("web"), "no such address")
	for _, c := range env.Ledger().Find("listNetworks", "ccm") {
		assert.NotEmpty(t, c.Params["id"], "no list of all networks")
	}
	assert.Equal(t, want, env.dump(), "nothing was done on a guess")
}

func TestFlaw21AnotherAddressIsTaken(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	before := env.dump()
	env.create("web", []int{80})
	env.mustSync("web", "w1")
	old := env.ip("web")
	for _, ip := range []string{"203.0.113.77", "203.0.113.31"} { // a free one, and one that the account holds
		env.edit("web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip })
		env.mustSync("web", "w1")
		assert.Equal(t, ip, env.ip("web"))
		assert.Len(t, of(env.dump(), ip), 3, "the address, a rule, a firewall rule")
		assert.Empty(t, of(env.dump(), old), "the old one was ours")
		old = ip
	}
	env.removed(before, "web")
}

func TestFlaw22FirewallRuleThatWouldNotGo(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"refused":       {Kind: simulator.FaultErrorBefore},
		"the job fails": {Kind: simulator.FaultJobFails},
	} {
		parallel(t, name, func(t *testing.T) {
			env := newEnv(t)
			before := env.dump()
			env.create("web", []int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.31" }) // the user's own: not released
			env.mustSync("web", "w1")
			fault.Command, fault.Caller, fault.Count = "deleteFirewallRule", "ccm", 1
			env.Inject(fault)
			require.Error(t, env.remove("web"), "the framework tries again")
			_, exists, err := env.lb.GetLoadBalancer(t.Context(), "", env.get("web"))
			require.NoError(t, err)
			assert.True(t, exists)
			env.restart()
			require.NoError(t, env.repeat(removeWeb))
			assert.Equal(t, before, env.dump(), "nothing is left open")
			assert.NotEmpty(t, env.event(plan.ReasonAddressKept))
		})
	}
}
