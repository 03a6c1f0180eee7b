// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// maxTiers is vpc.max.networks, the maximum number of tiers of a VPC.
const maxTiers = 3

// checkTier checks the requirements of a VPC tier. For other networks, it refuses offerings that are for VPCs only.
func checkTier(c *wire.Call, n *store.Network) error {
	spec := &n.Offering.Spec
	switch {
	case !c.Given("vpcid") && spec.ForVPC:
		return wire.Invalid("Network offering can be used for VPC networks only")
	case !c.Given("vpcid"):
		return nil
	case !spec.ForVPC:
		return wire.Invalid("Network offering can't be used for VPC networks")
	}

	v := n.VPC
	n.ACL = wire.Arg[*store.ACLList](c, "aclid")
	switch {
	case n.ACL != nil && n.ACL.VPC != nil && n.ACL.VPC != v:
		return wire.Invalid("ACL [%d] does not belong to the VPC [%d].", n.ACL.ID, n.ACL.VPC.ID)
	case v == nil || v.Removed || !v.Enabled:
		return wire.Invalid("Unable to find Enabled VPC ")
	case !c.Access(v.Owner):
		return wire.Denied()
	case v.Zone != n.Zone:
		return wire.Invalid("New network doesn't belong to vpc zone")
	}

	n.DomainName = v.DomainName
	if err := checkTierRange(c, n, v); err != nil {
		return err
	}

	return checkTierOffering(c, n.Offering, n, v)
}

// checkTierRange checks the CIDR of a new tier against the CIDR of the VPC and those of its other tiers.
func checkTierRange(c *wire.Call, n *store.Network, v *store.VPC) error {
	tiers := c.St.Tiers(v)
	super, err := netip.ParsePrefix(v.CIDR)
	switch {
	case len(tiers) >= maxTiers:
		return c.Internal(wire.CSRuntime, "Number of networks per VPC cannot surpass [%d].", maxTiers)
	case !n.CIDR.IsValid():
		return wire.Invalid("Gateway/netmask are required when create network for VPC")
	case err != nil || !within(n.CIDR, super):
		return wire.Invalid("Network cidr %s is not within vpc %s cidr", n.CIDR, v.Text())
	}

	for _, o := range tiers {
		if within(o.CIDR, n.CIDR) || within(n.CIDR, o.CIDR) {
			return wire.Invalid("Network cidr %s crosses other network cidr %s belonging to the same vpc %s", n.CIDR,
				o.Text(), v.Text())
		}
	}

	if v.Owner != n.Owner && !hasAccess(v.Owner, n.Owner) {
		return wire.Invalid("VPC owner does not have access to account [%s].", n.Owner.Name)
	}

	return nil
}

// hasAccess reports whether the account from has access to the account to, like Call.Access for the caller.
func hasAccess(from, to *store.Account) bool {
	return (&wire.Call{Caller: store.Caller{Account: from}}).Access(to)
}

// checkTierOffering checks a tier's offering against the VPC.
func checkTierOffering(c *wire.Call, o *store.NetworkOffering, n *store.Network, v *store.VPC) error {
	if !o.Has("SourceNat") && !o.Has("Gateway") {
		return wire.Invalid("Only network offerings of type Isolated with service SourceNat are valid for vpc ")
	}

	for i := range o.Services {
		for _, p := range o.Services[i].Provider {
			if !v.Offering.Provides(o.Services[i].Name, p.Name) {
				return wire.Invalid("Service/provider combination %s/%s is not supported by VPC %s", o.Services[i].Name,
					p.Name, v.Text())
			}
		}
	}

	if o.PublicLB() {
		for _, other := range c.St.Tiers(v) {
			if other != n && other.Offering.PublicLB() && other.Offering != o {
				return wire.Invalid("Public LB service is already supported by network %s in VPC %s", other.Text(),
					v.Text())
			}
		}
	}

	if n.ACL != nil && !o.Has("NetworkACL") {
		return wire.Invalid("Cannot apply NetworkACL. Network Offering does not support NetworkACL service")
	}

	return nil
}
