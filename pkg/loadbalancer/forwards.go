// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// mode is the mode of a Service.
func (p *Planner) mode(spec annotation.Spec) string {
	return cmp.Or(spec.Mode, p.options.Mode, annotation.Auto)
}

// CheckService says why a Service cannot be served wherever its nodes are; it makes no call.
func (p *Planner) CheckService(svc plan.Service, spec annotation.Spec) *plan.RefusalError {
	spec.Mode = p.mode(spec)
	return plan.CheckService(svc, spec)
}

// absent makes the task delete everything of the Service's.
func (t *task) absent(keepAddress bool) {
	t.Desired = plan.Desired{Absent: true, KeepAddress: keepAddress}
	t.Forwards = t.Forwards || plan.Facts{Service: t.Service, Spec: t.Spec}.Forwards()
}

// nobodyFit says that forwarded ports lead to nobody who could serve; nil when that is not so.
func (t *task) nobodyFit() *plan.Notice { return plan.NobodyFit(t.Desired, t.Members, t.Unfit) }
