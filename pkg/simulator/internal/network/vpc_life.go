// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type vpcAnswer struct {
	VPC vpcView `json:"vpc"`
}

// EnabledProviders are the network service providers that are enabled in the zones.
var EnabledProviders = store.SetOf("VirtualRouter", "VpcVirtualRouter", "InternalLbVm", "ConfigDrive")

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

func createVPC(c *wire.Call) (*wire.JobSpec, error) {
	owner, err := c.OwnerToUse()
	if err != nil {
		return nil, err
	}
	if err := c.CheckLimit(owner, "vpcs", 1); err != nil {
		return nil, err
	}
	z, o := wire.Arg[*store.Zone](c, "zoneid"), wire.Arg[*store.VPCOffering](c, "vpcofferingid")
	switch {
	case z == nil || z.Removed:
		return nil, wire.Invalid("Can't find zone by id specified")
	case o == nil || o.Removed:
		return nil, wire.Invalid("Unable to find vpc offering in Enabled state by specified id")
	case o.Mode == "ROUTED":
		return nil, wire.Invalid("Routed VPC is not enabled in this zone")
	}
	v := &store.VPC{
		Entity: store.Entity{Created: c.Now}, Name: c.Str("name"), Display: cmp.Or(c.Str("displaytext"), c.Str("name")), CIDR: c.Str("cidr"), Zone: z, Owner: owner,
		Enabled: true, Offering: o, DomainName: c.Str("networkdomain"), DNS1: c.Str("dns1"), DNS2: c.Str("dns2"), Redundant: o.Redundant,
		Hidden: c.Has("fordisplay") && !c.Boolean("fordisplay"),
	}
	if err := checkVPC(c, v); err != nil {
		return nil, err
	}
	c.St.VPCs.Add(v)
	if want := c.Str("sourcenatipaddress"); want != "" {
		ip, ok := c.St.AddressNamed(z, want)
		if !ok || ip.State != store.IPFree {
			c.St.VPCs.Drop(v)
			return nil, c.Internal(wire.CSRuntime, "new source NAT address cannot be acquired")
		}
		c.St.TakeIP(ip, owner, c.Now)
		ip.State, ip.VPC, ip.SourceNAT = store.IPAllocated, v, true
	}
	return &wire.JobSpec{
		ObjectID: v.UUID, InstanceType: "Vpc", InstanceID: v.UUID,
		Run: func(now time.Time) (any, error) {
			if v.Removed || c.BoolOr("start", true) && !c.St.StartVPC(v, now) {
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to create VPC")
			}
			return vpcAnswer{viewVPC(c, v)}, nil
		},
		Undo: func() { c.St.DestroyVPC(v) },
	}, nil
}

// checkVPC runs the checks of a new VPC in CloudStack's order and sets defaults.
func checkVPC(c *wire.Call, v *store.VPC) error {
	switch {
	case !c.Has("cidr") && !c.Has("cidrsize"):
		return wire.Invalid("VPC cidr or cidr size must be specified")
	case c.Has("cidr") && c.Has("cidrsize"):
		return wire.Invalid("VPC cidr and cidr size are mutually exclusive")
	case c.Has("cidrsize"):
		return wire.Invalid("VPC cidr size is only applicable on VPC with Routed mode")
	case !v.Zone.Enabled && !c.Caller.RootAdmin():
		return wire.Errf(wire.CodeAccount, wire.CSPermission, "Cannot perform this operation since specified Zone is currently disabled")
	}
	if v.DomainName == "" {
		v.DomainName = c.St.NetworkDomainOf(v.Owner, v.Zone)
	}
	if !c.Has("publicmtu") || c.Integer("publicmtu") > 1500 {
		v.MTU = 0
	} else {
		v.MTU = max(c.Integer("publicmtu"), minMTU)
	}
	if err := checkDNSPair(c, v.DNS1, v.DNS2); err != nil {
		return err
	}
	if !wire.ValidDomainName(v.DomainName) {
		return wire.BadNetworkDomain()
	}
	p, err := netip.ParsePrefix(v.CIDR)
	switch {
	case err != nil || !p.Addr().Is4():
		return wire.Invalid("Invalid CIDR specified %s", v.CIDR)
	case !guestCIDR(p):
		return wire.Invalid("Guest Cidr %s is not RFC1918 compliant", v.CIDR)
	}
	for _, s := range v.Offering.Services {
		for _, pr := range s.Provider {
			if !EnabledProviders[pr.Name] {
				return wire.Invalid("Provider %s should be enabled in at least one physical network of the zone specified", pr.Name)
			}
		}
	}
	return nil
}

// minMTU is the smallest MTU of a router's interface.
const minMTU = 68

// checkDNSPair validates the DNS servers of a network or VPC.
func checkDNSPair(c *wire.Call, first, second string) error {
	for i, s := range []string{first, second} {
		if a, err := netip.ParseAddr(s); s != "" && (err != nil || !a.Is4()) {
			return wire.Invalid("Invalid IPv4 for IPv4 DNS%d", i+1)
		}
	}
	if first == "" && second != "" {
		return wire.Invalid("Second IPv4 DNS can be specified only with the first IPv4 DNS")
	}
	return nil
}

// targetVPC returns the VPC of a command. VPCs of other owners are refused before a job starts.
func targetVPC(c *wire.Call) (*store.VPC, error) {
	v := wire.Arg[*store.VPC](c, "id")
	if v == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	if !v.Removed && !c.Access(v.Owner) {
		return nil, wire.Denied()
	}
	return v, nil
}

func deleteVPC(c *wire.Call) (*wire.JobSpec, error) {
	v, err := targetVPC(c)
	if err != nil {
		return nil, err
	}
	return &wire.JobSpec{InstanceType: "Vpc", InstanceID: v.UUID, Run: func(time.Time) (any, error) {
		if v.Removed {
			return nil, wire.Invalid("unable to find VPC id=%d", v.ID)
		}
		if n := len(c.St.Tiers(v)); n > 0 {
			return nil, wire.Invalid("Can't delete VPC %s as its used by %d networks", v.Text(), n)
		}
		c.St.DestroyVPC(v)
		return wire.Success{Success: true}, nil
	}}, nil
}
