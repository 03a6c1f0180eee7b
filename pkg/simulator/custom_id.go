// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"github.com/google/uuid"
)

// customIDKinds maps the commands with which a root admin changes an object's UUID to the kind of object among which
// CloudStack searches for a duplicate.
var customIDKinds = map[string]refKind{
	"updateEgressFirewallRule": refRule, "updateFirewallRule": refRule, "updateLoadBalancer": refRule, "updateLoadBalancerRule": refRule,
	"updatePortForwardingRule": refRule, "updateLBStickinessPolicy": refSticky, "updateIpAddress": refIP, "updateNetwork": refNetwork,
	"updateNetworkACLItem": refACLItem, "moveNetworkAclItem": refACLItem, "updateNetworkACLList": refACLList, "updateVPC": refVPC, "updateVirtualMachine": refVM,
}

// checkCustomID refuses a customid that is not a UUID or is in use. CloudStack checks it directly before the command
// does its work: in the job, if there is one.
func (c *call) checkCustomID() error {
	id, ok := c.args["customid"]
	kind := customIDKinds[c.api.Name]
	if !ok || kind == refNone {
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

// checksCustomID makes the check the first step of a job.
func (c *call) checksCustomID(run func(time.Time) (any, error)) func(time.Time) (any, error) {
	if !c.has("customid") {
		return run
	}
	return func(now time.Time) (any, error) {
		if err := c.checkCustomID(); err != nil {
			return nil, err
		}
		return run(now)
	}
}

// setCustomID changes the UUID of a row to customid, if it is set.
func setCustomID[T row](c *call, t *table[T], v T) {
	if id, ok := c.args["customid"]; ok {
		t.rename(v, id)
	}
}

// setDisplay applies fordisplay and customid of an update command.
func setDisplay[T row](c *call, t *table[T], v T, hidden *bool) {
	if b := c.optBool("fordisplay"); b != nil {
		*hidden = !*b
	}
	setCustomID(c, t, v)
}
