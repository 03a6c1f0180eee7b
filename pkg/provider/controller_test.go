// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

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

// reasons are the reasons of the Events since the last count that Kubernetes' service controller has too.
func (env *frameworkEnv) reasons() (out []string) {
	for _, e := range env.said() {
		if reason, _, ok := strings.Cut(e, ": "); ok && strings.HasSuffix(reason, "LoadBalancer") {
			out = append(out, reason)
		}
	}
	return out
}

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

// A Service that was deleted without its finalizer and created again under its name was cleaned up again and again.
func TestRecreatedServiceIsCleanedUpOnce(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80})
	env.react("patch", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch, _ := a.(clienttesting.PatchAction)
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", nil) // as the API server has it
		return strings.Contains(string(patch.GetPatch()), string(webUID)), nil, conflict
	})
	old := service.KeyOf(env.get("web"))
	env.forget("web")
	env.create("web", []int{80}, func(s *corev1.Service) { s.UID = mailUID })
	_, err := env.lb.Sync(t.Context(), old)
	require.NoError(t, err)
	assert.Equal(t, env.before, env.dump())
}
