// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// A Service on an address with a port forwarding or static NAT is refused before the first write. The namespace that
// no policy restricts shows that this protects operators from their own mistakes too.
func TestTenantAForeignFirewallRules(t *testing.T) {
	t.Parallel()
	const vpcIP = "203.0.113.50"
	for name, tc := range map[string]struct {
		ip      string
		port    int
		options []envOption
		nodes   []string
		prepare func(*serviceEnv)
	}{
		"port forwarding":                     {ip: forwardedIP, port: 2222},
		"port forwarding, wide firewall rule": {ip: wideFirewallIP, port: 2222},
		"static NAT":                          {ip: staticIP, port: 2222},
		"VPC": {
			ip: vpcIP, port: 2222, options: []envOption{withVPC}, nodes: []string{"v1", "v2"},
			prepare: func(env *serviceEnv) {
				tier := env.items("listNetworks", "network", "keyword", "tier")[0]["id"].(string)
				env.forward(vpcIP, 2222, "v2", "networkid", tier)
			},
		},
	} {
		for _, namespace := range []string{attackerNS, trustedNS} {
			parallel(t, name+" from "+namespace, func(t *testing.T) {
				env := newTenantEnv(t, tc.options...)
				if tc.prepare != nil {
					tc.prepare(env)
				}
				if tc.nodes != nil {
					env.nodes = tc.nodes
				}
				before := env.world()
				key := namespace + "/ssh"
				env.create(key, []int{tc.port}, at(tc.ip), ranges("10.0.0.0/8"))
				env.refused(key, reasonNotAllowed, plan.ReasonPortTaken, plan.ReasonAddressUnavailable)
				env.restart()
				require.Error(t, env.sync(key))
				env.drift()
				require.NoError(t, env.remove(key))
				env.same(before, "the deletion")
			})
		}
	}
}

// A firewall rule that somebody opened on an idle address is not ours before our load balancer rule uses its port.
func TestTenantAFirewallRuleOpenedBeforehand(t *testing.T) {
	t.Parallel()
	const key = trustedNS + "/web"
	start := func(t *testing.T) *serviceEnv {
		t.Helper()
		env := newTenantEnv(t)
		env.create(key, []int{80}, at(openedIP), ranges("10.0.0.0/8"))
		return env
	}
	parallel(t, "the load balancer rule comes first, and access is never wider than the source ranges", func(t *testing.T) {
		env := start(t)
		env.reset()
		env.watch(func(command string) {
			for _, r := range env.access(openedIP, 80) {
				assert.Equal(t, []string{r}, intersection([]string{"10.0.0.0/8"}, []string{r}), "after %s", command)
			}
		})
		env.mustSync(key)
		env.watch(nil)
		onAddress := env.writes()
		require.NotEmpty(t, onAddress)
		for _, command := range onAddress {
			if command == "createLoadBalancerRule" {
				break
			}
			assert.NotContains(t, []string{"deleteFirewallRule", "createFirewallRule"}, command, "before the load balancer rule")
		}
		assert.Equal(t, []string{"10.0.0.0/8"}, env.access(openedIP, 80))
	})
	for name, fault := range map[string]simulator.Fault{
		"the load balancer rule is refused": {Command: "createLoadBalancerRule", Kind: simulator.FaultErrorBefore, HTTPStatus: 537, Text: "conflict"},
		"its job fails":                     {Command: "createLoadBalancerRule", Kind: simulator.FaultJobFails},
		"it runs into the account's limit":  {Command: "createLoadBalancerRule", Kind: simulator.FaultErrorBefore, HTTPStatus: 532, Text: "limit"},
	} {
		parallel(t, name, func(t *testing.T) {
			env := start(t)
			firewall := grep(of(env.world(), openedIP), "firewall")
			require.Len(t, firewall, 1)
			remove := env.Inject(fault)
			require.Error(t, env.sync(key))
			assert.Equal(t, firewall, grep(of(env.world(), openedIP), "firewall"))
			env.restart()
			require.Error(t, env.sync(key))
			assert.Equal(t, firewall, grep(of(env.world(), openedIP), "firewall"))
			remove()
			env.mustSync(key)
			assert.Equal(t, []string{"10.0.0.0/8"}, env.access(openedIP, 80))
		})
	}
	parallel(t, "deleted before it was served", func(t *testing.T) {
		env := start(t)
		before := env.world()
		defer env.Inject(simulator.Fault{Command: "createLoadBalancerRule", Kind: simulator.FaultErrorBefore, HTTPStatus: 537, Text: "conflict"})()
		require.Error(t, env.sync(key))
		require.NoError(t, env.remove(key))
		env.same(before, "the deletion")
	})
}
