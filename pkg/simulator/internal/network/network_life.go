// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// targetNetwork returns the network of a command. Networks of other owners are refused before a job starts.
func targetNetwork(c *wire.Call) (*store.Network, error) {
	n := wire.Arg[*store.Network](c, "id")
	if n == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	if !n.Removed && !operates(c, n) {
		return nil, wire.Denied()
	}
	return n, nil
}

// operates reports whether the caller may change the network. A domain's network is owned by the system account.
func operates(c *wire.Call, n *store.Network) bool {
	if n.Owner == nil {
		return c.Caller.RootAdmin() || c.Caller.Account.DomainAdmin() && n.Domain.Within(c.Caller.Account.Domain)
	}
	return c.Access(n.Owner)
}

func networkJob(c *wire.Call, n *store.Network, run func(now time.Time) (any, error)) *wire.JobSpec {
	return &wire.JobSpec{InstanceType: "Network", InstanceID: n.UUID, Run: run}
}

func deleteNetwork(c *wire.Call) (*wire.JobSpec, error) {
	n, err := targetNetwork(c)
	if err != nil {
		return nil, err
	}
	if n.Removed {
		return nil, wire.Invalid("Network ID=%d doesn't exist", n.ID)
	}
	return networkJob(c, n, func(time.Time) (any, error) {
		switch {
		case n.Removed:
			return nil, wire.Invalid("Unable to find a network with the specified ID.")
		case c.Boolean("forced") && !c.Caller.RootAdmin():
			return nil, wire.Invalid("Delete network with 'forced' option can only be called by root admins")
		case c.St.InUse(n):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to delete network")
		}
		c.St.DestroyNetwork(n)
		return wire.Success{Success: true}, nil
	}), nil
}
