// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/netip"
	"time"
)

type vpcAnswer struct {
	VPC vpcView `json:"vpc"`
}

// enabledProviders are the network service providers that are enabled in the zones.
var enabledProviders = setOf("VirtualRouter", "VpcVirtualRouter", "InternalLbVm", "ConfigDrive")

// guestRanges are the private address ranges that guest networks may use.
var guestRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
}

func guestCIDR(p netip.Prefix) bool {
	for _, r := range guestRanges {
		if within(p, r) {
			return true
		}
	}
	return false
}

// within reports whether range a is inside b.
func within(a, b netip.Prefix) bool { return a.Bits() >= b.Bits() && b.Contains(a.Addr()) }

func createVPC(c *call) (*jobSpec, error) {
	owner, err := c.ownerToUse()
	if err != nil {
		return nil, err
	}
	if err := c.checkLimit(owner, "vpcs", 1); err != nil {
		return nil, err
	}
	z, o := arg[*zone](c, "zoneid"), arg[*vpcOffering](c, "vpcofferingid")
	switch {
	case z == nil || z.removed:
		return nil, invalid("Can't find zone by id specified")
	case o == nil || o.removed:
		return nil, invalid("Unable to find vpc offering in Enabled state by specified id")
	case o.mode == "ROUTED":
		return nil, invalid("Routed VPC is not enabled in this zone")
	}
	v := &vpc{
		entity: entity{created: c.now}, name: c.str("name"), display: cmp.Or(c.str("displaytext"), c.str("name")), cidr: c.str("cidr"), zone: z, owner: owner,
		enabled: true, offering: o, domainName: c.str("networkdomain"), dns1: c.str("dns1"), dns2: c.str("dns2"), redundant: o.redundant,
		hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	if err := c.checkVPC(v); err != nil {
		return nil, err
	}
	c.st.vpcs.add(v)
	if want := c.str("sourcenatipaddress"); want != "" {
		ip, ok := c.st.addressNamed(z, want)
		if !ok || ip.state != ipFree {
			c.st.vpcs.drop(v)
			return nil, c.internal(csRuntime, "new source NAT address cannot be acquired")
		}
		c.st.takeIP(ip, owner, c.now)
		ip.state, ip.vpc, ip.sourceNAT = ipAllocated, v, true
	}
	return &jobSpec{
		objectID: v.uuid, instanceType: "Vpc", instanceID: v.uuid,
		run: func(now time.Time) (any, error) {
			if v.removed || c.boolOr("start", true) && !c.st.startVPC(v, now) {
				return nil, errf(codeInternal, csRuntime, "Failed to create VPC")
			}
			return vpcAnswer{c.viewVPC(v)}, nil
		},
		undo: func() { c.st.destroyVPC(v) },
	}, nil
}

// checkVPC runs the checks of a new VPC in CloudStack's order and sets defaults.
func (c *call) checkVPC(v *vpc) error {
	switch {
	case !c.has("cidr") && !c.has("cidrsize"):
		return invalid("VPC cidr or cidr size must be specified")
	case c.has("cidr") && c.has("cidrsize"):
		return invalid("VPC cidr and cidr size are mutually exclusive")
	case c.has("cidrsize"):
		return invalid("VPC cidr size is only applicable on VPC with Routed mode")
	case !v.zone.enabled && !c.caller.rootAdmin():
		return errf(codeAccount, csPermission, "Cannot perform this operation since specified Zone is currently disabled")
	}
	if v.domainName == "" {
		v.domainName = c.st.networkDomainOf(v.owner, v.zone)
	}
	if !c.has("publicmtu") || c.integer("publicmtu") > 1500 {
		v.mtu = 0
	} else {
		v.mtu = max(c.integer("publicmtu"), minMTU)
	}
	if err := c.checkDNSPair(v.dns1, v.dns2); err != nil {
		return err
	}
	if !validDomainName(v.domainName) {
		return badNetworkDomain()
	}
	p, err := netip.ParsePrefix(v.cidr)
	switch {
	case err != nil || !p.Addr().Is4():
		return invalid("Invalid CIDR specified %s", v.cidr)
	case !guestCIDR(p):
		return invalid("Guest Cidr %s is not RFC1918 compliant", v.cidr)
	}
	for _, s := range v.offering.services {
		for _, pr := range s.Provider {
			if !enabledProviders[pr.Name] {
				return invalid("Provider %s should be enabled in at least one physical network of the zone specified", pr.Name)
			}
		}
	}
	return nil
}

// minMTU is the smallest MTU of a router's interface.
const minMTU = 68

// checkDNSPair validates the DNS servers of a network or VPC.
func (c *call) checkDNSPair(first, second string) error {
	for i, s := range []string{first, second} {
		if a, err := netip.ParseAddr(s); s != "" && (err != nil || !a.Is4()) {
			return invalid("Invalid IPv4 for IPv4 DNS%d", i+1)
		}
	}
	if first == "" && second != "" {
		return invalid("Second IPv4 DNS can be specified only with the first IPv4 DNS")
	}
	return nil
}

// targetVPC returns the VPC of a command. VPCs of other owners are refused before a job starts.
func (c *call) targetVPC() (*vpc, error) {
	v := arg[*vpc](c, "id")
	if v == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	if !v.removed && !c.access(v.owner) {
		return nil, denied()
	}
	return v, nil
}

func updateVPC(c *call) (*jobSpec, error) {
	v, err := c.targetVPC()
	if err != nil {
		return nil, err
	}
	return &jobSpec{instanceType: "Vpc", instanceID: v.uuid, run: func(time.Time) (any, error) {
		if v.removed {
			return nil, invalid("Unable to find vpc by id %d", v.id)
		}
		setIf(c, "name", &v.name)
		setIf(c, "displaytext", &v.display)
		if b := c.optBool("fordisplay"); b != nil {
			v.hidden = !*b
		}
		if c.has("publicmtu") {
			v.mtu = min(max(c.integer("publicmtu"), minMTU), 1500)
		}
		if ip, ok := c.st.addressNamed(v.zone, c.str("sourcenatipaddress")); ok && ip.vpc == v && !ip.hasRules() {
			c.st.moveSourceNAT(v.sourceNATIP(c.st), ip)
		}
		setCustomID(c, c.st.vpcs, v)
		return vpcAnswer{c.viewVPC(v)}, nil
	}}, nil
}

// moveSourceNAT moves the source NAT role to another address.
func (st *state) moveSourceNAT(from, to *publicIP) {
	if from != nil {
		from.sourceNAT = false
	}
	to.sourceNAT = true
}

// setIf stores a string parameter if it was sent.
func setIf(c *call, name string, dst *string) {
	if v, ok := c.args[name]; ok {
		*dst = v
	}
}

func deleteVPC(c *call) (*jobSpec, error) {
	v, err := c.targetVPC()
	if err != nil {
		return nil, err
	}
	return &jobSpec{instanceType: "Vpc", instanceID: v.uuid, run: func(time.Time) (any, error) {
		if v.removed {
			return nil, invalid("unable to find VPC id=%d", v.id)
		}
		if n := len(c.st.tiers(v)); n > 0 {
			return nil, invalid("Can't delete VPC %s as its used by %d networks", v.text(), n)
		}
		c.st.destroyVPC(v)
		return success{true}, nil
	}}, nil
}

func restartVPC(c *call) (*jobSpec, error) {
	v, err := c.targetVPC()
	if err != nil {
		return nil, err
	}
	return &jobSpec{instanceType: "Vpc", instanceID: v.uuid, run: func(now time.Time) (any, error) {
		if v.removed || !v.enabled {
			return nil, invalid("Unable to find Enabled VPC by id specified")
		}
		if c.boolean("makeredundant") && !v.redundant {
			v.redundant, v.offering = true, c.st.vpcOffering(redundantOfferingName)
		}
		if c.boolean("cleanup") {
			v.started = false // a new router; it acquires a source NAT address if the VPC has none
		}
		if !c.st.startVPC(v, now) {
			return nil, errf(codeInternal, csRuntime, "Failed to restart VPC")
		}
		for _, n := range c.st.tiers(v) {
			n.restart = false
		}
		return success{true}, nil
	}}, nil
}
