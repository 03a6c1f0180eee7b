// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"
)

// ownerlessText is what the server stumbles over when a command names an address that nobody has.
const ownerlessText = `Cannot invoke "java.lang.Long.longValue()" because the return value of "getAccountId()" is null`

// ruleGoneText is how a release ends that removes the rules of its address while another job deletes one of them.
const ruleGoneText = `Cannot invoke "com.cloud.network.dao.LoadBalancerVO.getNetworkId()" because "lb" is null`

// rulesBeingDeleted are the rules whose deletion runs.
func (ip *publicIP) rulesBeingDeleted() []*lbRule {
	var out []*lbRule
	for _, r := range ip.lbRules {
		if r.deleting > 0 {
			out = append(out, r)
		}
	}
	return out
}

func disassociateIPAddress(c *call) (*jobSpec, error) {
	ip := arg[*publicIP](c, "id")
	if ip != nil && c.has("ipaddress") {
		return nil, invalid("Please specify either IP address or IP address ID")
	}
	if ip == nil && c.has("ipaddress") {
		found, ok := c.st.addressNamed(nil, c.str("ipaddress"))
		if !ok {
			return nil, invalid("Unable to find IP address by address=%s", c.str("ipaddress"))
		}
		ip = found
	}
	if ip == nil {
		return nil, invalid("Please specify either IP address or IP address ID")
	}
	if ip.owner == nil {
		return nil, c.internal(csRuntime, ownerlessText)
	}
	deleting := ip.rulesBeingDeleted()
	return &jobSpec{instanceType: "IpAddress", instanceID: ip.uuid, run: func(time.Time) (any, error) {
		switch {
		case ip.owner == nil: // freed while the job waited
			return success{true}, nil
		case !c.access(ip.owner):
			return nil, denied()
		case ip.sourceNAT && (ip.vpc != nil || ip.network != nil && ip.network.state != netAllocated):
			return nil, &apiError{status: codeParam, job: codeInternal, text: "ip address is used for source nat purposes and can not be disassociated."}
		case ip.system:
			return nil, invalid("Can't release system IP address with id %s", ip.uuid)
		case slices.ContainsFunc(deleting, func(r *lbRule) bool { return r.removed }):
			// That the address and its other rules stay as they were is a guess: seen is that a second call succeeds.
			return nil, errf(codeInternal, csRuntime, "%s", ruleGoneText)
		}
		c.st.release(ip)
		return success{true}, nil
	}}, nil
}

// release frees an address with everything on it: rules, members, tags.
func (st *state) release(ip *publicIP) {
	st.clearRules(ip)
	ip.tags, ip.owner, ip.network, ip.vpc, ip.systemVM, ip.system = nil, nil, nil, nil, nil, false
	ip.sourceNAT, ip.hidden, ip.state, ip.allocated = false, false, ipFree, time.Time{}
}
