// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"errors"
)

// Preview is what the controller would do for a Service, found by reading alone.
type Preview struct {
	Service string   `json:"service"`
	Desired *Desired `json:"desired,omitempty"`
	Actual  *Actual  `json:"actual,omitempty"`
	// Actions lead from actual to desired. Policies are not applied to them.
	Actions []Action `json:"actions"`
	// Refusal says why the Service would not be served; nothing would be changed then.
	Refusal *RefusalError `json:"refusal,omitempty"`
	// Pending are acquisitions whose outcome the controller would ask for first.
	Pending int      `json:"pending,omitempty"`
	Notices []Notice `json:"notices,omitempty"`
}

// Preview says what Ensure would do. It writes nothing, neither to CloudStack nor to the Service.
func (r *Reconciler) Preview(ctx context.Context, req Request) (Preview, error) {
	out := Preview{Service: req.Service.Key(), Actions: []Action{}}
	req.Notify = func(n Notice) { out.Notices = append(out.Notices, n) }
	t, err := r.newTask(ctx, req, newMemory())
	if err != nil {
		return out, err
	}
	out.Pending = len(t.records.Pending)
	refused := func(err error) (Preview, error) {
		if errors.As(err, &out.Refusal) {
			return out, nil
		}
		return out, err
	}
	if err := r.desire(ctx, t); err != nil {
		return refused(err)
	}
	if err := r.observe(ctx, t, false); err != nil {
		return out, err
	}
	out.Desired, out.Actual = &t.wanted, t.mem.actual
	actions, err := r.plan(ctx, t)
	t.release()
	if err != nil {
		return refused(err)
	}
	out.Actual = t.mem.actual
	out.Actions = append(out.Actions, actions...)
	return out, nil
}
