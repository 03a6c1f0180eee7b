// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/node/failover"
)

func TestHandles(t *testing.T) {
	t.Parallel()
	class := "other.example.org/lb"
	now := metav1.Now()
	finalizer := []string{servicehelpers.LoadBalancerCleanupFinalizer}

	for name, c := range map[string]struct {
		change func(*corev1.Service)
		want   bool
	}{
		"no longer one": {func(s *corev1.Service) {
			s.Spec.Type, s.Finalizers = corev1.ServiceTypeNodePort, finalizer
		}, true},
		"being deleted": {func(s *corev1.Service) { s.DeletionTimestamp, s.Finalizers = &now, finalizer },
			true},
		"its class, with our records": {func(s *corev1.Service) {
			recording(true, ip1)(s)
			s.Spec.LoadBalancerClass = &class
		}, true},
		"its class and finalizer": {func(s *corev1.Service) {
			s.Spec.LoadBalancerClass, s.Finalizers = &class, finalizer
		}, false},
	} {
		assert.Equal(t, c.want, Classes{}.Handles(aService("default", "web", c.change)), name)
	}
}

// A tombstone does not always contain the deleted object.
func TestTombstonesWithoutObject(t *testing.T) {
	t.Parallel()
	c, _ := idleController(t)
	c.ServiceHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: "a/web"})
	c.NodeHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: "w1"})
	handler(func(was, is *discoveryv1.EndpointSlice) {
		t.Error("there is nothing that changed", was, is)
	}).OnDelete(cache.DeletedFinalStateUnknown{Key: "a/web-1"})
}

func TestEligible(t *testing.T) {
	t.Parallel()
	now := metav1.Now()

	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"plain": {func(*corev1.Node) {}, true},
		"not ready": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}, true},
		"excluded": {func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
		}, false},
		"excluded: true": {func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"}
		}, false},
		"excluded: false": {func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "false"}
		}, true},
		"by the autoscaler": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: failover.TaintBeingDeleted}}
		}, false},
		"being deleted": {func(n *corev1.Node) { n.DeletionTimestamp = &now }, false},
	} {
		n := &corev1.Node{}
		c.change(n)
		assert.Equal(t, c.want, len(Eligible([]*corev1.Node{n})) == 1, name)
	}
}

// Every pushed key comes out once, in order within its namespace. No namespace is served twice
// while another one waits.
func TestPropertiesOfFairQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := newFairQueue()
		waiting := map[string][]Key{}
		turns := map[string]int{} // keys of other namespaces since this one began to wait
		n, length := 0, 0
		for range 400 {
			if length == 0 || n < 150 && r.IntN(2) == 0 {
				k := Key{string(rune('a' + r.IntN(6))), types.UID(fmt.Sprint(n))}
				n++
				length++
				if len(waiting[k.Namespace]) == 0 {
					turns[k.Namespace] = 0
				}

				waiting[k.Namespace] = append(waiting[k.Namespace], k)
				q.Push(k)
				continue
			}

			k := q.Pop()
			length--
			require.NotEmpty(t, waiting[k.Namespace], "seed %d: %v was not waiting", seed, k)
			require.Equal(t, waiting[k.Namespace][0], k, "seed %d", seed)
			waiting[k.Namespace] = waiting[k.Namespace][1:]
			for namespace := range turns {
				turns[namespace]++
				if len(waiting[namespace]) > 0 && namespace != k.Namespace {
					require.Less(t, turns[namespace], 6, "seed %d: %s waits while others have two turns", seed,
						namespace)
				}
			}

			turns[k.Namespace] = 0
			require.Equal(t, length, q.Len())
		}

		for length > 0 {
			k := q.Pop()
			require.Equal(t, waiting[k.Namespace][0], k, "seed %d", seed)
			waiting[k.Namespace] = waiting[k.Namespace][1:]
			length--
		}

		require.Zero(t, q.Len())
	}
}

func TestNamespaceNeverOccupiesAllWorkers(t *testing.T) {
	t.Parallel()
	q := newFairQueue()
	q.most = 2
	for _, k := range []Key{{"many", "1"}, {"many", "2"}, {"many", "3"}, {"many", "4"}} {
		q.Push(k)
	}
	first, second := q.Pop(), q.Pop()
	require.Zero(t, q.Len(), "the namespace has all the workers that it may have")
	q.Push(Key{"other", "1"})
	require.Equal(t, Key{"other", "1"}, q.Pop())

	q.done(first)
	require.Equal(t, 2, q.Len())
	require.Equal(t, Key{"many", "3"}, q.Pop())
	q.done(second)
	require.Equal(t, Key{"many", "4"}, q.Pop())
}

// A Service that changes during its sync is synced once more, and never by two workers at the same time.
func TestQueueKeepsChangesDuringWork(t *testing.T) {
	t.Parallel()
	q := newQueue(clocktesting.NewFakeClock(testTime), newFairQueue())
	t.Cleanup(q.ShutDown)
	k := Key{"a", "1"}
	q.Add(k)
	for again := range 2 {
		q.Add(k)
		require.Equal(t, 1, q.Len())
		got, _ := q.Get()
		require.Equal(t, k, got)
		if again == 0 {
			q.Add(k)
		}
		assert.Zero(t, q.Len())
		q.Done(k)
	}
	assert.Zero(t, q.Len())
}
