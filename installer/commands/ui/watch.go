// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/csccm/csccm/installer/picture"
)

// watched is what is watched of Kubernetes: all Services, Nodes and Events, and the leases of controllers. What may not be watched
// is listed again and again; what may not be listed is in doctor's report.
type watched []cache.SharedIndexInformer

func (s *Source) watch(kube kubernetes.Interface, namespace string) watched {
	all := informers.NewSharedInformerFactory(kube, 0)
	events := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "involvedObject.kind!=Pod" // most are about Pods, and none of them is shown
	}))
	w := watched{all.Core().V1().Services().Informer(), all.Core().V1().Nodes().Informer(), events.Core().V1().Events().Informer()}
	for _, n := range slices.Compact([]string{metav1.NamespaceSystem, namespace}) {
		of := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(n))
		w = append(w, of.Coordination().V1().Leases().Informer())
	}
	note := func(o any) {
		switch o.(type) {
		case *coordinationv1.Lease: // renewed all the time, and shown with the next answer of the API server
			return
		case *corev1.Service: // CloudStack changes with it
			signal(s.due)
		}
		signal(s.arrived)
	}
	for _, informer := range w {
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: note})
	}
	return w
}

// run watches until ctx ends.
func (w watched) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, informer := range w {
		all.Go(func() { informer.RunWithContext(ctx) })
	}
	all.Wait()
}

// read sets the objects as last seen.
func (w watched) read(p *picture.Page) {
	p.Services, p.Nodes, p.Events, p.Leases = list[corev1.Service](w), list[corev1.Node](w), list[corev1.Event](w), list[coordinationv1.Lease](w)
}

// list copies the objects of a kind, sorted by namespace and name. The copies are shallow: nobody changes them.
func list[T any, P interface {
	*T
	metav1.Object
}](w watched) (out []T) {
	for _, informer := range w {
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
