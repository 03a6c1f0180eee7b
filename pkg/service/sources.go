// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/node/failover"
)

// gatherPause gathers changes of endpoints and Nodes: a rollout makes many.
const gatherPause = 500 * time.Millisecond

// handler calls changed with an object before and after a change; one of the two is nil for an object that is new or gone.
func handler[T any](changed func(was, is *T)) cache.ResourceEventHandler {
	object := func(obj any) *T {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		out, _ := obj.(*T)
		return out
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(is any) { changed(nil, object(is)) },
		UpdateFunc: func(was, is any) { changed(object(was), object(is)) },
		DeleteFunc: func(was any) { changed(object(was), nil) },
	}
}

// ServiceHandler puts changed Services into the queue.
func (c *Controller) ServiceHandler() cache.ResourceEventHandler {
	return handler(func(was, is *corev1.Service) {
		if was != nil && is != nil && was.UID == is.UID {
			c.serviceUpdated(was, is)
			return
		}
		if was != nil { // perhaps created again while nobody watched
			c.ServiceDeleted(was)
		}
		if is != nil {
			c.ServiceAdded(is)
		}
	})
}

// NodeHandler puts the Services into the queue that a change of a Node concerns.
func (c *Controller) NodeHandler() cache.ResourceEventHandler { return handler(c.nodeChanged) }

// ServiceAdded notes a Service that is new, or was there when the controller started.
func (c *Controller) ServiceAdded(svc *corev1.Service) {
	c.note(svc)
	c.observed(svc)
	if Handles(svc) || c.abandoned(svc) {
		c.queue.Add(KeyOf(svc))
	}
}

// observed notes a version of a Service that the informer shows, unless the controller has nothing to do with it. It returns the
// newest version, and whether the informer's was known already: this process wrote it.
func (c *Controller) observed(svc *corev1.Service) (newest *corev1.Service, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := KeyOf(svc)
	s := c.states[k]
	if s == nil {
		s = &state{}
		if Handles(svc) || hasRecords(svc) {
			c.states[k] = s
		}
	}
	known = s.update(svc)
	return s.svc, known
}

// abandoned reports whether a Service that the controller does not handle may have something in CloudStack: its finalizer was
// taken away.
func (c *Controller) abandoned(svc *corev1.Service) (found bool) {
	c.with(KeyOf(svc), func(s *state) { found = s.touched })
	return found || hasRecords(svc)
}

// hasRecords reports whether a Service has records of addresses.
func hasRecords(svc *corev1.Service) bool {
	return svc.Spec.LoadBalancerClass == nil && (svc.Annotations[annotation.Addresses] != "" || svc.Annotations[annotation.Allocation] != "")
}

func (c *Controller) serviceUpdated(was, is *corev1.Service) {
	if c.note(is) {
		c.freed() // whoever was refused the addresses may be admitted now
	}
	if !Handles(is) && !Handles(was) && !c.abandoned(is) {
		return
	}
	newest, own := c.observed(is)
	// Somebody may have taken from the Service what the controller keeps on it.
	lacks := newest.Annotations[annotation.Addresses] != "" && (!servicehelpers.HasLBFinalizer(newest) || len(newest.Status.LoadBalancer.Ingress) == 0)
	asked := annotation.Fingerprint(was) != annotation.Fingerprint(is) // an informer may pass over versions: our own write may bring what others wrote
	if asked || !own && (wants(was) != wants(is) || leaves(was) != leaves(is) || wants(is) && lacks) {
		c.queue.Add(KeyOf(is))
	}
}

// ServiceDeleted notes a Service that is gone. One that was deleted without its finalizer is cleaned up like any other.
func (c *Controller) ServiceDeleted(svc *corev1.Service) {
	k := KeyOf(svc)
	left := c.abandoned(svc) || Handles(svc) && len(svc.Status.LoadBalancer.Ingress) > 0
	c.observed(svc)
	c.with(k, func(s *state) { s.gone = true })
	if !left {
		c.forget(k)
		return
	}
	c.book.leave(svc.UID)
	c.queue.Add(k)
}

// nodeChanged syncs the Services that a change of a Node concerns; one of the two is nil for a Node that is new or gone.
func (c *Controller) nodeChanged(was, is *corev1.Node) {
	health := was == nil || is == nil || failover.ProblemOf(was).Cause != failover.ProblemOf(is).Cause
	if health {
		c.heartbeats.NodesChanged()
	}
	members := was == nil || is == nil || eligible(was) != eligible(is) || c.members.Key([]*corev1.Node{was}, nil) != c.members.Key([]*corev1.Node{is}, nil)
	relabelled := !members && !maps.Equal(was.Labels, is.Labels)
	if health { // clients of a lost node wait
		c.wake(0, func(_ Key, s *state) bool { return s.forwards })
	}
	c.wake(gatherPause, func(_ Key, s *state) bool {
		selects := func(n *corev1.Node) bool {
			spec, _ := annotation.Parse(s.svc)
			return len(selected(spec, []*corev1.Node{n})) > 0
		}
		return s.svc != nil && wants(s.svc) && (!health || !s.forwards) && (members || relabelled && selects(was) != selects(is))
	})
}

// endpointsChanged syncs a Service that only nodes with endpoints serve. A change that comes while the Service is being
// synced counts, too: the queue holds it until then.
func (c *Controller) endpointsChanged(namespace, name string) {
	c.wake(gatherPause, func(k Key, s *state) bool {
		return k.Namespace == namespace && s.svc != nil && s.svc.Name == name && s.svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	})
}

// freed notes that something became free that other Services may wait for.
func (c *Controller) freed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freedAt = c.deps.Clock.Now()
	c.tryNext()
}

// tryNext tries a Service again of those that wait for what others have and were not tried since something became free. First
// come those for which CloudStack had no address, then those that were refused; of both the one that waits longest. When its
// attempt has ended, the next is tried. The controller's lock is held.
func (c *Controller) tryNext() {
	var first Key
	var found *retry
	for k, s := range c.states {
		r := &s.retry
		if r.kind != byOthers || r.next || !r.began.Before(c.freedAt) {
			continue
		}
		if found == nil || r.aheadOf(found) || !found.aheadOf(r) && k.UID < first.UID {
			first, found = k, r
		}
	}
	if found != nil {
		found.next = true
		c.queue.AddAfter(first, found.shorten(c.deps.Clock.Now()))
	}
}
