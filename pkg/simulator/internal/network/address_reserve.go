// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// updateIPAddress changes what only root admins can change: the visibility of the address to users, and its id.
func updateIPAddress(c *wire.Call) (*wire.JobSpec, error) {
	ip := wire.Arg[*store.PublicIP](c, "id")
	if ip == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	return &wire.JobSpec{InstanceType: "IpAddress", InstanceID: ip.UUID, Run: func(time.Time) (any, error) {
		switch {
		case ip.Owner != nil && !c.Access(ip.Owner):
			return nil, wire.Denied()
		case ip.Owner == nil && !c.Caller.RootAdmin():
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Only Root admin can update non-allocated ip addresses")
		}
		wire.SetDisplay(c, c.St.IPs, ip, &ip.Hidden)
		return ipAnswer{viewIP(c, ip)}, nil
	}}, nil
}

// reserveIPAddress reserves a free address for an owner, who allocates it later.
func reserveIPAddress(c *wire.Call) (any, error) {
	ip := wire.Arg[*store.PublicIP](c, "id")
	if ip == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	owner, err := c.OwnerToUse()
	switch {
	case err != nil:
		return nil, err
	case ip.State == store.IPReserved && ip.Owner == owner:
		return ipAnswer{viewIP(c, ip)}, nil
	case ip.State == store.IPReserved:
		return nil, wire.Invalid("Unable to reserve a IP because it has already been reserved for another account.")
	case ip.State != store.IPFree:
		return nil, wire.Invalid("Unable to reserve a IP in %s state.", ip.State)
	}
	if err := c.CheckLimit(owner, "publicIPs", 1); err != nil {
		return nil, err
	}
	c.St.TakeIP(ip, owner, c.Now)
	ip.State = store.IPReserved
	if b := c.OptBool("fordisplay"); b != nil {
		ip.Hidden = !*b
	}
	return ipAnswer{viewIP(c, ip)}, nil
}

// releaseIPAddress releases a reserved address. Only disassociateIpAddress releases an address that is in use.
func releaseIPAddress(c *wire.Call) (any, error) {
	ip := wire.Arg[*store.PublicIP](c, "id")
	switch {
	case ip == nil:
		return nil, c.BadRef("id", c.Str("id"))
	case ip.State == store.IPAllocated:
		return nil, wire.Invalid("Unable to release a public IP in Allocated state, please use disassociateIpAddress instead")
	case ip.Owner == nil: // nothing to do
		return wire.Success{Success: true}, nil
	case !c.Access(ip.Owner):
		return nil, wire.Denied()
	}
	c.St.Release(ip)
	return wire.Success{Success: true}, nil
}
