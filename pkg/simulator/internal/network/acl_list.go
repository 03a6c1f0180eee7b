// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"crypto/md5" //nolint:gosec // CloudStack's checksum of the order, not a secret
	"encoding/hex"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type aclListAnswer struct {
	List aclListView `json:"networkacllist"`
}

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
		Entity: store.Entity{Created: c.Now}, Name: c.Str("name"), Description: c.Str("description"), VPC: v, Hidden: c.Has("fordisplay") && !c.Boolean("fordisplay"),
	})
	return &wire.JobSpec{
		ObjectID: l.UUID, InstanceType: "NetworkAcl",
		Run:  func(time.Time) (any, error) { return aclListAnswer{viewACLList(c, l)}, nil },
		Undo: func() { c.St.DropACLList(l) },
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

func updateNetworkACLList(c *wire.Call) (*wire.JobSpec, error) {
	return listJob(c, func(l *store.ACLList) (any, error) {
		if err := mayChange(c, l, "Must be Root Admin to update a global ACL."); err != nil {
			return nil, err
		}
		l.Name, l.Description = cmp.Or(c.Str("name"), l.Name), cmp.Or(c.Str("description"), l.Description)
		wire.SetDisplay(c, c.St.ACLLists, l, &l.Hidden)
		return aclListAnswer{viewACLList(c, l)}, nil
	})
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
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "ACL is still associated with %d tier(s). Cannot delete network ACL: %s", used, l.UUID)
		}
		c.St.DropACLList(l)
		return wire.Success{Success: true}, nil
	})
}

func replaceNetworkACLList(c *wire.Call) (*wire.JobSpec, error) {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		l, n := wire.Arg[*store.ACLList](c, "aclid"), wire.Arg[*store.Network](c, "networkid")
		switch {
		case !c.Given("networkid") && !c.Given("gatewayid"):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Network ID and private gateway can't be null at the same time")
		case c.Given("networkid") && c.Given("gatewayid"):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Network ID and private gateway can't be passed at the same time")
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

// moveNetworkACLItem moves an item between two others of its list; items whose number is then taken move down.
func moveNetworkACLItem(c *wire.Call) (*wire.JobSpec, error) {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		before, after := c.Str("previousaclruleid"), c.Str("nextaclruleid")
		if before == "" && after == "" {
			return nil, wire.Invalid("Both previous and next ACL rule IDs cannot be blank.")
		}
		it, ok := c.St.ACLItems.Get(c.Str("id"))
		if !ok {
			return nil, wire.Invalid("Could not find a rule with ID[%s]", c.Str("id"))
		}
		var around [2]*store.ACLItem
		for i, id := range []string{before, after} {
			if id == "" {
				continue
			}
			if around[i], ok = c.St.ACLItems.Get(id); !ok {
				return nil, wire.Invalid("Could not find rule with ID [%s]", id)
			}
			if around[i].List != it.List {
				return nil, wire.Invalid("Cannot use ACL rules from differenting ACLs. Rule being moved [%s].", it.UUID)
			}
		}
		if err := mayChange(c, it.List, wire.NoAccessText); err != nil || it.List.IsDefault() {
			if err == nil {
				err = wire.Invalid("Default ACL cannot be modified")
			}
			return nil, err
		}
		items := c.St.ItemsOf(it.List)
		if want := c.Str("aclconsistencyhash"); want != "" && want != orderHash(items) {
			return nil, wire.Invalid("It seems that the access control list in the database is not in the state that you used to apply the changed. Could you try it again?")
		}
		moveItem(it, around[0], around[1], items)
		return aclItemAnswer{viewACLItem(c, it)}, nil
	}}, nil
}

// orderHash returns the hash by which a client states the order of the items that it has seen.
func orderHash(items []*store.ACLItem) string {
	h := md5.New()
	for _, it := range items {
		h.Write([]byte(it.UUID))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func moveItem(it, before, after *store.ACLItem, items []*store.ACLItem) {
	switch {
	case before == nil && items[0] == it, after == nil && items[len(items)-1] == it:
		return
	case before == nil:
		it.Number = 1
	case after == nil:
		it.Number = items[len(items)-1].Number + 1
		return
	default:
		it.Number = before.Number + 1
	}
	next := it.Number
	for _, o := range items {
		if o != it && o.Number == next {
			o.Number++
			next++
		}
	}
}
