// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/node/failover"
	"github.com/csccm/csccm/pkg/simulator"
)

// leads are the nodes that the port forwardings of a Service lead to.
func (env *frameworkEnv) leads(key string) []string { return env.ledTo(env.ip(key)) }

// within waits until all ports of a Service lead to a node, and returns how long it took.
func (env *frameworkEnv) within(key, node string) time.Duration {
	env.t.Helper()
	begun := time.Now()
	for time.Since(begun) < time.Minute {
		if slices.Equal(env.leads(key), []string{node}) {
			return time.Since(begun)
		}
		time.Sleep(20 * time.Millisecond)
	}
	require.Failf(env.t, "not moved", "%s leads to %v, want %s", key, env.leads(key), node)
	return 0
}

func taintNode(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func readiness(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
}

// changing leaves of calls those that are no polls of jobs.
func changing(calls []string) []string {
	return slices.DeleteFunc(calls, func(c string) bool { return c == "queryAsyncJobResult" || c == "listAsyncJobs" })
}

// A node whose kubelet is silent loses its forwarded ports before Kubernetes knows that it is not Ready. Leases are watched
// only while a Service has such ports.
func TestFailoverOfASuspectedNode(t *testing.T) {
	t.Parallel()
	measured, err := simulator.Profile("simulator")
	require.NoError(t, err)
	withFramework(t, simulator.Options{Latency: measured}, lbWorld, func(env *frameworkEnv) {
		var dead atomic.Pointer[string]
		is := func(node string) bool { d := dead.Load(); return d != nil && *d == node }
		answer := func(_ context.Context, address string) bool {
			node, _, _ := strings.Cut(address, ":")
			if is(node) {
				time.Sleep(failover.ProbeTimeout)
			}
			return !is(node)
		}
		env.probing.Store(&answer)
		for _, node := range []string{"w1", "w2"} {
			env.node(node, func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node}}
				n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
			})
		}
		ctx, cancel := context.WithCancel(env.t.Context())
		defer func() { cancel(); synctest.Wait() }()
		for _, node := range []string{"w1", "w2"} {
			go env.kubelet(ctx, node, is)
		}
		env.create("proxied", []int{80})
		time.Sleep(time.Minute)
		assert.False(t, env.watches("leases"))
		env.create("web", nil, withUDP(53))
		time.Sleep(time.Minute)
		assert.True(t, env.watches("leases"))
		node := env.leads("web")[0]
		other := map[string]string{"w1": "w2", "w2": "w1"}[node]
		env.count()

		dead.Store(&node)
		took := env.within("web", other)
		t.Log("moved after", took)
		assert.Less(t, took, 17*time.Second, "12 s of the lease, 2 s of the probe, and the call; at most 10 s less")
		assert.Greater(t, took, 2*time.Second)
		time.Sleep(5 * time.Second) // until its Event is written
		_, events := env.count()
		assert.NotEmpty(t, grep(events, "suspected"), events)

		dead.Store(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{other}, env.leads("web"), "no move back")
		calls, _ := env.count()
		assert.Empty(t, changing(calls))
	})
}

// kubelet renews a node's lease each 10 s, while it is not dead.
func (env *frameworkEnv) kubelet(ctx context.Context, node string, dead func(string) bool) {
	leases := env.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if dead(node) {
			return
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
	}, 10*time.Second)
}

// watches reports whether the controller has watched the objects of a kind.
func (env *frameworkEnv) watches(resource string) bool {
	for _, a := range env.kube.Actions() {
		if a.Matches("watch", resource) {
			return true
		}
	}
	return false
}
