// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// reserveIPAddress reserves a free address for the caller's account. There are no recordings of refusals.
func reserveIPAddress(c *wire.Call) (any, error) {
	ip := wire.Arg[*store.PublicIP](c, "id")
	if ip == nil || ip.State != store.IPFree {
		return nil, wire.Invalid("the simulator knows no answer to a reservation of an address that is not free")
	}
	if err := c.CheckLimit(c.Caller.Account, "publicIPs", 1); err != nil {
		return nil, err
	}
	c.St.TakeIP(ip, c.Caller.Account, c.Now)
	ip.State = store.IPReserved
	return wire.Object("ipaddress", viewIP(c, ip)), nil
}

// releaseIPAddress ends a reservation.
func releaseIPAddress(c *wire.Call) (any, error) {
	ip := wire.Arg[*store.PublicIP](c, "id")
	if ip == nil || ip.State != store.IPReserved || ip.Owner != c.Caller.Account {
		return nil, wire.Invalid("the simulator knows no answer to the release of an address that the caller has not " +
			"reserved")
	}
	c.St.Release(ip)
	return wire.Success{Success: true}, nil
}
