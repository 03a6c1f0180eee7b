// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// lbJob returns a job for the load balancer rule that a parameter refers to. The parameter accepts ids of rules of every
// kind; the job then fails if the rule is of another kind. refused returns the error text for a router that refuses.
func lbJob(c *wire.Call, param string, refused func(*store.LBRule) string, run func(r *store.LBRule, now time.Time) (any, error)) (*wire.JobSpec, error) {
	r := wire.Arg[*store.LBRule](c, param)
	text := ""
	if r != nil && refused != nil {
		text = refused(r)
	}
	return &wire.JobSpec{Refused: text, Run: func(now time.Time) (any, error) {
		if r == nil {
			return nil, wire.Invalid("Unable to find load balancer rule: %d", c.Refs[param].ID)
		}
		return run(r, now)
	}}, nil
}

// apply sends a changed rule to the router. If another rule stops the router, the job fails with the text, and undo
// reverts the change. A rule that stops the router itself keeps the change: the router refuses from then on.
func apply(c *wire.Call, r *store.LBRule, refused string, undo func()) error {
	settle(r)
	if r.Internal {
		return nil // a virtual machine of its own
	}
	switch stops := c.St.RouterStopped(r.Network); stops {
	case nil:
		c.St.TellRouter(r.Network)
		return nil
	case r:
	default:
		undo()
		settle(r)
	}
	return wire.Errf(wire.CodeInternal, wire.CSRuntime, "%s", refused)
}
