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
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/node/failover"
)

// gatherPause is the delay after changes of endpoints and Nodes. A rollout makes many such changes, and one sync then
// handles several of them.
const gatherPause = 500 * time.Millisecond

// handler returns an event handler that calls changed with an object before and after a change. One of the two is nil
// for an object that is new or deleted.
func handler[T any](changed func(was, is *T)) cache.ResourceEventHandler {
	object := func(obj any) *T {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		out, _ := obj.(*T)
		return out
	}

	call := func(was, is *T) {
		if was != nil || is != nil { // the informer may not have the deleted object
			changed(was, is)
		}
	}

	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(is any) { call(nil, object(is)) },
		UpdateFunc: func(was, is any) { call(object(was), object(is)) },
		DeleteFunc: func(was any) { call(object(was), nil) },
	}
}

// ServiceHandler returns the handler that adds changed Services to the queue.
func (c *Controller) ServiceHandler() cache.ResourceEventHandler {
	return handler(func(was, is *corev1.Service) {
		// The informer may have missed that the Service was deleted and recreated: the UID shows it.
		if was != nil && (is == nil || was.UID != is.UID) {
			c.ServiceDeleted(was)
		}
		if is != nil {
			c.ServiceChanged(is)
		}
	})
}

// NodeHandler returns the handler that adds to the queue the Services affected by a change of a Node.
func (c *Controller) NodeHandler() cache.ResourceEventHandler { return handler(c.nodeChanged) }

// ServiceChanged handles a version of a Service that the informer shows: a new Service, or a change.
func (c *Controller) ServiceChanged(svc *corev1.Service) {
	was, is, ours := c.learn(svc)
	if is == was {
		return // this process has written the version, or knows a newer one
	}

	// Somebody may have removed the finalizer or the records.
	incomplete := is.wants && svc.Annotations[annotation.Addresses] != "" &&
		(!servicehelpers.HasLBFinalizer(svc) || len(svc.Status.LoadBalancer.Ingress) == 0)
	c.with(KeyOf(svc), func(s *state) {
		if s.overwritten(svc) {
			s.overwrites++
			incomplete = incomplete || s.overwrites <= maxRepairs
		}
	})

	if incomplete || differ(was, is) && ours {
		c.queue.Add(KeyOf(svc))
	}
}

// differ reports whether a version of a Service needs a sync that the version before did not need.
func differ(was, is *version) bool {
	return was == nil || was.asked != is.asked || was.handled != is.handled
}

// wrote records that this process has written a Service. The answer may contain what others have written in the
// meantime.
func (c *Controller) wrote(k Key, svc *corev1.Service) {
	if was, is, _ := c.learn(svc); is != nil && is != was && differ(was, is) {
		c.queue.Add(k)
	}
}

// ServiceDeleted handles a deleted Service. If it was deleted without its finalizer, it is cleaned up like any other.
func (c *Controller) ServiceDeleted(svc *corev1.Service) {
	k := KeyOf(svc)
	_, is, _ := c.learn(svc)
	touched := false
	c.with(k, func(s *state) { touched, s.deleted = s.touched, true })
	mayHaveObjects := is != nil && (touched || hasRecords(is.svc) || is.handled && is.served())
	if !mayHaveObjects {
		c.deleteState(k)
		return
	}
	c.book.leave(svc.UID)
	c.queue.Add(k)
}

// nodeChanged syncs the Services that a change of a Node concerns. One of the two is nil for a Node that is new or
// deleted.
func (c *Controller) nodeChanged(was, is *corev1.Node) {
	whole := was == nil || is == nil
	health := whole || failover.ProblemOf(was).Cause != failover.ProblemOf(is).Cause
	members := whole ||
		eligible(was) != eligible(is) ||
		node.Key([]*corev1.Node{was}) != node.Key([]*corev1.Node{is})
	relabelled := !members && !maps.Equal(was.Labels, is.Labels)
	if health {
		c.heartbeats.NodesChanged()
		// Do not delay the sync: clients of a lost node are waiting.
		c.wake(0, (*state).forwarding)
	}
	c.wake(gatherPause, func(s *state) bool {
		wants := s.version != nil && s.wants
		return wants && (!health || !s.forwarding()) && (members || relabelled && s.spec.NodeSelector != nil)
	})
}

// endpointsChanged syncs a Service that is served only by nodes with endpoints. A change during a sync is not lost: the
// queue holds the key until the sync ends.
func (c *Controller) endpointsChanged(namespace, name string) {
	c.wake(gatherPause, func(s *state) bool {
		return s.version != nil &&
			s.svc.Namespace == namespace &&
			s.svc.Name == name &&
			s.svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	})
}
