// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	cpapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/backoff"
)

const (
	// driftWorkers is how many Services are compared at once; what they read is shared.
	driftWorkers = 4
	// wakeupWorkers is the number of workers that sync Services after changes which the framework does not watch. When a
	// node is lost, all Services that it served directly are synced at once.
	wakeupWorkers = 16
	// endpointPause gathers changes of endpoints: a rollout makes many.
	endpointPause = 500 * time.Millisecond
)

// settledServices are the UIDs of the Services that are in their desired state, as far as is known.
func (lb *loadBalancer) settledServices() []types.UID {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	var out []types.UID
	for uid, s := range lb.known {
		if s.settled {
			out = append(out, uid)
		}
	}
	return out
}

// run works beside the framework until ctx ends: it repairs drift, reports orphans and syncs Services that
// need not, or must not, wait for the framework.
func (lb *loadBalancer) run(ctx context.Context) {
	context.AfterFunc(ctx, func() { lb.wakeups.ShutDown(); close(lb.endpoints.stop) })
	for range wakeupWorkers {
		go lb.followWakeups(ctx)
	}
	go lb.heartbeats.Run(ctx)
	period := lb.deps.DriftPeriod
	if period == 0 {
		return
	}
	// Rounds begin between 0.8 and 1.0 periods apart, so that controllers started together do not stay together.
	base := period * 4 / 5
	select {
	case <-ctx.Done():
		return
	case <-time.After(wait.Jitter(base, 0.25)): // what was read at the start is fresh
	}
	wait.JitterUntilWithContext(ctx, lb.driftRound, base, 0.25, false)
}

// driftRound compares every Service with CloudStack once and puts right what others changed.
func (lb *loadBalancer) driftRound(ctx context.Context) {
	tagged := lb.tagsToSweep(ctx)
	begun := lb.deps.Clock.Now()
	all := lb.settledServices()
	workqueue.ParallelizeUntil(ctx, driftWorkers, len(all), func(i int) { lb.repair(ctx, all[i], begun) })
	if ctx.Err() == nil {
		lb.lookForOrphans(ctx, begun)
		lb.sweepTags(ctx, tagged, begun)
		lb.rounds.Observe(lb.deps.Clock.Since(begun).Seconds())
	}
}

// repair compares one Service with CloudStack. The framework and this take turns, and what is done is always what the
// framework asked for last.
func (lb *loadBalancer) repair(ctx context.Context, uid types.UID, since time.Time) {
	ctx, s, unlock := lb.turnOf(ctx, uid)
	defer unlock()
	if s == nil || !s.settled {
		return
	}
	lb.publish(ctx, s, func(ctx context.Context, req loadbalancer.Request) (loadbalancer.Result, error) {
		return lb.reconciler.Repair(ctx, req, since)
	})
}

// publish syncs a Service as it was last asked for, and writes its status as the framework does. A failed sync is
// repeated from here: the framework does not know of it.
func (lb *loadBalancer) publish(ctx context.Context, s *serviceState, do reconcile) {
	svc, settled, nodes := s.service, s.settled, lb.current(s.nodes)
	status, err := lb.ensure(ctx, svc, nodes, do)
	if err == nil && !servicehelpers.LoadBalancerStatusEqual(&svc.Status.LoadBalancer, status) {
		updated := svc.DeepCopy()
		updated.Status.LoadBalancer = *status
		if _, err = servicehelpers.PatchService(lb.deps.Kube.CoreV1(), svc, updated); err != nil {
			err = lb.ended(svc, lb.attempt(svc, nodes), fmt.Errorf("change the status of the Service: %w", err), backoff.Work{})
		} else {
			lb.with(svc.UID, func(*serviceState) { s.service = updated })
		}
	}
	if err == nil {
		return
	}
	if settled {
		klog.ErrorS(err, "A Service's load balancer could not be repaired; it is tried again", "service", klog.KObj(svc))
	}
	lb.with(svc.UID, func(*serviceState) { s.settled = settled })
	if later, ok := errors.AsType[*cpapi.RetryError](err); ok {
		lb.wakeups.AddAfter(svc.UID, later.RetryAfter())
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

// turn waits until nobody else works on the Service. All calls made with the context that it returns count for the
// Service's namespace.
func (lb *loadBalancer) turn(ctx context.Context, svc *corev1.Service) (context.Context, func(), error) {
	leave, err := lb.reconciler.Turn(ctx, string(svc.UID))
	return cloudstack.WithFlow(ctx, svc.Namespace), leave, err
}

// turnOf is turn for a Service as the framework last asked for it; nil when it is gone, or ctx has ended.
func (lb *loadBalancer) turnOf(ctx context.Context, uid types.UID) (context.Context, *serviceState, func()) {
	lb.mu.Lock()
	s := lb.known[uid]
	var svc *corev1.Service
	if s != nil {
		svc = s.service
	}
	lb.mu.Unlock()
	if s == nil {
		return ctx, nil, func() {}
	}
	ctx, unlock, err := lb.turn(ctx, svc)
	if err != nil {
		return ctx, nil, func() {}
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	return ctx, lb.known[uid], unlock // it may have been asked for again, or deleted, in the meantime
}

// goes reports whether the Service no longer wants a load balancer.
func goes(svc *corev1.Service) bool {
	return svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer
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

// followWakeups syncs Services before the framework does: those whose wait ended early, those whose endpoints or labels of
// nodes changed, and those with direct ports when other nodes may serve these. All others the framework itself syncs when their time has come; its queue cannot be reached
// from here.
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
