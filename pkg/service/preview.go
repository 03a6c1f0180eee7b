// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Previewer determines what the controller would do for Services. It only reads from CloudStack and from the API
// server.
type Previewer struct {
	c *Controller
}

// NewPreviewer returns a Previewer that decides as a controller with these Deps would. It lists the Services once for
// each Round. NewPreviewer makes no call.
func NewPreviewer(d Deps) *Previewer {
	c := New(d)
	c.book.lasts = 0   // only the running controller knows the reservations
	c.queue.ShutDown() // the queue is not used, and its goroutine would not end otherwise
	c.endpoints.changed = nil
	return &Previewer{c}
}

// ClusterID returns the id of the cluster in tags.
func (p *Previewer) ClusterID() string { return p.c.ClusterIDs()[0] }

// ProjectID returns the id of the project in the cloud-config; empty for the account's own resources.
func (p *Previewer) ProjectID(ctx context.Context) (string, error) {
	return p.c.Inventory.ProjectID(ctx)
}

// Round returns a Round for several previews. It lists the cluster's Services once, when it first needs them, and uses
// whole lists of CloudStack that were started since. If since is zero, it reads only what each Service needs.
func (p *Previewer) Round(since time.Time) *Round {
	return &Round{Previewer: p, since: since}
}

// Round is a number of previews from the same lists.
type Round struct {
	*Previewer
	since time.Time
	fill  sync.Once
	err   error // the error of fill
}

// Project is what CloudStack has in the project of the cloud-config.
type Project struct {
	VMs       *inventory.VMSnapshot
	Addresses []cloudstack.PublicIP
	Rules     []cloudstack.LoadBalancerRule
	Orphans   []observe.Orphan
}

// Project reads the lists of the round.
func (r *Round) Project(ctx context.Context) (out Project, err error) {
	if err := r.fillBook(); err != nil {
		return out, err
	}
	if out.VMs, err = r.c.Inventory.VMs(ctx, max(time.Nanosecond, r.c.Clock.Since(r.since))); err != nil {
		return out, err
	}
	id := r.c.Inventory.KnownProjectID() // it is known since the VMs were listed
	if out.Addresses, out.Rules, err = r.c.reconciler.Observer.Lists(ctx, id, r.since); err != nil {
		return out, err
	}
	out.Orphans, err = r.c.reconciler.Orphans(ctx, id, r.since, false)
	return out, err
}

// fillBook fills the address book with the cluster's Services, once.
func (r *Round) fillBook() error {
	r.fill.Do(func() {
		services, err := r.c.Services()
		if r.err = err; err == nil {
			r.c.mu.Lock()
			clear(r.c.states)
			r.c.book.clear()
			r.c.mu.Unlock()
			for _, svc := range services {
				r.c.ServiceChanged(svc)
			}
		}
	})
	return r.err
}

// Service returns what would be done for a Service that the controller handles; nodes are all Nodes of the cluster. A
// refusal is part of the result; an error means that the result could not be determined. Policies are not applied.
func (r *Round) Service(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error) {
	out := loadbalancer.Preview{Service: svc.Namespace + "/" + svc.Name, Actions: []plan.Step{}}
	w := newWork(r.c.version(svc), &state{since: r.since}, nodes, (*notices)(&out.Notices))
	w.preview = true
	err := r.fillBook()
	if err == nil {
		r.c.book.set(w.version)
		err = r.c.reconcile(ctx, w)
	}

	if w.unserved != nil {
		w.events.notice(*w.unserved)
	}

	out.Desired, out.Actual, out.Pending = w.Desired, w.Actual, w.Pending
	if errors.As(err, &out.Refusal) {
		err = nil
	}

	if out.Refusal != nil && w.served() && !w.absent {
		w.Result, err = r.c.applyMaintenance(ctx, w)
	}

	out.Actions = append(out.Actions, w.Plan...)
	return out, err
}

// notices collects Events instead of writing them.
type notices []plan.Notice

func (n *notices) Event(_ runtime.Object, kind, reason, message string) {
	*n = append(*n,
		plan.Notice{Warning: kind == corev1.EventTypeWarning, Reason: plan.Reason(reason), Message: message})
}
