// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import "context"

// PreviewDelete says what Delete would do. It writes nothing, neither to CloudStack nor to the Service.
func (r *Reconciler) PreviewDelete(ctx context.Context, req Request) (Preview, error) {
	out := Preview{Service: req.Service.Key(), Actions: []Action{}}
	req.Notify = func(n Notice) { out.Notices = append(out.Notices, n) }
	t, err := r.newTask(ctx, req, newMemory())
	if err != nil {
		return out, err
	}
	defer t.release()
	out.Pending = len(t.records.Pending)
	t.wanted = Desired{Absent: true, KeepAddress: t.Spec.KeepIP}
	if err := r.prove(ctx, t); err != nil {
		return out, err
	}
	out.Desired, out.Actual = &t.wanted, t.mem.actual
	out.Actions = append(out.Actions, Plan(t.wanted, *t.mem.actual, r.limits())...)
	return out, nil
}
