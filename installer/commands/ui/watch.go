// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/pkg/ui/model"
)

// watched is what is watched of Kubernetes: all Services, Nodes and Events, and the leases of controllers.
type watched struct {
	changed chan struct{}
	parts   []*part
	stores  map[string][]cache.Store // by what they hold

	mu      sync.Mutex
	leaders []model.Entry
}

// part is one watch.
type part struct {
	name     string
	informer cache.SharedIndexInformer

	mu     sync.Mutex
	err    error // of the last try that failed
	once   sync.Once
	failed chan struct{} // closed at the first error
}

func newWatched(o Options) *watched {
	w := &watched{changed: make(chan struct{}, 1), stores: map[string][]cache.Store{}}
	all := informers.NewSharedInformerFactory(o.Kube, 0)
	w.add("Services", all.Core().V1().Services().Informer(), func(before, after any) bool { return true })
	w.add("Nodes", all.Core().V1().Nodes().Informer(), nodeDiffers)
	w.add("Events", all.Core().V1().Events().Informer(), func(before, after any) bool { return concerns(after) })
	namespaces := []string{metav1.NamespaceSystem}
	if o.Namespace != metav1.NamespaceSystem {
		namespaces = append(namespaces, o.Namespace)
	}
	for _, namespace := range namespaces {
		of := informers.NewSharedInformerFactoryWithOptions(o.Kube, 0, informers.WithNamespace(namespace))
		w.add("Leases", of.Coordination().V1().Leases().Informer(), w.leaderDiffers)
	}
	return w
}

// add watches what an informer reads; differs reports whether an update is worth a new snapshot.
func (w *watched) add(name string, informer cache.SharedIndexInformer, differs func(before, after any) bool) {
	p := &part{name: name, informer: informer, failed: make(chan struct{})}
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { p.fail(err) })
	_ = informer.SetTransform(slim)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if differs(nil, o) {
				signal(w.changed)
			}
		},
		UpdateFunc: func(before, after any) {
			if differs(before, after) {
				signal(w.changed)
			}
		},
		DeleteFunc: func(o any) {
			if _, event := o.(*corev1.Event); !event { // they end by age
				signal(w.changed)
			}
		},
	})
	w.parts = append(w.parts, p)
	w.stores[name] = append(w.stores[name], informer.GetStore())
}

// slim drops what nothing here reads and what is large.
func slim(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	if n, ok := o.(*corev1.Node); ok {
		n.Status.Images = nil
	}
	return o, nil
}

func (p *part) fail(err error) {
	p.once.Do(func() { close(p.failed) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// run watches until ctx ends.
func (w *watched) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range w.parts {
		all.Go(func() { p.informer.RunWithContext(ctx) })
	}
	all.Wait()
}

// synced waits until each part was read or cannot be; false if ctx has ended.
func (w *watched) synced(ctx context.Context) bool {
	const look = 20 * time.Millisecond
	for _, p := range w.parts {
		for !p.informer.HasSynced() {
			select {
			case <-ctx.Done():
				return false
			case <-p.failed:
			case <-time.After(look):
				continue
			}
			break
		}
	}
	return true
}

// facts are the facts of Kubernetes as last seen.
func (w *watched) facts() picture.Facts {
	out := picture.Facts{
		Services: list[corev1.Service](w.stores["Services"]), Nodes: list[corev1.Node](w.stores["Nodes"]),
		Events: list[corev1.Event](w.stores["Events"]), Leases: list[coordinationv1.Lease](w.stores["Leases"]),
	}
	out.Events = slices.DeleteFunc(out.Events, func(e corev1.Event) bool { return !concerns(&e) })
	w.mu.Lock()
	out.Seen = slices.Clone(w.leaders)
	w.mu.Unlock()
	for _, p := range w.parts {
		p.mu.Lock()
		err := p.err
		p.mu.Unlock()
		if err == nil || p.informer.HasSynced() {
			continue
		}
		part := "objects"
		if p.name == "Events" || p.name == "Leases" {
			part = "timeline"
		}
		out.Missing = append(out.Missing, model.Missing{
			Part: part, Reason: fmt.Sprintf("%s cannot be read: %v", p.name, err), Remedy: "give the user the rights of docs/csccm-rights.yaml, or name another with --context",
		})
	}
	return out
}

// list copies what the stores hold, sorted by namespace and name. The copies are shallow: nobody changes them.
func list[T any, P interface {
	*T
	metav1.Object
}](stores []cache.Store) []T {
	var out []T
	for _, s := range stores {
		for _, o := range s.List() {
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

// concerns reports whether an Event is about an object that is shown.
func concerns(o any) bool {
	e, ok := o.(*corev1.Event)
	return ok && (e.InvolvedObject.Kind == "Service" || e.InvolvedObject.Kind == "Node")
}

// nodeDiffers reports whether more of a Node changed than the times of its heartbeats.
func nodeDiffers(before, after any) bool {
	a, ok := before.(*corev1.Node)
	b, is := after.(*corev1.Node)
	if !ok || !is {
		return true
	}
	return a.Spec.ProviderID != b.Spec.ProviderID || !reflect.DeepEqual(a.Spec.Taints, b.Spec.Taints) || !maps.Equal(a.Labels, b.Labels) ||
		!reflect.DeepEqual(a.Status.Addresses, b.Status.Addresses) || !maps.Equal(statuses(a), statuses(b)) || a.UID != b.UID
}

func statuses(n *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	out := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range n.Status.Conditions {
		out[c.Type] = c.Status
	}
	return out
}

// leaderDiffers reports whether somebody else leads, and keeps who led.
func (w *watched) leaderDiffers(before, after any) bool {
	a, _ := before.(*coordinationv1.Lease)
	b, ok := after.(*coordinationv1.Lease)
	if !ok || !decide.IsElection(b) || b.Spec.AcquireTime == nil {
		return false
	}
	if a != nil && decide.IsElection(a) && a.Spec.AcquireTime != nil {
		if *a.Spec.HolderIdentity == *b.Spec.HolderIdentity && a.Spec.AcquireTime.Equal(b.Spec.AcquireTime) {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		const most = 50
		w.leaders = append(w.leaders, picture.Leading(a.Name, *a.Spec.HolderIdentity, a.Spec.AcquireTime.Time))
		w.leaders = w.leaders[max(0, len(w.leaders)-most):]
	}
	return true
}
