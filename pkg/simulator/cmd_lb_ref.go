// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"github.com/google/uuid"
)

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

// checkCustomID checks the UUID that an update gives to an object; only root
// admins get so far with the parameter.
func (c *call) checkCustomID(kind refKind) *apiError {
	id, ok := c.args["customid"]
	if !ok {
		return nil
	}
	if _, err := uuid.Parse(id); err != nil || len(id) != 36 {
		return invalid("UUID: %s doesn't follow the UUID format", id)
	}
	if o, _ := c.st.byUUID(kind, id); o != nil {
		return invalid("UUID: %s already exists so can't create/update with custom id", id)
	}
	return nil
}

// setDisplay applies fordisplay and customid of an update.
func setDisplay[T row](c *call, t *table[T], v T, hidden *bool) {
	if b := c.optBool("fordisplay"); b != nil {
		*hidden = !*b
	}
	if id, ok := c.args["customid"]; ok {
		t.rename(v, id)
	}
}

// checkPagePair refuses page without pagesize and the reverse: lists that ignore paging check that much.
func (c *call) checkPagePair() *apiError {
	_, err := c.readPaging()
	if err != nil && err.cs == csGeneric {
		return err
	}
	return nil
}
