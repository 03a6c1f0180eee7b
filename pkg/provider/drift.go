// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/provider/backoff"
)

const (
	// driftWorkers is how many Services are compared at once; what they read is shared.
	driftWorkers = 4
	// endpointPause gathers changes of endpoints: a rollout makes many.
	endpointPause = 500 * time.Millisecond
)

// seenService is what the framework last asked for: the Service and the nodes that it found eligible.
type seenService struct {
	service *corev1.Service
	nodes   []*corev1.Node
	// settled is set when the framework's last sync succeeded. It tries others again itself.
	settled bool
}

func (lb *loadBalancer) remember(svc *corev1.Service, nodes []*corev1.Node) {
	lb.mu.Lock()
	lb.seen[svc.UID] = &seenService{service: svc, nodes: nodes}
	lb.mu.Unlock()
}

func (lb *loadBalancer) unsee(uid types.UID) {
	lb.mu.Lock()
	delete(lb.seen, uid)
	lb.mu.Unlock()
}

// settledServices are the UIDs of the Services that stand as asked for, as far as is known.
func (lb *loadBalancer) settledServices() []types.UID {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	var out []types.UID
	for uid, s := range lb.seen {
		if s.settled {
			out = append(out, uid)
		}
	}
	return out
}

// run works beside the framework until ctx ends: it repairs drift, reports orphans and follows endpoints.
func (lb *loadBalancer) run(ctx context.Context) {
	lb.endpoints.run(ctx.Done())
	go lb.followEndpoints(ctx)
	go lb.followRetries(ctx)
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
	gate := make(chan struct{}, driftWorkers)
	var group sync.WaitGroup
	for _, uid := range all {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			if ctx.Err() == nil {
				lb.repair(ctx, uid, begun)
			}
		})
	}
	group.Wait()
	lb.mu.Lock()
	lb.pruneLocked()
	lb.mu.Unlock()
	if ctx.Err() == nil {
		lb.lookForOrphans(ctx, begun)
		lb.sweepTags(ctx, tagged, begun)
		lb.metrics.round(lb.deps.Clock.Since(begun))
	}
}

// repair compares one Service with CloudStack.
func (lb *loadBalancer) repair(ctx context.Context, uid types.UID, since time.Time) {
	lb.again(ctx, uid, func(ctx context.Context, req loadbalancer.Request) (loadbalancer.Result, error) {
		return lb.reconciler.Repair(ctx, req, since)
	})
}

// again syncs a Service as the framework last asked for it. The framework and this take turns, and what is done
// is always what was asked for last.
func (lb *loadBalancer) again(ctx context.Context, uid types.UID, do reconcile) bool {
	ctx, s, unlock := lb.turnOf(ctx, uid)
	defer unlock()
	if s == nil || !s.settled {
		return true
	}
	if err := lb.publish(ctx, s, do); err != nil {
		lb.mu.Lock()
		s.settled = true // nobody else tries it again
		lb.mu.Unlock()
		klog.ErrorS(err, "A Service's load balancer could not be repaired; it is tried again", "service", klog.KObj(s.service))
		return lb.retryLater(uid, err) // then the queue of endpoints needs no retry of its own
	}
	return true
}

// publish syncs a Service as it was last asked for, and writes its status as the framework does.
func (lb *loadBalancer) publish(ctx context.Context, s *seenService, do reconcile) error {
	nodes := lb.current(s.nodes)
	status, err := lb.ensure(ctx, s.service, nodes, do)
	if err != nil || servicehelpers.LoadBalancerStatusEqual(&s.service.Status.LoadBalancer, status) {
		return err
	}
	updated := s.service.DeepCopy()
	updated.Status.LoadBalancer = *status
	if _, err := servicehelpers.PatchService(lb.deps.Kube.CoreV1(), s.service, updated); err != nil {
		return lb.ended(s.service, backoff.AttemptOf(s.service, nodesKey(nodes)), fmt.Errorf("change the status of the Service: %w", err), backoff.Work{})
	}
	lb.mu.Lock()
	s.service = updated
	lb.mu.Unlock()
	return nil
}

// endpointsChanged is told of every change of an EndpointSlice.
func (lb *loadBalancer) endpointsChanged(namespace, name string) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.seen {
		if s.service.Namespace == namespace && s.service.Name == name && s.service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			lb.queue.AddAfter(uid, endpointPause)
		}
	}
}

// followEndpoints keeps the members of Services with externalTrafficPolicy Local to the nodes with endpoints, and those
// of Services with a node selector to the nodes that it matches.
func (lb *loadBalancer) followEndpoints(ctx context.Context) {
	go func() { <-ctx.Done(); lb.queue.ShutDown() }()
	for {
		uid, over := lb.queue.Get()
		if over {
			return
		}
		if lb.moved(ctx, uid) {
			lb.queue.Forget(uid)
		} else {
			lb.queue.AddRateLimited(uid)
		}
		lb.queue.Done(uid)
	}
}

// moved brings a Service's members to the nodes that have endpoints, and match its node selector, now.
func (lb *loadBalancer) moved(ctx context.Context, uid types.UID) bool {
	lb.mu.Lock()
	s, ok := lb.seen[uid]
	if !ok {
		lb.mu.Unlock()
		return true
	}
	svc, nodes := s.service, s.nodes // a drift round may put another Service there
	lb.mu.Unlock()
	nodes = lb.current(nodes)
	spec := lb.specOf(svc)
	if spec != nil && lb.upToDate(ctx, svc, *spec, nodes) {
		return true
	}
	return lb.again(ctx, uid, lb.reconciler.Ensure)
}

func newEndpointQueue() workqueue.TypedRateLimitingInterface[types.UID] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](time.Second, 5*time.Minute))
}
