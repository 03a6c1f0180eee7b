// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// ownerlessText is CloudStack's error text for a release of an address that has no owner.
const ownerlessText = `Cannot invoke "java.lang.Long.longValue()" because the return value of "getAccountId()" is null`

// ruleDeletedText is CloudStack's error text for a release that runs while another job deletes a rule of the address.
const ruleDeletedText = `Cannot invoke "com.cloud.network.dao.LoadBalancerVO.getNetworkId()" because "lb" is null`

// rulesBeingDeleted returns the rules of the address that pending jobs delete.
func rulesBeingDeleted(ip *store.PublicIP) []*store.LBRule {
	var out []*store.LBRule
	for _, r := range ip.LBRules {
		if r.Deleting > 0 {
			out = append(out, r)
		}
	}
	return out
}

func disassociateIPAddress(c *wire.Call) (*wire.JobSpec, error) {
	ip := wire.Arg[*store.PublicIP](c, "id")
	if ip != nil && c.Has("ipaddress") {
		return nil, wire.Invalid("Please specify either IP address or IP address ID")
	}

	if ip == nil && c.Has("ipaddress") {
		found, ok := c.St.AddressNamed(nil, c.Str("ipaddress"))
		if !ok {
			return nil, wire.Invalid("Unable to find IP address by address=%s", c.Str("ipaddress"))
		}
		ip = found
	}

	if ip == nil {
		return nil, wire.Invalid("Please specify either IP address or IP address ID")
	}

	if ip.Owner == nil {
		return nil, c.Internal(wire.CSRuntime, ownerlessText)
	}

	deleting := rulesBeingDeleted(ip)
	return &wire.JobSpec{
		InstanceType: "IpAddress",
		InstanceID:   ip.UUID,
		Subject:      ip,
		Run: func(time.Time) (any, error) {
			switch {
			case ip.Owner == nil: // another job released the address first
				return wire.Success{Success: true}, nil
			case !c.Access(ip.Owner):
				return nil, wire.Denied()
			case ip.SourceNAT && (ip.VPC != nil || ip.Network != nil && ip.Network.State != store.NetAllocated):
				return nil, &wire.Error{
					Status: wire.CodeParam,
					Job:    wire.CodeInternal,
					Text:   "ip address is used for source nat purposes and can not be disassociated.",
				}
			case ip.System:
				return nil, wire.Invalid("Can't release system IP address with id %s", ip.UUID)
			case slices.ContainsFunc(deleting, func(r *store.LBRule) bool { return r.Removed }):
				// It is recorded that a second release succeeds. That this one changes nothing is an assumption.
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "%s", ruleDeletedText)
			}

			if len(ip.LBRules) > 0 && ip.Network != nil {
				if r := c.St.RouterStopped(ip.Network); r != nil && r.IP != ip {
					ip.ReleaseRefused()
					return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to disassociate ip address")
				}
			}

			c.St.Release(ip)
			return wire.Success{Success: true}, nil
		},
	}, nil
}
