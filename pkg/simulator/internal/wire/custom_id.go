// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// customIDKinds maps the commands with which a root admin changes an object's UUID to the kind of object among which
// CloudStack searches for a duplicate.
var customIDKinds = map[string]store.RefKind{
	"updateLoadBalancer":       store.RefRule,
	"updateLoadBalancerRule":   store.RefRule,
	"updatePortForwardingRule": store.RefRule,
}

// CheckCustomID refuses a customid that is not a UUID or is in use. CloudStack checks it directly before the command
// does its work: in the job, if there is one.
func (c *Call) CheckCustomID() error {
	id, ok := c.Args["customid"]
	kind := customIDKinds[c.API.Name]
	if !ok || kind == store.RefNone {
		return nil
	}
	if _, err := uuid.Parse(id); err != nil || len(id) != 36 {
		return Invalid("UUID: %s doesn't follow the UUID format", id)
	}
	if o, _ := c.St.ByUUID(kind, id); o != nil {
		return Invalid("UUID: %s already exists so can't create/update with custom id", id)
	}
	return nil
}

// ChecksCustomID returns the work of a job with CheckCustomID as its first step.
func (c *Call) ChecksCustomID(run func(time.Time) (any, error)) func(time.Time) (any, error) {
	if !c.Has("customid") {
		return run
	}
	return func(now time.Time) (any, error) {
		if err := c.CheckCustomID(); err != nil {
			return nil, err
		}
		return run(now)
	}
}

// SetCustomID changes the UUID of a row to customid, if it is set.
func SetCustomID[T store.Row](c *Call, t *store.Table[T], v T) {
	if id, ok := c.Args["customid"]; ok {
		t.Rename(v, id)
	}
}

// SetDisplay applies fordisplay and customid of an update command.
func SetDisplay[T store.Row](c *Call, t *store.Table[T], v T, hidden *bool) {
	if b := c.OptBool("fordisplay"); b != nil {
		*hidden = !*b
	}
	SetCustomID(c, t, v)
}
