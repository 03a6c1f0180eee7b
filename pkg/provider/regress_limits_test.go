// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/simulator"
)

// measuredSetup is roomyWorld with the delays of a management server, under a policy.
func measuredSetup(t *testing.T, tenancy string) controllerSetup {
	t.Helper()
	measured, err := simulator.Profile("simulator")
	require.NoError(t, err)
	setup := setupOf(roomyWorld)
	setup.Latency, setup.tenancy = measured, tenancy
	return setup
}

// manyServed counts the Services of a namespace that are served, of n.
func (env *frameworkEnv) manyServed(namespace string, n int) (served int) {
	for i := range n {
		if env.served(fmt.Sprintf("%s/web%d", namespace, i)) {
			served++
		}
	}
	return served
}

// Services of one namespace that were created at the same time got more addresses than the namespace may have.
func TestAddressLimitHoldsForServicesCreatedAtOnce(t *testing.T) {
	t.Parallel()
	withController(t, measuredSetup(t, `{"limits":{"maxAddressesPerNamespace":3}}`), func(env *frameworkEnv) {
		const n = 20
		before := len(env.addresses())
		for i := range n {
			env.create(fmt.Sprintf("attacker/web%d", i), []int{80})
		}
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 3, env.manyServed(attackerNS, n))
		assert.Len(t, env.addresses(), before+3)
	})
}

// Services with keep-ip that were deleted at the same time kept more addresses than the namespace may keep, above all while
// the API server did not take their status.
func TestKeptAddressLimitHoldsForServicesDeletedAtOnce(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		parallel(t, fmt.Sprintf("API server broken: %v", broken), func(t *testing.T) {
			withController(t, measuredSetup(t, `{"limits":{"keepIP":{"maxPerNamespace":2}}}`), func(env *frameworkEnv) {
				const n = 10
				before := len(env.addresses())
				for i := range n {
					env.create(fmt.Sprintf("attacker/web%d", i), []int{80})
				}
				time.Sleep(5 * time.Minute)
				require.Equal(t, n, env.manyServed(attackerNS, n))
				for i := range n {
					env.edit(fmt.Sprintf("attacker/web%d", i), annotate(annotation.KeepIP, "true"))
				}
				time.Sleep(time.Minute)
				var fails atomic.Bool
				fails.Store(broken)
				env.react("patch", "services/status", func(clienttesting.Action) (bool, runtime.Object, error) {
					return fails.Load(), nil, errors.New("the API server is broken")
				})
				for i := range n {
					env.deletes(fmt.Sprintf("attacker/web%d", i))
				}
				time.Sleep(time.Minute)
				fails.Store(false)
				time.Sleep(10 * time.Minute)
				assert.Len(t, env.addresses(), before+2)
			})
		})
	}
}

// A namespace that shared each address with a second Service, which shows a host name in place of its address, and deleted the
// first got ever more addresses.
func TestAddressLimitHoldsForSharedAddresses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Service){
		"rules":     func(*corev1.Service) {},
		"host name": annotate(annotation.Hostname, "web.example.org"),
	} {
		parallel(t, name, func(t *testing.T) {
			setup := setupOf(roomyWorld)
			setup.tenancy = `{"limits":{"maxAddressesPerNamespace":3}}`
			withController(t, setup, func(env *frameworkEnv) {
				before := len(env.addresses())
				for i := range 6 {
					first, second := fmt.Sprintf("attacker/first%d", i), fmt.Sprintf("attacker/second%d", i)
					env.create(first, []int{80})
					time.Sleep(15 * time.Second)
					if env.served(first) {
						env.create(second, []int{25}, at(env.ip(first)), change)
						time.Sleep(15 * time.Second)
					}
					env.remove(first)
				}
				assert.Len(t, env.addresses(), before+3)
			})
		})
	}
}

// What a Service gives up without releasing its address ended nobody's wait: others waited up to ten minutes.
func TestWhatIsGivenUpEndsAWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tenancy string
		waits   func(address string) []func(*corev1.Service)
		gives   func(*frameworkEnv)
	}{
		"a port": {
			waits: func(address string) []func(*corev1.Service) { return []func(*corev1.Service){at(address)} },
			gives: func(env *frameworkEnv) {
				env.edit("web", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] })
			},
		},
		"an address of the user's": {
			tenancy: `{"limits":{"maxAddressesPerNamespace":1}}`,
			waits:   func(string) []func(*corev1.Service) { return nil },
			gives:   func(env *frameworkEnv) { env.remove("web") },
		},
	} {
		parallel(t, name, func(t *testing.T) {
			setup := setupOf(roomyWorld)
			setup.tenancy = c.tenancy
			withController(t, setup, func(env *frameworkEnv) {
				const address = "203.0.113.31"
				env.create("web", []int{80, 81}, at(address))
				time.Sleep(15 * time.Second)
				require.True(t, env.served("web"))
				env.create("waits", []int{80}, c.waits(address)...)
				time.Sleep(30 * time.Minute)
				require.False(t, env.served("waits"))
				c.gives(env)
				time.Sleep(15 * time.Second)
				assert.True(t, env.served("waits"))
			})
		})
	}
}

// ports returns n port numbers that are a step apart.
func ports(n, step int) []int {
	var out []int
	for i := range n {
		out = append(out, 8000+i*step)
	}
	return out
}

// The limit of ports counted those of the Service, and not the up to 32 port forwardings that each of them became.
func TestPortLimitCountsPortForwardings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ports  int
		spread string
		fits   bool
	}{{100, "32", false}, {4, "32", false}, {3, "32", true}} {
		parallel(t, fmt.Sprintf("%d ports by %s", c.ports, c.spread), func(t *testing.T) {
			withController(t, vpcSetup(1000, "v1", "v2"), func(env *frameworkEnv) {
				before := env.dump()
				env.create("web", ports(c.ports, 1), direct, annotate(annotation.DirectSpread, c.spread))
				time.Sleep(10 * time.Minute)
				assert.Equal(t, c.fits, env.served("web"))
				if c.fits {
					return
				}
				assert.Equal(t, before, env.dump())
				assert.Zero(t, env.sent("createPortForwardingRule"))
				message := env.ready("web").Message
				for _, part := range []string{"direct-spread", fmt.Sprint(c.ports * 32), "100"} {
					assert.Contains(t, message, part)
				}
			})
		})
	}
}

// One Service took all free numbers of an ACL list before the item that denies everything, and the next one failed.
func TestPortsLeaveRoomInTheACLList(t *testing.T) {
	t.Parallel()
	withController(t, vpcSetup(20, "v1", "v2"), func(env *frameworkEnv) { // 18 numbers are free
		env.serves("tidy/web", ports(20, 1))
		assert.Len(t, grep(env.dump(), "Service tidy/web"), 1, "contiguous ports need one item")
		env.create("greedy/web", ports(20, 2))
		time.Sleep(10 * time.Minute)
		if !env.served("greedy/web") {
			ready := env.ready("greedy/web")
			assert.Equal(t, metav1.ConditionFalse, ready.Status)
			assert.Contains(t, ready.Message, "ACL")
		}
		env.create("other/web", []int{443})
		time.Sleep(5 * time.Minute)
		assert.True(t, env.served("other/web"))
		assert.Equal(t, metav1.ConditionTrue, env.ready("other/web").Status, env.ready("other/web").Message)
		assert.Len(t, grep(grep(env.dump(), "acl acl-1"), "443-443"), 1)
	})
}

// apart returns n source ranges that cannot be joined.
func apart(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("198.51.100.%d/32", 2*i))
	}
	return out
}

// More than 60 source ranges on a load balancer rule stopped the router's HAProxy for all tenants of the network.
func TestMoreSourceRangesThanTheRouterTakesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		setup  controllerSetup
		ranges int
		change func(*corev1.Service)
		fits   bool
	}{
		{"60", setupOf(lbWorld), 60, nil, true},
		{"61", setupOf(lbWorld), 61, nil, false},
		{"61 by annotation", setupOf(lbWorld), 61, func(s *corev1.Service) {
			annotate(annotation.SourceCIDRs, strings.Join(apart(61), ","))(s)
			s.Spec.LoadBalancerSourceRanges = nil
		}, false},
		{"61 on a VPC tier", vpcSetup(1000, "v1", "v2"), 61, nil, false},
		{"61 on a VPC tier, mode direct", vpcSetup(1000, "v1", "v2"), 61, annotate(annotation.Mode, annotation.Direct, annotation.DirectSpread, "1"), true},
	} {
		parallel(t, c.name, func(t *testing.T) {
			withController(t, c.setup, func(env *frameworkEnv) {
				env.count()
				change := func(*corev1.Service) {}
				if c.change != nil {
					change = c.change
				}
				env.create("web", []int{80}, ranges(apart(c.ranges)...), change)
				time.Sleep(5 * time.Minute)
				assert.Equal(t, c.fits, env.served("web"), env.says("web"))
				if c.fits {
					return
				}
				assert.Empty(t, env.wrote(), "it is refused before the first write")
				ready := env.ready("web")
				assert.Equal(t, metav1.ConditionFalse, ready.Status)
				assert.Contains(t, ready.Message, "61")
				assert.Contains(t, ready.Message, "60")
				if c.setup.vpc {
					assert.Contains(t, ready.Message, "direct", "a remedy")
				}
			})
		})
	}
}

// The limit was not checked again when a Service that is served got more source ranges.
func TestSourceRangesOfAServedServiceAreLimited(t *testing.T) {
	t.Parallel()
	withController(t, setupOf(lbWorld), func(env *frameworkEnv) {
		env.serves("web", []int{80}, ranges(apart(60)...))
		before := env.dump()
		env.edit("web", ranges(apart(61)...))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, before, env.dump(), "what is served goes on")
		assert.Equal(t, metav1.ConditionFalse, env.ready("web").Status)
		assert.Contains(t, env.ready("web").Message, "61")
	})
}
