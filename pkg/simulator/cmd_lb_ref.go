// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

// lbJob is a job on the load balancer rule that a parameter names. Such
// parameters resolve rules of every kind, and the job finds out. refused is
// its end when the router refuses.
func (c *call) lbJob(param string, refused func(*lbRule) string, run func(r *lbRule, now time.Time) (any, error)) (*jobSpec, error) {
	r := arg[*lbRule](c, param)
	text := ""
	if r != nil && refused != nil {
		text = refused(r)
	}
	return &jobSpec{refused: text, run: func(now time.Time) (any, error) {
		if r == nil {
			return nil, invalid("Unable to find load balancer rule: %d", c.refs[param].id)
		}
		return run(r, now)
	}}, nil
}
