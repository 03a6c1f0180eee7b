// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/backoff"
	"github.com/csccm/csccm/pkg/provider/failover"
)

const (
	// wakeupWorkers is the number of workers that sync Services after changes which the framework does not watch. When a
	// node is lost, all Services that it served directly are synced at once.
	wakeupWorkers = 16
	// endpointPause gathers changes of endpoints: a rollout makes many.
	endpointPause = 500 * time.Millisecond
)

// followWakeups syncs Services before the framework does: those whose wait ended early, those whose endpoints or labels of
// nodes changed, and those with direct ports when other nodes may serve these. All others the framework itself syncs when
// their time has come; its queue cannot be reached from here.
func (lb *loadBalancer) followWakeups(ctx context.Context) {
	for {
		uid, over := lb.wakeups.Get()
		if over {
			return
		}
		lb.wake(ctx, uid)
		lb.wakeups.Done(uid)
	}
}

// wake syncs a Service whose last sync failed, or that should have other members now.
func (lb *loadBalancer) wake(ctx context.Context, uid types.UID) {
	ctx, s, unlock := lb.turnOf(ctx, uid)
	defer unlock()
	if s == nil || !lb.backoff.Waiting(uid) && (!s.settled || lb.upToDate(ctx, s.service, lb.current(s.nodes))) {
		return
	}
	lb.publish(ctx, s, lb.reconciler.Ensure)
}

// watchHeartbeats prepares the watch of the kubelets' leases.
func (lb *loadBalancer) watchHeartbeats() *failover.Watch {
	probe := lb.deps.Probe
	if probe == nil {
		probe = failover.Answers
	}
	return &failover.Watch{
		Kube: lb.deps.Kube, Nodes: lb.deps.Nodes, After: lb.deps.SuspectAfter, Probe: probe, Changed: lb.fitnessChanged, Clock: lb.deps.Clock,
	}
}

// fitnessChanged syncs the Services with direct ports, as other nodes than before may serve these. Those that nothing
// changes for cost no call.
func (lb *loadBalancer) fitnessChanged() {
	lb.heartbeats.NodesChanged()
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		if s.forwards {
			lb.wakeups.Add(uid)
		}
	}
}

// endpointsChanged is told of every change of an EndpointSlice. One that comes while the Service is being synced counts,
// too: the sync may have read the endpoints before.
func (lb *loadBalancer) endpointsChanged(namespace, name string) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		local := s.service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
		if local && s.service.Namespace == namespace && s.service.Name == name {
			lb.wakeups.AddAfter(uid, endpointPause)
		}
	}
}

// leavingChanged syncs all Services when a Node is about to be deleted, or not any more: the framework waits until it is
// gone, and until then the load balancer would send clients to a VM that the cluster autoscaler has deleted.
func (lb *loadBalancer) leavingChanged(was, is *corev1.Node) {
	if failover.Leaving(was) == failover.Leaving(is) {
		return
	}
	back := len(Eligible([]*corev1.Node{is})) > 0
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		// The framework leaves the Node out of a sync for another reason meanwhile, and does not notice that it stays.
		if back && !slices.ContainsFunc(s.nodes, func(n *corev1.Node) bool { return n.UID == is.UID }) {
			s.nodes = append(slices.Clip(s.nodes), is)
		}
		lb.wakeForNodes(uid, s)
	}
}

// labelsChanged syncs the Services whose node selector matches only one of the two sets of labels of a Node.
func (lb *loadBalancer) labelsChanged(was, is map[string]string) {
	if maps.Equal(was, is) {
		return
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		if s.service.Annotations[annotation.NodeSelector] == "" {
			continue
		}
		spec, err := annotation.Parse(s.service)
		if err != nil || spec.NodeSelector == nil || spec.NodeSelector.Matches(labels.Set(was)) == spec.NodeSelector.Matches(labels.Set(is)) {
			continue
		}
		lb.wakeForNodes(uid, s)
	}
}

// wakeForNodes syncs a Service soon since its nodes have changed. One whose last sync failed because of its nodes is
// synced now; after other failures the next attempt has the new ones.
func (lb *loadBalancer) wakeForNodes(uid types.UID, s *serviceState) {
	if wait, ok := lb.backoff.Wake(uid, func(err error) bool { return backoff.TriggerOf(err) == backoff.ByNodes }); ok {
		lb.wakeups.AddAfter(uid, wait)
	} else if s.settled {
		lb.wakeups.AddAfter(uid, endpointPause)
	}
}

// freed tries a Service again that waits for an address, or a port, since one became free.
func (lb *loadBalancer) freed(trigger backoff.Trigger) {
	for uid, wait := range lb.backoff.Freed(trigger) {
		lb.wakeups.AddAfter(uid, wait)
	}
}

// recordsChanged tries a Service again whose records did not parse: its owner has corrected or removed them.
func (lb *loadBalancer) recordsChanged(uid types.UID) {
	unreadable := func(err error) bool {
		refusal, ok := errors.AsType[*plan.RefusalError](err)
		return ok && refusal.Reason == plan.ReasonInvalidAnnotation
	}
	if wait, ok := lb.backoff.Wake(uid, unreadable); ok {
		lb.wakeups.AddAfter(uid, wait)
	}
}
