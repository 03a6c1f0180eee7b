// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/selftest"
)

// contactPause is the pause between two attempts to reach CloudStack.
const contactPause = 10 * time.Second

// contact logs whether CloudStack can be used as configured, and what is missing. It retries until it succeeds; the
// controllers run meanwhile and report their own errors. When CloudStack stops answering later, contact polls it until
// it answers, and then ends the backoff of Services.
func (p *Provider) contact(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, contactPause, true, func(ctx context.Context) (bool, error) {
		vms, err := p.tryContact(ctx)
		switch {
		case err == nil:
			klog.InfoS("CloudStack can be used", "scope", vms.Scope())
		case ctx.Err() == nil:
			klog.ErrorS(err, "CloudStack cannot be used", "remedy", selftest.Remedy(err), "retryIn", contactPause)
		}
		return err == nil, nil
	})

	failed := false // a single failed call is no outage: any later successful call ends it
	_ = wait.PollUntilContextCancel(ctx, contactPause, false, func(ctx context.Context) (bool, error) {
		if p.outage.silent() {
			_, err := p.inventory.VMs(ctx, time.Second)
			failed = failed || err != nil
		}
		if failed && !p.outage.silent() {
			failed = false
			p.services.Recovered()
		}
		return false, nil
	})
}

// outage logs when CloudStack answers again after an outage: the errors in a log do not show when an outage ended.
type outage struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	since time.Time // zero while calls are answered
}

// observe is the client's observer. An error that CloudStack sends is an answer too.
func (o *outage) observe(x cloudstack.Observation) {
	if !x.Silent && x.Code == 0 {
		return // the caller gave up, which says nothing about CloudStack
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case x.Silent && o.since.IsZero():
		o.since = o.clock.Now()
	case !x.Silent && !o.since.IsZero():
		klog.InfoS("CloudStack answers again", "after", o.clock.Since(o.since).Round(time.Second))
		o.since = time.Time{}
	}
}

// silent reports whether CloudStack does not answer at present.
func (o *outage) silent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// tryContact reads what the Node controllers need as well; the inventory caches the results.
func (p *Provider) tryContact(ctx context.Context) (*inventory.VMSnapshot, error) {
	vms, err := p.inventory.VMs(ctx, node.VMAge)
	if err == nil {
		_, err = selftest.CheckZone(ctx, p.inventory, p.config.Zone)
	}
	return vms, err
}
