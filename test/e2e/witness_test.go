// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/test/internal/must"
)

// witness records who held the lease, and how often CloudStack Kubernetes Service would have installed its own provider
// again, which it does when "kubectl get pods -A | grep cloud-controller-manager" finds nothing. A watch shows even
// short changes.
type witness struct {
	mu      sync.Mutex
	pods    map[types.UID]bool // the Pods that the command finds
	missing int
	reigns  []string // the holders in order; "" while the lease is free
	end     func()
}

// witness starts the watch.
func (e *clusterEnv) witness(t *testing.T) *witness {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &witness{pods: map[types.UID]bool{}}
	var watches sync.WaitGroup
	follow := func(start func(context.Context, metav1.ListOptions) (watch.Interface, error), o metav1.ListOptions) {
		watches.Go(func() {
			for ctx.Err() == nil { // the API server may end a watch
				if events, err := start(ctx, o); err == nil {
					for event := range events.ResultChan() {
						w.see(event)
					}
				}
			}
		})
	}

	follow(e.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Watch,
		metav1.SingleObject(metav1.ObjectMeta{Name: lease}))
	follow(e.Client.CoreV1().Pods(metav1.NamespaceAll).Watch, metav1.ListOptions{})
	w.end = func() { stop(); watches.Wait() }
	t.Cleanup(w.end)
	e.eventually(t, "the lease and the Pods to be seen", func(context.Context) {
		w.mu.Lock()
		defer w.mu.Unlock()
		must.Be(len(w.reigns) > 0 && len(w.pods) > 0, "not yet")
	})

	return w
}

func (w *witness) see(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := event.Object.(type) {
	case *coordinationv1.Lease:
		if holder := ptr.Deref(o.Spec.HolderIdentity, ""); len(w.reigns) == 0 || w.reigns[len(w.reigns)-1] != holder {
			w.reigns = append(w.reigns, holder)
		}

	case *corev1.Pod:
		switch {
		case !strings.Contains(o.Namespace+" "+o.Name, "cloud-controller-manager"):
		case event.Type != watch.Deleted:
			w.pods[o.UID] = true
		default:
			if delete(w.pods, o.UID); len(w.pods) == 0 {
				w.missing++
			}
		}
	}
}

// check ends the watch: CloudStack Kubernetes Service found a Pod at all times, and csccm held the lease between the
// old and the new controller.
func (w *witness) check(t *testing.T) {
	t.Helper()
	w.end()
	require.Zero(t, w.missing, "there was no Pod, so the old provider would have come back")
	csccm := slices.IndexFunc(w.reigns,
		func(holder string) bool { return strings.HasPrefix(holder, "csccm-takeover_") })
	require.True(t, csccm >= 1 && csccm < len(w.reigns)-1, "csccm did not hold the lease between the two: %v", w.reigns)
}

// checkReigns ends the watch: at least this many replicas led, each once.
func (w *witness) checkReigns(t *testing.T, least int) {
	t.Helper()
	w.end()
	led := slices.DeleteFunc(slices.Clone(w.reigns), func(holder string) bool { return holder == "" })
	require.GreaterOrEqual(t, len(led), least, w.reigns)
	slices.Sort(led)
	require.Equal(t, slices.Compact(slices.Clone(led)), led, "one leads a second time")
}
