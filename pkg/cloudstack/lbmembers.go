// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"
)

// MemberAddress is a VM at one of its addresses in the rule's network. An
// empty IP is the address of its NIC there.
type MemberAddress struct {
	VMID, IP string
}

// AssignToLoadBalancerRule adds members. It is all or nothing: one VM that is
// already a member, or cannot be one, fails the job for all.
func (c *Client) AssignToLoadBalancerRule(ctx context.Context, ruleID string, members []MemberAddress) (Submitted, error) {
	return c.submit(ctx, "assignToLoadBalancerRule", memberParameters(ruleID, members))
}

// RemoveFromLoadBalancerRule removes members: those without IP with all their addresses. VMs that are no
// members do no harm, addresses that are none fail the job.
func (c *Client) RemoveFromLoadBalancerRule(ctx context.Context, ruleID string, members []MemberAddress) (Submitted, error) {
	return c.submit(ctx, "removeFromLoadBalancerRule", memberParameters(ruleID, members))
}

// memberParameters names members by plain parameters: the SDK writes the keys of vmidipmap so that no server
// understands them.
func memberParameters(ruleID string, members []MemberAddress) filter {
	f := filter{"id": ruleID}
	var ids []string
	n := 0
	for _, m := range members {
		if m.IP == "" {
			ids = append(ids, m.VMID)
			continue
		}
		prefix := "vmidipmap[" + strconv.Itoa(n) + "]."
		f[prefix+"vmid"], f[prefix+"vmip"] = m.VMID, m.IP
		n++
	}
	return f.set("virtualmachineids", joinIDs(ids))
}

// VMs are members by their ids.
func VMs(ids ...string) []MemberAddress {
	out := make([]MemberAddress, 0, len(ids))
	for _, id := range ids {
		out = append(out, MemberAddress{VMID: id})
	}
	return out
}
