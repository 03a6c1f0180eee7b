// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// endpointSyncTimeout is how long a Service with externalTrafficPolicy Local waits until the EndpointSlices are listed.
const endpointSyncTimeout = time.Minute

// endpoints watches EndpointSlices once a Service needs them: most clusters have no such Service. If changed is nil, it
// lists them each time instead.
type endpoints struct {
	kube    kubernetes.Interface
	changed func(namespace, service string)
	stop    <-chan struct{}

	begin  sync.Once
	lister discoverylisters.EndpointSliceLister
	synced cache.InformerSynced
}

func (c *endpoints) start() {
	factory := informers.NewSharedInformerFactory(c.kube, 0)
	endpointSlices := factory.Discovery().V1().EndpointSlices()
	informer := endpointSlices.Informer()
	// These calls fail only for an informer that is already running, and this one is new.
	_ = informer.SetTransform(Cached)
	_, _ = informer.AddEventHandler(handler(func(was, is *discoveryv1.EndpointSlice) {
		s := cmp.Or(is, was)
		c.changed(s.Namespace, s.Labels[discoveryv1.LabelServiceName])
	}))
	c.lister, c.synced = endpointSlices.Lister(), informer.HasSynced
	factory.Start(c.stop)
}

// list returns the EndpointSlices of a Service.
func (c *endpoints) list(ctx context.Context, svc *corev1.Service) (out []*discoveryv1.EndpointSlice, err error) {
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: svc.Name})
	if c.changed == nil {
		list, err := c.kube.DiscoveryV1().EndpointSlices(svc.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return nil, err
		}
		for _, s := range list.Items {
			out = append(out, &s)
		}
		return out, nil
	}

	c.begin.Do(c.start)
	ctx, cancel := context.WithTimeout(ctx, endpointSyncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return nil, errors.New("the EndpointSlices are not read yet")
	}

	return c.lister.EndpointSlices(svc.Namespace).List(selector)
}

// nodesOf returns the names of the nodes with endpoints of a Service that take traffic. As in kube-proxy, these are
// ready endpoints, or, if there are none, terminating ones that still serve.
func (c *endpoints) nodesOf(ctx context.Context, svc *corev1.Service) (map[string]bool, error) {
	list, err := c.list(ctx, svc)
	if err != nil {
		return nil, err
	}

	ready, ending := map[string]bool{}, map[string]bool{}
	for _, s := range list {
		if s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for _, e := range s.Endpoints {
			switch {
			case e.NodeName == nil:
			case ptr.Deref(e.Conditions.Ready, true):
				ready[*e.NodeName] = true
			case ptr.Deref(e.Conditions.Serving, false) && ptr.Deref(e.Conditions.Terminating, false):
				ending[*e.NodeName] = true
			}
		}
	}

	if len(ready) == 0 {
		return ending, nil
	}

	return ready, nil
}
