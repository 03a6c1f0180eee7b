// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/simulator"
)

// An address that an operator handed over, or that another Service acquired, went to whoever asked for it while its Service
// had no ready endpoint, and so no rule in CloudStack.
func TestAddressStaysWithAServiceWithoutReadyEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		obtain func(*frameworkEnv) (ip string)
		then   func(*frameworkEnv)
	}{
		{"handed over", func(*frameworkEnv) string { return idleIP }, func(*frameworkEnv) {}},
		{
			"shared by a Service that is gone",
			func(env *frameworkEnv) string {
				return env.serves("friend/web", []int{25}, annotate(shareWith, victimNS))
			},
			func(env *frameworkEnv) { env.remove("friend/web") },
		},
	} {
		parallel(t, c.name, func(t *testing.T) {
			setup := setupOf(lbWorld)
			setup.tenancy = everyAddress
			withController(t, setup, func(env *frameworkEnv) {
				ip := c.obtain(env)
				env.runsOn("victim/web", "w1")
				env.serves("victim/web", []int{80}, at(ip), direct, local)
				env.runsOn("victim/web")
				time.Sleep(time.Minute)
				c.then(env)
				time.Sleep(time.Minute)
				assert.True(t, env.holds(ip), "the address is kept for the victim")
				for i, port := range []int{80, 443} {
					key := fmt.Sprintf("attacker/web%d", i)
					env.create(key, []int{port}, at(ip))
					time.Sleep(time.Minute)
					assert.False(t, env.served(key), "port %d", port)
					assert.Empty(t, grep(of(env.dump(), ip), "rule "), "port %d", port)
				}
				env.runsOn("victim/web", "w2")
				time.Sleep(time.Minute)
				assert.Equal(t, ip, env.ip("victim/web"))
				assert.Equal(t, []string{"w2"}, env.leads("victim/web"), "the victim is served again")
			})
		})
	}
}

// The deletion of one of two Services with the same address released it in a VPC, although the other showed it in its
// status. In an isolated network nobody released it afterwards.
func TestAddressStaysWithItsSecondOwner(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]controllerSetup{"isolated network": setupOf(lbWorld), "VPC": vpcSetup(100, "v1", "v2")} {
		for _, second := range []string{"victim/mail", "friend/mail"} {
			parallel(t, name+", "+second, func(t *testing.T) {
				withController(t, setup, func(env *frameworkEnv) {
					node := setup.nodes[0]
					before := env.addresses()
					ip := env.serves("victim/web", []int{80}, annotate(shareWith, friendNS))
					env.runsOn(second, node)
					env.serves(second, []int{25}, at(ip), direct, local)
					env.runsOn(second)
					time.Sleep(time.Minute)
					env.remove("victim/web")
					time.Sleep(time.Minute)
					assert.Empty(t, grep(env.said(), "AddressReleased"))
					require.True(t, env.holds(ip), "the address is kept for the second Service")
					env.runsOn(second, node)
					time.Sleep(time.Minute)
					assert.Equal(t, ip, env.ip(second))
					assert.Equal(t, []string{node}, env.leads(second))
					env.remove(second)
					assert.Equal(t, before, env.addresses(), "the last of them releases it")
				})
			})
		}
	}
}

// While the only rule of an address was deleted and created again, Services of other namespaces got in.
func TestAddressStaysWhileItsRuleIsReplaced(t *testing.T) {
	t.Parallel()
	setup := setupOf(lbWorld)
	setup.tenancy = everyAddress
	setup.Latency = simulator.LatencyProfile{
		Call: 20 * time.Millisecond, Job: 100 * time.Millisecond,
		Jobs: map[string]time.Duration{"deleteLoadBalancerRule": 4 * time.Second, "createLoadBalancerRule": 4 * time.Second},
	}
	withController(t, setup, func(env *frameworkEnv) {
		env.serves("victim/web", []int{80}, at(idleIP))
		time.Sleep(time.Minute)
		env.edit("victim/web", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31999 }) // cannot be changed in place
		const flood = 40
		for i := range flood {
			time.Sleep(300 * time.Millisecond)
			env.create(fmt.Sprintf("attacker/web%d", i), []int{8000 + i}, at(idleIP))
		}
		time.Sleep(5 * time.Minute)
		for i := range flood {
			assert.False(t, env.served(fmt.Sprintf("attacker/web%d", i)), i)
		}
		rules := env.rulesAt(idleIP)
		require.Len(t, rules, 1)
		assert.Equal(t, 31999, rules[0].PrivatePort)
	})
}

// internal asks for an address of the tier.
var internal = annotate(annotation.Internal, "true")

// share-with did not hold for internal addresses: another namespace was served on a victim's, or was told the name of the
// victim's rule.
func TestInternalAddressOfAnotherNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	for name, port := range map[string]int{"another port": 81, "the same port": 80} {
		parallel(t, name, func(t *testing.T) {
			withController(t, vpcSetup(100, "i1", "i2"), func(env *frameworkEnv) {
				ip := env.serves("victim/web", []int{80}, internal)
				rules := env.internal()
				require.Len(t, rules, 1)
				before := env.dump()
				env.count()
				env.create("attacker/web", []int{port}, internal, at(ip))
				time.Sleep(5 * time.Minute)
				assert.False(t, env.served("attacker/web"))
				assert.Equal(t, before, env.dump())
				assert.Contains(t, env.ready("attacker/web").Message, "share-with", "the remedy")
				for _, secret := range []string{rules[0].Name, "victim/web"} {
					assert.NotContains(t, env.says("attacker/web"), secret)
				}
				if port == 81 {
					env.edit("victim/web", annotate(shareWith, attackerNS))
					time.Sleep(15 * time.Minute)
					assert.True(t, env.served("attacker/web"), "its owner shares it")
				}
			})
		})
	}
}

// The first and the last address of a tier's network were accepted as internal addresses, which no router answers on.
func TestNetworkAndBroadcastAddressAreRefused(t *testing.T) {
	t.Parallel()
	for _, ip := range []string{"10.2.2.0", "10.2.2.255"} {
		parallel(t, ip, func(t *testing.T) {
			withController(t, vpcSetup(100, "i1", "i2"), func(env *frameworkEnv) {
				before := env.dump()
				env.create("web", []int{80}, internal, at(ip))
				time.Sleep(time.Minute)
				assert.False(t, env.served("web"))
				assert.Equal(t, before, env.dump())
				assert.Zero(t, env.sent("createLoadBalancer"))
				assert.Contains(t, env.ready("web").Message, ip)
			})
		})
	}
}

// The deletion of a Service whose address others use said that nothing proves who acquired the address.
func TestDeletedCoUserIsNotToldThatNothingProvesTheAddress(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][2]string{"the first is deleted": {"web", "mail"}, "the second is deleted": {"mail", "web"}} {
		parallel(t, name, func(t *testing.T) {
			withController(t, setupOf(lbWorld), func(env *frameworkEnv) {
				ip := env.serves("web", []int{80})
				env.serves("mail", []int{25}, at(ip))
				env.count()
				env.remove(keys[0])
				time.Sleep(time.Minute)
				assert.Empty(t, grep(env.said(), "nothing proves"))
				assert.Equal(t, ip, env.ip(keys[1]))
				assert.True(t, env.holds(ip))
			})
		})
	}
}

// While the rules of a Service that was deleted without its finalizer were being removed, another namespace got its address.
func TestAddressStaysUntilItsServiceIsCleanedUp(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(*frameworkEnv){
		"deleted": func(env *frameworkEnv) { env.vanishes("victim/web") },
		"of another type": func(env *frameworkEnv) {
			env.edit("victim/web", func(s *corev1.Service) { s.Finalizers, s.Spec.Type = nil, corev1.ServiceTypeClusterIP })
		},
	} {
		parallel(t, name, func(t *testing.T) {
			setup := measuredSetup(t, everyAddress)
			setup.world = lbWorld
			withController(t, setup, func(env *frameworkEnv) {
				env.serves("victim/web", []int{80, 81, 443}, at(idleIP))
				time.AfterFunc(30*time.Second, env.Inject(simulator.Fault{Command: "deleteLoadBalancerRule", Caller: "ccm", Kind: simulator.FaultErrorBefore}))
				goes(env)
				time.Sleep(time.Second)
				env.create("attacker/web", []int{8443}, at(idleIP))
				var seen []int
				for begun := time.Now(); time.Since(begun) < 10*time.Minute && !env.served("attacker/web"); time.Sleep(50 * time.Millisecond) {
					ports := []int{}
					for _, r := range env.rulesAt(idleIP) {
						ports = append(ports, r.PublicPort)
					}
					if slices.Contains(ports, 8443) && len(ports) > 1 {
						seen = ports
					}
				}
				assert.Empty(t, seen, "rules of both were on the address")
				assert.True(t, env.served("attacker/web"), "afterwards the address is free")
			})
		})
	}
}

// A Service that shows a hostname in place of its address ranked behind its guests, so that one of these decided who else
// may use the address.
func TestOwnerWithAHostnameDecidesWhoShares(t *testing.T) {
	t.Parallel()
	setup := setupOf(lbWorld)
	setup.tenancy = everyAddress
	withController(t, setup, func(env *frameworkEnv) {
		env.serves("victim/web", []int{80}, at(idleIP), annotate(annotation.Hostname, "web.example.org", shareWith, friendNS))
		env.serves("friend/mail", []int{25}, at(idleIP), annotate(shareWith, "*"))
		for _, restart := range []bool{false, true} {
			if restart {
				env.stop()
				env.start()
				time.Sleep(time.Minute)
			}
			env.create("attacker/web", []int{443}, at(idleIP))
			time.Sleep(time.Minute)
			assert.False(t, env.served("attacker/web"), "restarted: %v", restart)
			env.remove("attacker/web")
		}
		env.edit("victim/web", unset(annotation.Hostname))
		time.Sleep(time.Minute)
		assert.Equal(t, idleIP, env.ip("victim/web"))
		assert.False(t, apimeta.IsStatusConditionTrue(env.get("victim/web").Status.Conditions, "csccm.io/LoadBalancerAddress"), "the status shows the address itself")
	})
}
