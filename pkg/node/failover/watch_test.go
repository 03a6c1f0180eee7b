// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"context"
	"maps"
	"net"
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
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
)

// A node whose kubelet goes silent is suspected, based on the API server's watch of leases. Leases are watched only
// while a Service needs it.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		renew := func(node string) {
			lease := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node},
			}
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)} // the node's clock is wrong
			leases := kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
			if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
				_, err = leases.Create(t.Context(), lease, metav1.CreateOptions{})
				require.NoError(t, err)
			}
		}
		var dead, changes atomic.Int32
		w := &Watch{
			Kube: kube, After: 12 * time.Second, Clock: clock.RealClock{},
			Nodes:   func() ([]*corev1.Node, error) { return []*corev1.Node{readyNode("a"), readyNode("b")}, nil },
			Changed: func() { changes.Add(1) },
			Probe: func(_ context.Context, address string) bool {
				if address == "a:10250" && dead.Load() == 1 {
					time.Sleep(ProbeTimeout)
					return false
				}
				return true
			},
		}
		suspected := func() string {
			synctest.Wait()
			return strings.Join(slices.Sorted(maps.Keys(w.Suspected())), " ")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.Run(ctx)
		for range 12 { // two minutes
			renew("a")
			renew("b")
			time.Sleep(10 * time.Second)
		}
		require.Empty(t, actions(kube, "watch"), "no Service needs it")

		w.Use("dns", true)
		w.Use("game", true)
		for range 12 {
			renew("a")
			renew("b")
			time.Sleep(10 * time.Second)
			assert.Empty(t, suspected())
		}
		require.Equal(t, []string{"watch leases"}, actions(kube, "watch"))

		renew("a")
		renew("b")
		dead.Store(1)
		time.Sleep(10 * time.Second)
		renew("b")
		time.Sleep(4100 * time.Millisecond) // its lease is 12 s old, and the probe has timed out
		assert.Equal(t, "a", suspected())
		assert.EqualValues(t, 1, changes.Load())
		dead.Store(0)
		renew("a")
		assert.Empty(t, suspected())
		assert.EqualValues(t, 2, changes.Load())

		w.Use("dns", false)
		time.Sleep(9 * time.Second)
		w.Use("game", false)
		dead.Store(1)
		time.Sleep(time.Minute)
		assert.Empty(t, suspected())
		assert.EqualValues(t, 2, changes.Load(), "nobody is suspected by a watch that has ended")
		w.Use("dns", true)
		time.Sleep(time.Second)
		assert.Len(t, actions(kube, "watch"), 2, "it begins again")
		cancel()
		time.Sleep(ProbeTimeout) // until the last probe has ended
	})
}

func actions(kube *fake.Clientset, verb string) []string {
	var out []string
	for _, a := range kube.Actions() {
		if a.GetVerb() == verb {
			out = append(out, verb+" "+a.GetResource().Resource)
		}
	}
	return out
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	assert.True(t, Answers(t.Context(), address))
	require.NoError(t, l.Close())
	assert.True(t, Answers(t.Context(), address), "refused: the node is there")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, Answers(gone, address))
}
