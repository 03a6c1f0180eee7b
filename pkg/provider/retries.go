// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cpapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/provider/backoff"
)

const (
	// inventoryIdle is how long the inventory of a project is kept that nobody asks for. What it holds is too old by
	// then; drift rounds ask for that of every living Service more often.
	inventoryIdle = 15 * time.Minute
	// missingAge is how long a node without VM is remembered.
	missingAge = time.Hour
)

// otherInventory is the inventory of a project that Services name.
type otherInventory struct {
	*inventory.Inventory
	used time.Time
}

// turn waits until nobody else works on the Service. All calls made with the context that it returns count for the
// Service's namespace.
func (lb *loadBalancer) turn(ctx context.Context, svc *corev1.Service) (context.Context, func(), error) {
	leave, err := lb.reconciler.Turn(ctx, string(svc.UID))
	return cloudstack.WithFlow(ctx, svc.Namespace), leave, err
}

// turnOf is turn for a Service as the framework last asked for it; nil when it is gone, or ctx has ended.
func (lb *loadBalancer) turnOf(ctx context.Context, uid types.UID) (context.Context, *seenService, func()) {
	lb.mu.Lock()
	s := lb.seen[uid]
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
	return ctx, lb.seen[uid], unlock // it may have been asked for again, or deleted, in the meantime
}

// goes reports whether the Service no longer wants a load balancer.
func goes(svc *corev1.Service) bool {
	return svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// drop forgets a Service that is gone.
func (lb *loadBalancer) drop(uid types.UID) {
	lb.mu.Lock()
	delete(lb.seen, uid)
	delete(lb.shown, uid)
	delete(lb.synced, uid)
	delete(lb.doubtful, uid)
	lb.pruneLocked()
	lb.mu.Unlock()
	lb.backoff.Forget(uid)
}

// pruneLocked drops what no living Service uses. It is called with lb.mu held.
func (lb *loadBalancer) pruneLocked() {
	now := lb.deps.Clock.Now()
	for project, other := range lb.others {
		if now.Sub(other.used) > inventoryIdle {
			delete(lb.others, project)
		}
	}
	for uid, at := range lb.missing {
		if now.Sub(at) > missingAge {
			delete(lb.missing, uid)
		}
	}
}

// freed tries a Service again that waits for an address, or a port, since one became free.
func (lb *loadBalancer) freed(trigger backoff.Trigger) {
	for uid, wait := range lb.backoff.Freed(trigger) {
		lb.retries.AddAfter(uid, wait)
	}
}

// recordsChanged tries a Service again whose records did not parse: its owner has corrected or removed them.
func (lb *loadBalancer) recordsChanged(uid types.UID) {
	unreadable := func(err error) bool {
		refusal, ok := errors.AsType[*loadbalancer.RefusalError](err)
		return ok && refusal.Reason == loadbalancer.ReasonInvalidAnnotation
	}
	if wait, ok := lb.backoff.Wake(uid, unreadable); ok {
		lb.retries.AddAfter(uid, wait)
	}
}

// followRetries tries Services again whose wait ended early. All others the framework itself tries when their time
// has come; its queue cannot be reached from here.
func (lb *loadBalancer) followRetries(ctx context.Context) {
	go func() { <-ctx.Done(); lb.retries.ShutDown() }()
	for {
		uid, over := lb.retries.Get()
		if over {
			return
		}
		lb.retry(ctx, uid)
		lb.retries.Done(uid)
	}
}

func (lb *loadBalancer) retry(ctx context.Context, uid types.UID) {
	ctx, s, unlock := lb.turnOf(ctx, uid)
	defer unlock()
	if s == nil || !lb.backoff.Waiting(uid) {
		return
	}
	if err := lb.publish(ctx, s, lb.reconciler.Ensure); err != nil {
		klog.V(2).InfoS("A Service's load balancer still fails", "service", klog.KObj(s.service), "err", err)
		lb.retryLater(uid, err)
	}
}

// retryLater plans the next attempt after a failed one that the framework did not see. It reports whether there
// will be one.
func (lb *loadBalancer) retryLater(uid types.UID, err error) bool {
	later, ok := errors.AsType[*cpapi.RetryError](err)
	if ok {
		lb.retries.AddAfter(uid, later.RetryAfter())
	}
	return ok
}
