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

// EnabledProviders are the network service providers that are enabled in the zones.
var EnabledProviders = store.SetOf("VirtualRouter", "VpcVirtualRouter", "InternalLbVm", "ConfigDrive")

// guestRanges are the private address ranges that guest networks may use.
var guestRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
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
		Entity:     store.Entity{Created: c.Now},
		Name:       c.Str("name"),
		Display:    cmp.Or(c.Str("displaytext"), c.Str("name")),
		CIDR:       c.Str("cidr"),
		Zone:       z,
		Owner:      owner,
		Enabled:    true,
		Offering:   o,
		DomainName: c.St.NetworkDomainOf(owner, z),
		Redundant:  o.Redundant,
	}

	if err := checkVPC(c, v); err != nil {
		return nil, err
	}

	c.St.VPCs.Add(v)
	return &wire.JobSpec{
		ObjectID: v.UUID, InstanceType: "Vpc", InstanceID: v.UUID,
		Run: func(now time.Time) (any, error) {
			if v.Removed || !c.St.StartVPC(v, now) {
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to create VPC")
			}
			return wire.Object("vpc", viewVPC(c, v)), nil
		},
		Undo: func() { c.St.DestroyVPC(v) },
	}, nil
}

// checkVPC runs the checks of a new VPC in CloudStack's order and sets defaults.
func checkVPC(c *wire.Call, v *store.VPC) error {
	switch {
	case !c.Has("cidr"):
		return wire.Invalid("VPC cidr or cidr size must be specified")
	case !v.Zone.Enabled && !c.Caller.RootAdmin():
		return wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Cannot perform this operation since specified Zone is currently disabled")
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
				return wire.Invalid("Provider %s should be enabled in at least one physical network of the zone "+
					"specified", pr.Name)
			}
		}
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
