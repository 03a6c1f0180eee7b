// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Orphans finds what this cluster made for Services that are gone; living reports whether a Service is not. It reads
// whole lists, those that others read since.
func (p *Planner) Orphans(ctx context.Context, since time.Time, living func(uid string) bool) ([]observe.Orphan, error) {
	project, err := p.options.Project(ctx, "")
	if err != nil {
		return nil, err
	}
	return p.observer.Orphans(ctx, project, p.options.ClusterID(), since, p.limits().LeaveACLs, living)
}

// noRecords is the record store of a Service that is gone.
type noRecords struct{}

func (noRecords) Load(context.Context) (annotation.Records, error) { return annotation.Records{}, nil }
func (noRecords) Save(context.Context, annotation.Records) error   { return nil }

// CleanOrphan removes everything of a Service that is gone, with the same
// proofs as its deletion would have asked for. notify is told what was done.
func (r *Reconciler) CleanOrphan(ctx context.Context, o observe.Orphan, notify func(plan.Notice)) error {
	namespace, name, _ := strings.Cut(o.Service, "/")
	req := Request{
		Service: plan.Service{UID: o.UID, Namespace: namespace, Name: name, LB: plan.LBName(o.UID)},
		Records: noRecords{}, Notify: notify,
	}
	if o.UID == "" {
		// Nobody's any more: as if a Service had it to the last.
		req.Service.UID = "vacant " + o.ID
		req.Spec.Records.Addresses = []annotation.AddressRecord{{ID: o.ID, IP: o.IP, Allocated: true}}
	}
	t, err := r.begin(ctx, req)
	if err != nil {
		return err
	}
	defer t.release()
	t.BulkSince, t.AllACLs = time.Time{}, o.Kind == "acl"
	t.Forwards = o.Kind == "forward"
	_, err = r.remove(ctx, t)
	return err
}
