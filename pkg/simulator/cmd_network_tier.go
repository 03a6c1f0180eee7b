// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"strings"
)

// maxTiers is vpc.max.networks, the maximum number of tiers of a VPC.
const maxTiers = 3

// checkTier checks the requirements of a VPC tier. It refuses VPC offerings for other networks.
func (c *call) checkTier(n *network) error {
	spec := &n.offering.spec
	switch {
	case !c.given("vpcid") && spec.ForVPC:
		return invalid("Network offering can be used for VPC networks only")
	case !c.given("vpcid"):
		return nil
	case !spec.ForVPC:
		return invalid("Network offering can't be used for VPC networks")
	}
	v := n.vpc
	n.acl = arg[*aclList](c, "aclid")
	switch {
	case n.acl != nil && n.acl.vpc != nil && n.acl.vpc != v:
		return invalid("ACL [%d] does not belong to the VPC [%d].", n.acl.id, n.acl.vpc.id)
	case v == nil || v.removed || !v.enabled:
		return invalid("Unable to find Enabled VPC ")
	case !c.access(v.owner):
		return denied()
	case v.zone != n.zone:
		return invalid("New network doesn't belong to vpc zone")
	}
	if n.domainName == "" {
		n.domainName = v.domainName
	}
	if err := c.checkTierRange(n, v); err != nil {
		return err
	}
	return c.checkTierOffering(n.offering, n, v)
}

// checkTierRange checks the CIDR of a new tier against the CIDR of the VPC and those of its other tiers.
func (c *call) checkTierRange(n *network, v *vpc) error {
	tiers := c.st.tiers(v)
	super, err := netip.ParsePrefix(v.cidr)
	switch {
	case len(tiers) >= maxTiers:
		return c.internal(csRuntime, "Number of networks per VPC cannot surpass [%d].", maxTiers)
	case !n.cidr.IsValid():
		return invalid("Gateway/netmask are required when create network for VPC")
	case err != nil || !within(n.cidr, super):
		return invalid("Network cidr %s is not within vpc %s cidr", n.cidr, v.text())
	}
	for _, o := range tiers {
		if within(o.cidr, n.cidr) || within(n.cidr, o.cidr) {
			return invalid("Network cidr %s crosses other network cidr %s belonging to the same vpc %s", n.cidr, o.text(), v.text())
		}
	}
	if v.owner != n.owner && !hasAccess(v.owner, n.owner) {
		return invalid("VPC owner does not have access to account [%s].", n.owner.name)
	}
	if !strings.EqualFold(n.domainName, v.domainName) {
		return invalid("Network domain of the new network should match network domain of vpc %s", v.text())
	}
	return nil
}

// hasAccess is call.access for an account other than the caller's.
func hasAccess(from, to *account) bool { return (&call{caller: caller{account: from}}).access(to) }

// checkTierOffering checks a tier's offering against the VPC.
func (c *call) checkTierOffering(o *networkOffering, n *network, v *vpc) error {
	if !o.has("SourceNat") && !o.has("Gateway") {
		return invalid("Only network offerings of type Isolated with service SourceNat are valid for vpc ")
	}
	for i := range o.services {
		for _, p := range o.services[i].Provider {
			if !v.offering.provides(o.services[i].Name, p.Name) {
				return invalid("Service/provider combination %s/%s is not supported by VPC %s", o.services[i].Name, p.Name, v.text())
			}
		}
	}
	if o.publicLB() {
		for _, other := range c.st.tiers(v) {
			if other != n && other.offering.publicLB() && other.offering != o {
				return invalid("Public LB service is already supported by network %s in VPC %s", other.text(), v.text())
			}
		}
	}
	if n.acl != nil && !o.has("NetworkACL") {
		return invalid("Cannot apply NetworkACL. Network Offering does not support NetworkACL service")
	}
	return nil
}

// publicLB reports whether the offering balances load on public addresses.
func (o *networkOffering) publicLB() bool {
	return o.has("Lb") && !o.providedBy("Lb", "InternalLbVm")
}
