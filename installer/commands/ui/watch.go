// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/pkg/ui/model"
)

// watched is what is watched of Kubernetes: all Services, Nodes and Events, and the leases of controllers.
type watched struct {
	changed   chan struct{}
	informers map[string]cache.SharedIndexInformer // by what they read, as errors name it

	mu     sync.Mutex
	failed map[string]error // the last error of each
}

func newWatched(kube kubernetes.Interface, namespace string) *watched {
	all := informers.NewSharedInformerFactory(kube, 0)
	w := &watched{changed: make(chan struct{}, 1), failed: map[string]error{}, informers: map[string]cache.SharedIndexInformer{
		"Services": all.Core().V1().Services().Informer(), "Nodes": all.Core().V1().Nodes().Informer(), "Events": all.Core().V1().Events().Informer(),
	}}
	for _, n := range []string{metav1.NamespaceSystem, namespace} {
		of := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(n))
		w.informers["Leases in "+n] = of.Coordination().V1().Leases().Informer()
	}
	for name, informer := range w.informers {
		_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed[name] = err
		})
		_ = informer.SetTransform(slim)
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.note(nil, o) },
			UpdateFunc: w.note,
			DeleteFunc: func(o any) {
				if _, event := o.(*corev1.Event); !event { // they end by age
					signal(w.changed)
				}
			},
		})
	}
	return w
}

// slim drops what nothing here reads and what is large or changes all the time.
func slim(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	if n, ok := o.(*corev1.Node); ok {
		n.Status.Images = nil
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return o, nil
}

// note signals a change that is worth a new snapshot and a read of CloudStack. The leader's renewals are shown with the next
// answer of the API server.
func (w *watched) note(before, after any) {
	switch now := after.(type) {
	case *coordinationv1.Lease:
		return
	case *corev1.Event:
		if !concerns(now) {
			return
		}
	case *corev1.Node:
		was, known := before.(*corev1.Node)
		if known && was.UID == now.UID && equality.Semantic.DeepEqual([]any{was.Labels, was.Spec, was.Status}, []any{now.Labels, now.Spec, now.Status}) {
			return
		}
	}
	signal(w.changed)
}

// concerns reports whether an Event is about an object that is shown.
func concerns(e *corev1.Event) bool {
	return slices.Contains([]string{"Service", "Node", "Lease"}, e.InvolvedObject.Kind)
}

// run watches until ctx ends.
func (w *watched) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, informer := range w.informers {
		all.Go(func() { informer.RunWithContext(ctx) })
	}
	all.Wait()
}

// synced waits until everything was read or cannot be; false if ctx has ended.
func (w *watched) synced(ctx context.Context) bool {
	const look = 20 * time.Millisecond
	for name, informer := range w.informers {
		for !informer.HasSynced() && w.failure(name) == nil {
			if !wait(ctx, look, nil) {
				return false
			}
		}
	}
	return true
}

// failure is the last error of an informer.
func (w *watched) failure(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed[name]
}

// facts are the facts of Kubernetes as last seen.
func (w *watched) facts() picture.Facts {
	out := picture.Facts{
		Services: list[corev1.Service](w), Nodes: list[corev1.Node](w), Events: list[corev1.Event](w), Leases: list[coordinationv1.Lease](w),
	}
	out.Events = slices.DeleteFunc(out.Events, func(e corev1.Event) bool { return !concerns(&e) })
	for _, name := range slices.Sorted(maps.Keys(w.informers)) {
		err := w.failure(name)
		if err == nil || w.informers[name].HasSynced() {
			continue
		}
		part := "timeline"
		if name == "Services" || name == "Nodes" {
			part = "objects"
		}
		out.Missing = append(out.Missing, model.Missing{
			Part: part, Reason: fmt.Sprintf("%s cannot be read: %v", name, err),
			Remedy: "give the user the rights of docs/csccm-rights.yaml, or name another with --context",
		})
	}
	return out
}

// list copies the objects of a kind, sorted by namespace and name. The copies are shallow: nobody changes them.
func list[T any, P interface {
	*T
	metav1.Object
}](w *watched) (out []T) {
	for _, informer := range w.informers {
		for _, o := range informer.GetStore().List() {
			if v, ok := o.(P); ok {
				out = append(out, *v)
			}
		}
	}
	slices.SortFunc(out, func(a, b T) int {
		x, y := P(&a), P(&b)
		return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
	})
	return out
}
