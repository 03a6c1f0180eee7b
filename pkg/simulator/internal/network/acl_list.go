// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func createNetworkACLList(c *wire.Call) (*wire.JobSpec, error) {
	v := wire.Arg[*store.VPC](c, "vpcid")
	switch {
	case c.Given("vpcid") && (v == nil || v.Removed):
		return nil, wire.Invalid("Invalid VPC ID [%d] provided.", c.Refs["vpcid"].ID)
	case v == nil && !c.Caller.RootAdmin():
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Only Root Admin can create global ACLs.")
	case v != nil && !c.Access(v.Owner):
		return nil, wire.Denied()
	}

	l := c.St.ACLLists.Add(&store.ACLList{
		Entity:      store.Entity{Created: c.Now},
		Name:        c.Str("name"),
		Description: c.Str("description"),
		VPC:         v,
		Hidden:      c.Has("fordisplay") && !c.Boolean("fordisplay"),
	})

	return &wire.JobSpec{
		ObjectID: l.UUID, InstanceType: "NetworkAcl",
		Run:  func(time.Time) (any, error) { return wire.Object("networkacllist", viewACLList(c, l)), nil },
		Undo: func() { c.St.DeleteACLList(l) },
	}, nil
}

// listJob returns a job on a list, which may have been deleted while the job waited.
func listJob(c *wire.Call, run func(l *store.ACLList) (any, error)) (*wire.JobSpec, error) {
	l := wire.Arg[*store.ACLList](c, "id")
	if l == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	return &wire.JobSpec{InstanceType: "NetworkAcl", Run: func(time.Time) (any, error) {
		if l.Removed {
			return nil, wire.Invalid("Unable to find specified ACL")
		}
		return run(l)
	}}, nil
}

func deleteNetworkACLList(c *wire.Call) (*wire.JobSpec, error) {
	return listJob(c, func(l *store.ACLList) (any, error) {
		if l.IsDefault() {
			return nil, wire.Invalid("Default ACL cannot be removed")
		}

		if err := mayChange(c, l, "Only Root Admin can delete global ACLs."); err != nil {
			return nil, err
		}

		used := 0
		for _, n := range c.St.Networks.Rows {
			if n.ACL == l && !n.Removed {
				used++
			}
		}

		if used > 0 {
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
				"ACL is still associated with %d tier(s). Cannot delete network ACL: %s", used, l.UUID)
		}

		c.St.DeleteACLList(l)
		return wire.Success{Success: true}, nil
	})
}

func replaceNetworkACLList(c *wire.Call) (*wire.JobSpec, error) {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		l, n := wire.Arg[*store.ACLList](c, "aclid"), wire.Arg[*store.Network](c, "networkid")
		switch {
		case !c.Given("networkid"):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
				"Network ID and private gateway can't be null at the same time")
		case n == nil || n.Removed:
			return nil, wire.Invalid("Unable to find specified Network")
		case l == nil || l.Removed:
			return nil, wire.Invalid("Unable to find specified NetworkACL")
		case n.VPC == nil:
			return nil, wire.Invalid("Network is not part of a VPC: %s", n.UUID)
		case l.VPC != nil && !c.Access(l.VPC.Owner), !operates(c, n):
			return nil, wire.Denied()
		case l.VPC != nil && l.VPC != n.VPC:
			return nil, wire.Invalid("Network: %d and ACL: %d do not belong to the same VPC", n.ID, l.ID)
		case !n.Provides("NetworkACL"):
			return nil, wire.Invalid("Cannot apply NetworkACL. Network Offering does not support NetworkACL service")
		}

		n.ACL = l
		return wire.Success{Success: true}, nil
	}}, nil
}
