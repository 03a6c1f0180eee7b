// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/simulator"
)

// createAll creates Services web0, web1 ... of a namespace. No time passes, and no watch has too many changes to report.
func (env *frameworkEnv) createAll(namespace string, n int, ports []int) {
	env.t.Helper()
	for i := range n {
		env.create(fmt.Sprintf("%s/web%d", namespace, i), ports)
		synctest.Wait()
	}
}

// until returns how long it takes until a Service is served.
func (env *frameworkEnv) until(key string, limit time.Duration) time.Duration {
	env.t.Helper()
	begun := time.Now()
	for time.Since(begun) < limit {
		if env.served(key) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(begun)
}

// Many Services of one namespace made a Service of another namespace wait for all of them.
func TestManyServicesDoNotDelayAnotherNamespace(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Minute
	var alone, behind time.Duration
	withController(t, measuredSetup(t, ""), func(env *frameworkEnv) {
		env.create("victim/web", []int{80, 443})
		alone = env.until("victim/web", limit)
		require.True(t, env.served("victim/web"))
	})
	withController(t, measuredSetup(t, ""), func(env *frameworkEnv) {
		env.createAll(attackerNS, 200, []int{80, 443})
		env.create("victim/web", []int{80, 443})
		behind = env.until("victim/web", limit)
	})
	t.Log("alone", alone, "behind 200 Services", behind)
	assert.LessOrEqual(t, behind, alone*3/2+alone, "half as long again as alone, and one more Service")
}

// When an address was freed, a Service that was refused nevertheless took the one wake-up, and the others went on waiting.
func TestFreedAddressIsNotLostToARefusedService(t *testing.T) {
	t.Parallel()
	setup := measuredSetup(t, `{"limits":{"maxAddressesPerNamespace":1}}`)
	setup.world = limitedWorld(7) // five are in use
	withController(t, setup, func(env *frameworkEnv) {
		env.serves("attacker/first", []int{80})
		env.serves("friend/web", []int{80})
		env.createAll(attackerNS, 5, []int{80}) // more than the namespace may have, whatever is free
		time.Sleep(30 * time.Second)
		env.create("victim/web", []int{80})
		time.Sleep(20 * time.Minute)
		require.Zero(t, env.manyServed(attackerNS, 5))
		require.False(t, env.served("victim/web"))
		env.remove("friend/web")
		took := env.until("victim/web", 10*time.Minute)
		t.Log("served after", took)
		assert.LessOrEqual(t, took, 5*time.Second)
	})
}

// Each change of an annotation ended the wait of a Service that cannot be served, so that its owner could make thousands of
// calls.
func TestChangedAnnotationsCauseFewCalls(t *testing.T) {
	t.Parallel()
	setup := measuredSetup(t, "")
	setup.world = limitedWorld(5) // all are in use
	withController(t, setup, func(env *frameworkEnv) {
		const n = 60
		env.createAll(attackerNS, n, []int{80})
		time.Sleep(10 * time.Minute)
		flip := func(period time.Duration) (calls []string) {
			env.count()
			for second := time.Duration(0); second < period; second += 2 * time.Second {
				algorithm := []string{annotation.LeastConn, annotation.RoundRobin}[int(second/(2*time.Second))%2]
				for i := range n {
					env.edit(fmt.Sprintf("attacker/web%d", i), annotate(annotation.Algorithm, algorithm))
					synctest.Wait()
				}
				time.Sleep(2 * time.Second)
			}
			calls, _ = env.count()
			return calls
		}
		for minute := range 2 {
			calls := flip(time.Minute)
			assert.LessOrEqual(t, len(calls), 600, "minute %d: %s", minute, tally(calls))
		}
	})
}

// drifting is lbWorld with the default drift period.
func drifting() controllerSetup {
	setup := setupOf(lbWorld)
	setup.drift = driftPeriod
	return setup
}

// onEdge serves a Service by the nodes with a label.
var onEdge = annotate(annotation.NodeSelector, "tier=edge")

// A change of the cluster's nodes that left those of a Service the same ended the repair of its load balancer for good.
func TestDeletedRuleReturnsAfterNodesChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		service func(*corev1.Service)
		happens func(*frameworkEnv)
	}{
		{"a node joined, policy Local", local, func(env *frameworkEnv) { env.joins("w3") }},
		{"a node left, policy Local", local, func(env *frameworkEnv) { env.leaves("w2") }},
		{"a node joined, node selector", onEdge, func(env *frameworkEnv) { env.joins("w3") }},
		{"a node left, node selector", onEdge, func(env *frameworkEnv) { env.leaves("w2") }},
		{"the autoscaler removed a node", func(*corev1.Service) {}, func(env *frameworkEnv) {
			env.node("w2", taintNode("ToBeDeletedByClusterAutoscaler"))
			time.Sleep(time.Minute)
			env.leaves("w2")
		}},
	} {
		parallel(t, c.name, func(t *testing.T) {
			withController(t, drifting(), func(env *frameworkEnv) {
				env.label("w1", "tier", "edge")
				env.runsOn("web", "w1")
				ip := env.serves("web", []int{80}, c.service)
				c.happens(env)
				time.Sleep(time.Minute)
				require.Equal(t, []string{"w1"}, env.members("web"))

				env.deleteRules(ip)
				time.Sleep(2 * driftPeriod)
				assert.Len(t, env.rulesAt(ip), 1, "the rule that somebody deleted is back")
				assert.Len(t, env.firewallAt(ip), 1, "the firewall rule that somebody deleted is back")
			})
		})
	}
}

// After a node joined, the members of a Service with policy Local no longer followed its Pods.
func TestEndpointsAreFollowedAfterANodeJoined(t *testing.T) {
	t.Parallel()
	withController(t, drifting(), func(env *frameworkEnv) {
		env.runsOn("web", "w1")
		env.serves("web", []int{80}, local)
		require.Equal(t, []string{"w1"}, env.members("web"))
		env.joins("w3")
		time.Sleep(time.Minute)
		env.runsOn("web", "w2")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"w2"}, env.members("web"))
	})
}

// After a node joined or left, a UDP port stayed on a node that died.
func TestUDPPortLeavesADeadNodeAfterNodesChanged(t *testing.T) {
	t.Parallel()
	measured, err := simulator.Profile("simulator")
	require.NoError(t, err)
	for name, happens := range map[string]func(*frameworkEnv){
		"a node joined": func(env *frameworkEnv) { env.joins("w4") },
		"a node left":   func(env *frameworkEnv) { env.leaves("w3") },
	} {
		parallel(t, name, func(t *testing.T) {
			setup := drifting()
			setup.Latency, setup.nodes = measured, []string{"w1", "w2", "w3"}
			withController(t, setup, func(env *frameworkEnv) {
				for _, node := range []string{"w1", "w2"} {
					env.label(node, "tier", "edge")
				}
				env.serves("web", nil, withUDP(53), onEdge)
				happens(env)
				time.Sleep(time.Minute)
				require.Len(t, env.leads("web"), 1)
				node := env.leads("web")[0]
				other := map[string]string{"w1": "w2", "w2": "w1"}[node]
				env.node(node, readiness(corev1.ConditionUnknown))
				time.Sleep(5 * time.Second)
				assert.Equal(t, []string{other}, env.leads("web"))
			})
		})
	}
}
