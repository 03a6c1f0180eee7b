// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// nowhere tells by the failure of a look into the project that a Service names, and that nothing else speaks of,
// that there is no such project: then there is nothing in it, and the Service can go.
func (req *Request) nowhere(err error) bool {
	return cloudstack.IsNotFound(err) && req.Spec.Project != "" && req.Spec.Records.Empty() && len(req.Service.StatusIPs) == 0
}

// Delete removes everything of a Service's. It returns nil only when nothing is left.
func (r *Reconciler) Delete(ctx context.Context, req Request) (Result, error) {
	t, err := r.begin(ctx, req)
	if req.nowhere(err) {
		r.forget(req.Service.UID)
		return Result{}, nil
	}
	if err != nil {
		return Result{}, err
	}
	defer t.release()
	return r.remove(ctx, t)
}

func (r *Reconciler) remove(ctx context.Context, t *task) (Result, error) {
	t.wanted = Desired{Absent: true, KeepAddress: t.Spec.KeepIP}
	if err := r.settle(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	if err := r.prove(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	actions := Plan(t.wanted, *t.mem.actual, r.limits())
	if fewer, err := r.limitKept(ctx, t, actions); err != nil {
		return Result{}, r.failed(t, err)
	} else if fewer {
		actions = Plan(t.wanted, *t.mem.actual, r.limits())
	}
	if err := r.underWay(t, actions); err != nil {
		return Result{}, r.failed(t, err)
	}
	r.metrics.planned(actions)
	if _, err := r.apply(ctx, t, actions); err != nil {
		return Result{Plan: actions, Done: t.done}, r.failed(t, err)
	}
	if !r.applies() {
		return Result{Plan: actions}, fmt.Errorf("nothing is deleted under the policy %s", r.options.Policy)
	}
	t.records.Addresses = nil
	if err := r.save(ctx, t); err != nil {
		return Result{Plan: actions}, r.failed(t, err)
	}
	if len(t.records.Pending) > 0 {
		return Result{Plan: actions}, r.failed(t, &WaitError{
			Message: "waiting to learn whether an address whose acquisition got no answer arrived after all", After: lostAnswerGrace / 4,
		})
	}
	r.metrics.held(t.Service.UID, 0)
	r.forget(t.Service.UID)
	return Result{Plan: actions}, nil
}

// Exists tells whether anything of a Service's is there, and its addresses.
func (r *Reconciler) Exists(ctx context.Context, req Request) ([]string, bool, error) {
	t, err := r.begin(ctx, req)
	if req.nowhere(err) {
		r.forget(req.Service.UID)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer t.release()
	if !t.records.Empty() {
		var ips []string
		for _, a := range t.records.Addresses {
			if a.IP != "" {
				ips = append(ips, a.IP)
			}
		}
		return ips, true, nil
	}
	t.wanted = Desired{Absent: true}
	if err := r.observe(ctx, t, true); err != nil {
		return nil, false, r.failed(t, err)
	}
	var ips []string
	for i := range t.mem.actual.Addresses {
		if a := &t.mem.actual.Addresses[i]; a.ours() {
			ips = append(ips, a.IP)
		}
	}
	if len(ips) == 0 {
		r.forget(t.Service.UID)
	}
	return ips, len(ips) > 0, nil
}
