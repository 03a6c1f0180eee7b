// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"context"
	"sync"
	"time"

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

// forwardCommands are what forwarding ports needs.
var forwardCommands = []string{"createPortForwardingRule", "updatePortForwardingRule", "deletePortForwardingRule", "listPortForwardingRules"}

// forwardRights is what is known of the role's right to forward ports. It is asked for before the first Service that needs
// it gets an address.
type forwardRights struct {
	mu      sync.Mutex
	asked   time.Time // zero: not yet
	command string    // one that the role does not allow; empty for none
}

// missing returns a command that the role does not allow; empty when it allows all, or that cannot be found out: then the
// first creation shows it. What is missing is asked for again where maxAge says that the answer is too old.
func (f *forwardRights) missing(ctx context.Context, o Options, maxAge time.Duration) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := o.Clock.Now()
	known := !f.asked.IsZero() && (f.command == "" || maxAge == 0 || now.Sub(f.asked) < maxAge)
	if o.Commands == nil || known {
		return f.command
	}
	allowed, err := o.Commands(ctx)
	if err != nil || len(allowed) == 0 {
		return f.command
	}
	f.asked, f.command = now, ""
	for _, c := range forwardCommands {
		if _, ok := allowed[c]; !ok {
			f.command = c
			break
		}
	}
	return f.command
}
