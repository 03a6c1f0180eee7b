// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	cpapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/provider/backoff"
)

// driftWorkers is how many Services are compared at once; what they read is shared.
const driftWorkers = 4

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
			w := lb.workOn(svc, nodes)
			err = lb.ended(w, lb.attempt(w), fmt.Errorf("change the status of the Service: %w", err), backoff.Work{})
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
