// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// A Service that cannot be served causes few calls and Events, however long it stays.
func TestTenantFailingServiceIsQuiet(t *testing.T) {
	t.Parallel()
	fault := func(command string, status int) *simulator.Fault {
		return &simulator.Fault{Command: command, Kind: simulator.FaultErrorBefore, HTTPStatus: status, Text: "no"}
	}
	for _, c := range []struct {
		name   string
		fault  *simulator.Fault
		change func(*corev1.Service)
	}{
		{name: "account limit", fault: &simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultQuota}},
		{name: "address unavailable", change: annotate(annotation.Address, "203.0.113.11")},
		{name: "no capacity", fault: &simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultCapacity}},
		{name: "not permitted", fault: fault("associateIpAddress", 432)},
		{name: "conflict", change: annotate(annotation.Address, foreignIP)},
		{name: "conflict 537", fault: fault("createLoadBalancerRule", 537), change: annotate(annotation.Address, "203.0.113.31")},
	} {
		parallel(t, c.name, func(t *testing.T) {
			withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
				if c.fault != nil {
					env.Inject(*c.fault)
				}
				change := c.change
				if change == nil {
					change = func(*corev1.Service) {}
				}
				env.count()
				env.create("web", []int{80}, change)
				for period := range 3 {
					time.Sleep(10 * time.Minute)
					calls, events := env.count()
					text := fmt.Sprintf("period %d: %d calls, %d Events\n%s\n%s", period, len(calls), len(events), tally(calls), tally(events))
					t.Log(text)
					assert.LessOrEqual(t, len(calls), 12, text)
					assert.LessOrEqual(t, len(events), 12, text)
				}
				assert.False(t, env.served("web"))
			})
		})
	}
}

// Two Services name one free address, and are created at once: one acquires it, and the other shares it soon after.
func TestSharedAddressIsAcquiredOnce(t *testing.T) {
	t.Parallel()
	measured, err := simulator.Profile("simulator")
	require.NoError(t, err)
	withFramework(t, simulator.Options{Latency: measured}, lbWorld, func(env *frameworkEnv) {
		named := annotate(annotation.Address, "203.0.113.60")
		env.create("shop", []int{443}, named)
		env.create("mail", []int{25}, named)
		time.Sleep(15 * time.Second)
		for _, name := range []string{"shop", "mail"} {
			assert.True(t, env.served(name), "%s: %s", name, env.ready(name).Message)
		}
		assert.LessOrEqual(t, len(env.Ledger().Find("associateIpAddress", "ccm")), 2)
	})
}

// A Service that waits is tried again as soon as its owner corrects it, and not after other changes. Its record stays on
// the Service.
func TestTenantCorrectedServiceIsServedSoon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		wrong, change func(*corev1.Service)
	}{
		{"annotation", annotate(annotation.Address, "203.0.113.11"), func(s *corev1.Service) { delete(s.Annotations, annotation.Address) }},
		{"spec", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.11" }, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "" }},
		{"record", annotate(annotation.Addresses, "not JSON"), func(s *corev1.Service) { delete(s.Annotations, annotation.Addresses) }},
	} {
		parallel(t, c.name, func(t *testing.T) {
			withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
				env.create("web", []int{80}, c.wrong)
				time.Sleep(5 * time.Minute)
				env.count()
				env.edit("web", annotate("example.org/note", "nothing that concerns us"))
				time.Sleep(time.Minute)
				calls, _ := env.count()
				assert.Empty(t, calls)
				assert.False(t, env.served("web"))
				env.edit("web", c.change)
				time.Sleep(10 * time.Second)
				assert.True(t, env.served("web"))
				svc := env.get("web")
				assert.Contains(t, svc.Annotations[annotation.Addresses], svc.Status.LoadBalancer.Ingress[0].IP, "the framework's patches leave the record")
				assert.NotEmpty(t, svc.Finalizers)
				env.count()
				env.edit("web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81) })
				time.Sleep(10 * time.Second)
				calls, _ = env.count()
				assert.NotContains(t, calls, "associateIpAddress")
				assert.Contains(t, calls, "createLoadBalancerRule")
				env.remove("web")
				assert.Empty(t, env.addressesOf(svc))
			})
		})
	}
}

// A Service that waits and is deleted leaves nothing behind, and gets no address after that.
func TestTenantWaitingServiceGoes(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		env.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultQuota})
		env.create("web", []int{80})
		env.create("plain", []int{80})
		time.Sleep(time.Minute)
		env.remove("web")
		env.edit("plain", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(10 * time.Second)
		env.count()
		time.Sleep(30 * time.Minute)
		calls, _ := env.count()
		assert.NotContains(t, calls, "associateIpAddress")
		assert.Empty(t, calls)
	})
}

// A Service whose rules have no members is not ready, and says why nobody is served.
func TestNotReadyWithoutMembers(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		const settle = time.Minute
		env.create("web", []int{80})
		env.create("edge", []int{80}, annotate(annotation.NodeSelector, "tier=edge"))
		env.create("local", []int{80}, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
		time.Sleep(settle)
		assert.Equal(t, metav1.ConditionTrue, env.ready("web").Status)
		for name, why := range map[string]string{
			"edge":  "no node matches " + annotation.NodeSelector,
			"local": "externalTrafficPolicy is Local and no node has a ready endpoint",
		} {
			c := env.ready(name)
			assert.True(t, env.served(name), "the network follows from the nodes: %s has its address before its first Pod", name)
			assert.Equal(t, metav1.ConditionFalse, c.Status, name)
			assert.Equal(t, string(plan.ReasonNoBackends), c.Reason, name)
			assert.Contains(t, c.Message, why, name)
		}

		env.label("w2", "tier", "edge")
		time.Sleep(settle)
		assert.Equal(t, metav1.ConditionTrue, env.ready("edge").Status)

		for _, n := range []string{"w1", "w2"} {
			env.label(n, corev1.LabelNodeExcludeBalancers, "true")
		}
		time.Sleep(settle)
		c := env.ready("web")
		assert.Equal(t, metav1.ConditionFalse, c.Status)
		assert.Equal(t, string(plan.ReasonNoBackends), c.Reason)
		assert.Contains(t, c.Message, "no node is eligible: of 2 in the cluster, 2 with the label "+corev1.LabelNodeExcludeBalancers)

		env.label("w1", corev1.LabelNodeExcludeBalancers, "")
		time.Sleep(settle)
		assert.Equal(t, metav1.ConditionTrue, env.ready("web").Status)
	})
}

// A new Service of a cluster without eligible nodes says which nodes there are, and why they do not serve.
func TestNoEligibleNodes(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		for _, n := range []string{"w1", "w2"} {
			env.label(n, corev1.LabelNodeExcludeBalancers, "true")
		}
		synctest.Wait()
		env.create("web", []int{80})
		time.Sleep(time.Minute)
		c := env.ready("web")
		assert.Equal(t, metav1.ConditionFalse, c.Status)
		assert.Equal(t, string(plan.ReasonNoNodes), c.Reason)
		assert.Equal(t, "no node is eligible: of 2 in the cluster, 2 with the label "+corev1.LabelNodeExcludeBalancers+" and 0 about to be deleted"+
			", so that the network of the address is not known; add a node that may serve; the Service is tried again", c.Message)
		env.label("w1", corev1.LabelNodeExcludeBalancers, "")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"w1"}, env.members("web"))
	})
}

const textLBIsNull = `Cannot invoke "com.cloud.network.dao.LoadBalancerVO.getNetworkId()" because "lb" is null`

// slowDeletion makes the deletion of a rule last longer than the controller waits before it releases the address, and the
// release even longer.
var slowDeletion = simulator.LatencyProfile{
	Call: 20 * time.Millisecond, Job: 100 * time.Millisecond,
	Jobs: map[string]time.Duration{"deleteLoadBalancerRule": 4 * time.Second, "disassociateIpAddress": 6 * time.Second},
}

// An address is released only after deletions of its rules have ended, including those whose answer was lost and those of
// an earlier process: otherwise the release fails on the server.
func TestReleaseWaitsForDeletions(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"the answer was lost": false, "the process was restarted": true} {
		parallel(t, name, func(t *testing.T) {
			withFramework(t, simulator.Options{Latency: slowDeletion}, lbWorld, func(env *frameworkEnv) {
				before := env.addresses()
				env.create("web", []int{80, 81})
				time.Sleep(10 * time.Second)
				require.True(t, env.served("web"))
				env.Inject(simulator.Fault{Command: "deleteLoadBalancerRule", Nth: 1, Kind: simulator.FaultLostAnswer})
				env.edit("web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
				for range 100 {
					if time.Sleep(20 * time.Millisecond); len(env.Ledger().Find("deleteLoadBalancerRule", "ccm")) > 0 {
						break
					}
				}
				require.Len(t, env.Ledger().Find("deleteLoadBalancerRule", "ccm"), 1)
				if restart {
					env.stop()
					env.start()
				}
				env.remove("web")
				assert.Equal(t, before, env.addresses())
				assert.Zero(t, env.failures("disassociateIpAddress"))
				assert.Len(t, env.Ledger().Find("disassociateIpAddress", "ccm"), 1)
			})
		})
	}
}

// A release whose job failed because of a concurrent deletion is sent again at once.
func TestReleaseThatBrokeOnADeletionIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		count int
		sent  int
	}{{"once", 1, 2}, {"five times", 5, 6}} {
		parallel(t, c.name, func(t *testing.T) {
			withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
				before := env.addresses()
				env.create("web", []int{80})
				time.Sleep(time.Second)
				require.True(t, env.served("web"))
				env.Inject(simulator.Fault{Command: "disassociateIpAddress", Kind: simulator.FaultJobFails, Count: c.count, Text: textLBIsNull})
				begun := time.Now()
				env.remove("web")
				assert.Less(t, time.Since(begun), 30*time.Second)
				assert.Equal(t, before, env.addresses())
				assert.Len(t, env.Ledger().Find("disassociateIpAddress", "ccm"), c.sent)
			})
		})
	}
}

// A rule that a restart of the server left in state Deleting does not block the release of its address for ever.
func TestReleaseDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		before := env.addresses()
		env.create("web", []int{80, 81})
		time.Sleep(time.Second)
		require.True(t, env.served("web"))
		env.Inject(simulator.Fault{Command: "deleteLoadBalancerRule", Kind: simulator.FaultJobNeverEnds})
		env.edit("web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
		time.Sleep(200 * time.Millisecond)
		env.stop()
		env.start()
		env.remove("web")
		assert.Equal(t, before, env.addresses())
	})
}

// What Kubernetes' own service controller does for a Service, ours does too: CONTRIBUTING.md has the table.

// The finalizer is there before the first change of CloudStack, and goes after the last one, with the status.
func TestFinalizerAndEventsAsKubernetesHasThem(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		before := env.dump()
		changedBefore, left := []string{"never added"}, []string{"never removed"}
		env.react("patch", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
			patch, _ := a.(clienttesting.PatchAction)
			switch body := string(patch.GetPatch()); {
			case strings.Contains(body, "$deleteFromPrimitiveList/finalizers"):
				left = env.dump()
			case strings.Contains(body, "finalizers"):
				changedBefore = slices.DeleteFunc(env.Calls("ccm"), func(c string) bool { return strings.HasPrefix(c, "list") })
			}
			return false, nil, nil
		})
		env.count()
		env.create("web", []int{80})
		time.Sleep(time.Minute)
		require.True(t, env.served("web"))
		synctest.Wait()
		assert.True(t, servicehelpers.HasLBFinalizer(env.get("web")))
		assert.Empty(t, changedBefore)
		assert.Equal(t, []string{"EnsuringLoadBalancer", "EnsuredLoadBalancer"}, env.reasons())

		env.count()
		env.edit("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, before, left, "nothing is left when the finalizer goes")
		svc := env.get("web")
		assert.False(t, servicehelpers.HasLBFinalizer(svc))
		assert.Empty(t, svc.Status.LoadBalancer.Ingress)
		assert.Empty(t, svc.Status.Conditions)
		assert.Equal(t, []string{"DeletingLoadBalancer", "DeletedLoadBalancer"}, env.reasons())
	})
}

// A class is another controller's; the label that excludes a node takes it out of the rules, and an Event says so.
func TestClassesAndExcludedNodesAsKubernetesHasThem(t *testing.T) {
	t.Parallel()
	withFramework(t, simulator.Options{}, lbWorld, func(env *frameworkEnv) {
		env.create("other", []int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/lb") })
		env.create("web", []int{80})
		time.Sleep(time.Minute)
		assert.False(t, env.served("other"))
		assert.False(t, servicehelpers.HasLBFinalizer(env.get("other")))
		assert.Equal(t, []string{"w1", "w2"}, env.members("web"))
		env.count()
		env.label("w2", corev1.LabelNodeExcludeBalancers, "true")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"w1"}, env.members("web"))
		assert.Equal(t, []string{"UpdatedLoadBalancer"}, env.reasons())
	})
}

// reasons are the reasons of the Events since the last count that Kubernetes' service controller has too.
func (env *frameworkEnv) reasons() (out []string) {
	for _, e := range env.said() {
		if reason, _, ok := strings.Cut(e, ": "); ok && strings.HasSuffix(reason, "LoadBalancer") {
			out = append(out, reason)
		}
	}
	return out
}
