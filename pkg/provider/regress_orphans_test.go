// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// An address that its Service left to a rule made by hand was reported in each round and never released after that rule had
// been deleted.
func TestLeftOverAddressWithoutRulesIsReleased(t *testing.T) {
	t.Parallel()
	setup := drifting()
	setup.cleanOrphans = true
	withController(t, setup, func(env *frameworkEnv) {
		before := env.dump()
		ip := env.serves("web", []int{80})
		rule, _ := env.Admin("createLoadBalancerRule", "name", "by-hand", "algorithm", "roundrobin", "publicipid", env.address(ip).ID,
			"publicport", "8443", "privateport", "8443", "openfirewall", "false")["id"].(string)
		require.NotEmpty(t, rule)
		env.remove("web")
		time.Sleep(3 * driftPeriod)
		require.True(t, env.holds(ip), "somebody else uses the address")
		env.Admin("deleteLoadBalancerRule", "id", rule)
		time.Sleep(3 * driftPeriod)
		assert.Equal(t, before, env.dump())
	})
}

// A left-over address was reported only in the second drift round, without its address where nothing was on it.
func TestLeftOverAddressIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]bool{"with rules": false, "without rules": true} {
		parallel(t, name, func(t *testing.T) {
			withController(t, drifting(), func(env *frameworkEnv) {
				ip := env.serves("web", []int{80})
				env.stop()
				env.vanishes("web")
				if empty {
					env.deleteRules(ip)
				}
				env.count()
				env.start()
				time.Sleep(time.Minute)
				assert.NotEmpty(t, grep(env.said(), ip), "an Event names the address")
				assert.NotZero(t, env.metric("cloudstack_orphans"))
				assert.True(t, env.holds(ip), "nothing is removed without CleanOrphans")
			})
		})
	}
}

// Only the configured project was searched for what Services that are gone left.
func TestOrphansInAProjectThatAServiceNames(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{false, true} {
		parallel(t, fmt.Sprintf("clean %v", clean), func(t *testing.T) {
			setup := setupOf(projectWorld)
			setup.drift, setup.cleanOrphans, setup.tenancy, setup.nodes = driftPeriod, clean, everyAddress, []string{"w1", "p1", "p2"}
			withController(t, setup, func(env *frameworkEnv) {
				env.project = projectID
				inProject := annotate(annotation.Project, "dev")
				env.serves("web", []int{80}, inProject)
				before := env.dump()
				ip := env.serves("mail", []int{25}, inProject)
				env.stop()
				env.vanishes("mail")
				env.count()
				env.start()
				time.Sleep(3 * driftPeriod)
				assert.NotEmpty(t, grep(env.said(), ip), "an Event names the address")
				if clean {
					assert.Equal(t, before, env.dump())
				} else {
					assert.True(t, env.holds(ip))
				}
			})
		})
	}
}

// Rules, port forwardings and ACL items kept the former id of a cluster, by which nobody looked for them any more.
func TestOrphansOfAFormerClusterIDAreRemoved(t *testing.T) {
	t.Parallel()
	for _, c := range kindsOfServices {
		parallel(t, c.name, func(t *testing.T) {
			setup := c.setup()
			setup.clusterID, setup.drift, setup.cleanOrphans = formerID, driftPeriod, true
			withController(t, setup, func(env *frameworkEnv) {
				before := env.dump()
				env.serves("web", []int{80, 81, 443}, c.changes...)
				env.stop()
				env.vanishes("web")
				env.setup.clusterID, env.setup.formerIDs = laterID, formerID
				env.start()
				time.Sleep(3 * driftPeriod)
				assert.Equal(t, before, env.dump())
			})
		})
	}
}

type kindOfService struct {
	name    string
	setup   func() controllerSetup
	changes []func(*corev1.Service)
}

// kindsOfServices are Services that leave different objects in CloudStack, all with tags.
var kindsOfServices = []kindOfService{
	{"rules", drifting, nil},
	{"port forwardings", drifting, []func(*corev1.Service){direct}},
	{"rules on a VPC tier", func() controllerSetup { return vpcSetup(100, "v1", "v2") }, nil},
	{"internal", func() controllerSetup { return vpcSetup(100, "i1", "i2") }, []func(*corev1.Service){annotate(annotation.Internal, "true")}},
}

// A Service whose finalizer somebody removed left its rules and an open firewall for ever, also while the controller ran.
func TestServiceDeletedWithoutFinalizerIsCleanedUp(t *testing.T) {
	t.Parallel()
	for _, c := range kindsOfServices {
		parallel(t, c.name, func(t *testing.T) {
			withController(t, c.setup(), func(env *frameworkEnv) {
				before := env.dump()
				env.serves("web", []int{80, 81, 443}, c.changes...)
				require.NotEqual(t, before, env.dump())
				env.vanishes("web")
				time.Sleep(time.Minute)
				assert.Equal(t, before, env.dump())
			})
		})
	}
}

// What a Service left that lost its finalizer and was deleted while no controller ran was reported only in the second drift
// round.
func TestServiceDeletedWithoutFinalizerWhileNobodyRan(t *testing.T) {
	t.Parallel()
	for _, c := range kindsOfServices {
		for _, clean := range []bool{false, true} {
			parallel(t, fmt.Sprintf("%s, clean %v", c.name, clean), func(t *testing.T) {
				setup := c.setup()
				setup.drift, setup.cleanOrphans = driftPeriod, clean
				setup.clusterID = "The Cluster (" + strings.Repeat("x", maxClusterID-14) + ")" // as long and odd as it may be
				withController(t, setup, func(env *frameworkEnv) {
					before := env.dump()
					ip := env.serves("web", []int{80, 81, 443}, c.changes...)
					left := env.dump()
					env.stop()
					env.vanishes("web")
					env.count()
					env.start()
					time.Sleep(time.Minute)
					assert.NotEmpty(t, grep(env.said(), ip), "an Event names the address")
					time.Sleep(3 * driftPeriod)
					if clean {
						assert.Equal(t, before, env.dump())
					} else {
						assert.Equal(t, left, env.dump())
					}
				})
			})
		}
	}
}

// Services whose finalizers were removed kept more addresses than the limit of their namespace, and all their rules.
func TestKeptAddressesAreLimitedWithoutFinalizers(t *testing.T) {
	t.Parallel()
	withController(t, setupOf(roomyWorld), func(env *frameworkEnv) {
		before, rules := len(env.addresses()), len(env.dump())-len(env.addresses())
		for i := range 5 {
			key := fmt.Sprintf("attacker/web%d", i)
			env.create(key, []int{80}, annotate(annotation.KeepIP, "true")) // the limit may refuse it
			time.Sleep(time.Minute)
			env.vanishes(key)
			time.Sleep(time.Minute)
		}
		assert.LessOrEqual(t, len(env.addresses()), before+keptPerNamespace)
		assert.Len(t, env.dump(), len(env.addresses())+rules, "no rule is left")
	})
}

// A Service that named a project that does not exist, and whose records its owner deleted, left its address for ever.
func TestServiceOfAMissingProjectIsCleanedUp(t *testing.T) {
	t.Parallel()
	withController(t, drifting(), func(env *frameworkEnv) {
		before := env.dump()
		env.serves("web", []int{80})
		env.edit("web", func(s *corev1.Service) {
			s.Annotations = map[string]string{annotation.Project: "nowhere"}
			s.Status = corev1.ServiceStatus{}
		})
		time.Sleep(time.Minute)
		env.remove("web")
		assert.Equal(t, before, env.dump())
	})
}

const (
	formerID = "prod-eu"
	laterID  = "prod-us"
)

// identified is lbWorld with a controller whose cluster has an id.
func identified() controllerSetup {
	setup := setupOf(lbWorld)
	setup.clusterID, setup.drift = formerID, driftPeriod
	return setup
}

// A controller that was started with another cluster id acquired a second address for each Service and left the first.
func TestChangedClusterIDIsRefused(t *testing.T) {
	t.Parallel()
	withController(t, identified(), func(env *frameworkEnv) {
		ip := env.serves("web", []int{80}, withUDP(53))
		before := env.dump()
		env.count()
		env.restart(func(s *controllerSetup) { s.clusterID = laterID })
		time.Sleep(2 * driftPeriod)
		assert.Zero(t, env.sent("associateIpAddress"), "a second address is acquired")
		assert.Equal(t, before, env.dump())
		assert.Equal(t, ip, env.ip("web"), "what is served goes on")
		ready := env.ready("web")
		assert.Equal(t, metav1.ConditionFalse, ready.Status)
		for _, part := range []string{formerID, "former-cluster-ids"} {
			assert.Contains(t, ready.Message, part)
			assert.NotEmpty(t, grep(env.said(), part), "an Event says %s", part)
		}
		// Nor is anything released: the cluster may be a copy of the one that has the address.
		env.count()
		env.deletes("web")
		time.Sleep(2 * driftPeriod)
		assert.Equal(t, before, env.dump())
		assert.Empty(t, env.wrote())
	})
}

// There was no way to say that a former cluster id was this cluster's.
func TestFormerClusterIDIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup controllerSetup
		kinds []string // of tagged objects
	}{
		"isolated network": {identified(), []string{"PublicIpAddress", "LoadBalancer", "PortForwardingRule", "FirewallRule"}},
		"VPC":              {vpcSetup(100, "v1", "v2"), []string{"PublicIpAddress", "LoadBalancer", "PortForwardingRule", "NetworkACL"}},
	} {
		parallel(t, name, func(t *testing.T) {
			setup := c.setup
			setup.clusterID, setup.drift = formerID, driftPeriod
			withController(t, setup, func(env *frameworkEnv) {
				before := env.addresses()
				ip := env.serves("web", []int{80}, withUDP(53))
				env.restart(func(s *controllerSetup) { s.clusterID, s.formerIDs = laterID, formerID })
				time.Sleep(2 * driftPeriod)
				assert.Equal(t, ip, env.ip("web"))
				assert.Equal(t, metav1.ConditionTrue, env.ready("web").Status)
				assert.Equal(t, 1, env.sent("associateIpAddress"))

				tags, err := env.inspect.ListTags(env.t.Context(), cloudstack.TagQuery{})
				require.NoError(t, err)
				tagged := map[string]int{}
				for i := range tags {
					assert.NotEqual(t, formerID, tags[i].Value, "%s %s", tags[i].ResourceType, tags[i].ResourceID)
					if tags[i].Value == laterID {
						tagged[tags[i].ResourceType]++
					}
				}
				for _, kind := range c.kinds {
					assert.NotZero(t, tagged[kind], kind)
				}

				env.remove("web")
				time.Sleep(time.Minute)
				assert.Equal(t, before, env.addresses())
			})
		})
	}
}

// A controller that could not read namespace kube-system used the id "kubernetes", and another one after its next start.
func TestClusterIDIsReadUntilItIsKnown(t *testing.T) {
	t.Parallel()
	withController(t, identified(), func(env *frameworkEnv) {
		env.stop()
		kubeSystem := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "4c8fbb52-0000-4000-8000-00000000abcd"}}
		_, err := env.kube.CoreV1().Namespaces().Create(env.t.Context(), kubeSystem, metav1.CreateOptions{})
		require.NoError(t, err)
		var allowed atomic.Bool
		time.AfterFunc(3*time.Minute, func() { allowed.Store(true) })
		env.react("get", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return !allowed.Load(), nil, apierrors.NewForbidden(a.GetResource().GroupResource(), metav1.NamespaceSystem, nil)
		})
		env.create("web", []int{80})
		env.setup.clusterID = ""
		env.start() // may wait until it knows the id
		time.Sleep(10 * time.Minute)
		require.True(t, env.served("web"))
		assert.Equal(t, 1, env.sent("associateIpAddress"))
		assert.NotEmpty(t, grep(of(env.dump(), env.ip("web")), string(kubeSystem.UID)), "the tags name the cluster by the UID of kube-system")
	})
}
