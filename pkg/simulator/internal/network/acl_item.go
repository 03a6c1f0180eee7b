// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// mayChange checks that the caller may change the list or its items. text is the error for users who try to change a
// global list.
func mayChange(c *wire.Call, l *store.ACLList, text string) error {
	switch {
	case l.VPC == nil && !c.Caller.RootAdmin():
		return wire.Errf(wire.CodeAccount, wire.CSPermission, "%s", text)
	case l.VPC != nil && !c.Access(l.VPC.Owner):
		return wire.Denied()
	}
	return nil
}

func createNetworkACL(c *wire.Call) (*wire.JobSpec, error) {
	l, fresh, err := listForItem(c)
	if err != nil {
		return nil, err
	}

	proto := strings.TrimSpace(c.Str("protocol"))
	if n, err := strconv.Atoi(proto); err == nil && n == 1 {
		proto = "icmp"
	}

	it := &store.ACLItem{
		Entity:    store.Entity{Created: c.Now},
		List:      l,
		Protocol:  proto,
		StartPort: c.OptInt("startport"),
		EndPort:   c.OptInt("endport"),
		CIDRs:     c.List("cidrlist"),
		IcmpType:  c.OptInt("icmptype"),
		IcmpCode:  c.OptInt("icmpcode"),
		Reason:    c.Str("reason"),
		State:     store.RuleAdd,
		Hidden:    c.Has("fordisplay") && !c.Boolean("fordisplay"),
	}

	if it.Traffic, err = trafficType(c.Str("traffictype"), c.Has("traffictype")); err != nil {
		return nil, err
	}

	if it.EndPort == nil {
		it.EndPort = it.StartPort
	}

	if !c.Has("cidrlist") {
		it.CIDRs = []string{"0.0.0.0/0", "::/0"}
	}

	if strings.EqualFold(proto, "icmp") {
		for _, p := range []**int{&it.IcmpType, &it.IcmpCode} {
			if *p == nil {
				*p = wire.Ptr(-1)
			}
		}
	}

	switch {
	case l.IsDefault():
		return nil, wire.Invalid("Default ACL cannot be modified")
	default:
		if err := mayChange(c, l, "Only Root Admins can create rules for a global ACL."); err != nil {
			return nil, err
		}
	}

	if err := placeItem(c, it); err != nil {
		return nil, err
	}

	if err := checkItem(c, it); err != nil {
		return nil, err
	}

	if fresh != nil {
		fresh()
	}

	c.St.ACLItems.Add(it)
	return &wire.JobSpec{
		ObjectID: it.UUID, InstanceType: "NetworkAclItem",
		Run: func(time.Time) (any, error) {
			if it.Removed {
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to create network ACL Item")
			}
			it.State = store.RuleActive
			return wire.Object("networkacl", viewACLItem(c, it)), nil
		},
		Undo: func() { c.St.ACLItems.Delete(it) },
	}, nil
}

// listForItem returns the list of a new item. For a tier without a list it returns a new list, which fresh stores.
func listForItem(c *wire.Call) (l *store.ACLList, fresh func(), err error) {
	if l = wire.Arg[*store.ACLList](c, "aclid"); l != nil {
		return l, nil, nil
	}

	n := wire.Arg[*store.Network](c, "networkid")
	switch {
	case c.Given("aclid"):
		return nil, nil, wire.Invalid("Unable to find specified ACL.")
	case n == nil:
		return nil, nil, wire.Invalid("Cannot create Network ACL Item. ACL Id or network Id is required")
	case n.VPC == nil:
		return nil, nil, wire.Invalid("Network: %s does not belong to VPC", n.UUID)
	case n.ACL != nil:
		return n.ACL, nil, nil
	case !n.Provides("NetworkACL"):
		return nil, nil, wire.Invalid("Network Offering does not support NetworkACL service")
	}

	name := "VPC_" + n.VPC.Name + "_Tier_" + n.Name + "_ACL_" + n.UUID
	l = &store.ACLList{
		Entity:      store.Entity{Created: c.Now, ID: c.St.ACLLists.Next},
		Name:        name,
		Description: "ACL for " + name,
		VPC:         n.VPC,
	}

	return l, func() { n.ACL = c.St.ACLLists.Add(l) }, nil
}

func trafficType(s string, given bool) (string, error) {
	switch {
	case !given || strings.EqualFold(s, "Ingress"):
		return "Ingress", nil
	case strings.EqualFold(s, "Egress"):
		return "Egress", nil
	}
	return "", wire.Invalid("Invalid traffic type %s", s)
}

// placeItem checks the number and the action of a new item. An item without a number becomes the last.
func placeItem(c *wire.Call, it *store.ACLItem) error {
	it.Number = c.Integer("number")
	if !c.Has("number") {
		for _, o := range c.St.ACLItems.Rows {
			if o.List == it.List {
				it.Number = max(it.Number, o.Number)
			}
		}
		it.Number++
	}

	if it.Number < 1 {
		return wire.Invalid("Invalid number [%d]. Number cannot be < 1", it.Number)
	}

	if numberTaken(c, it, it.Number) {
		return wire.Invalid("ACL item with number %d already exists in ACL: %s", it.Number, it.List.UUID)
	}

	var err error
	it.Action, err = aclAction(c.Str("action"), c.Has("action"))
	return err
}

func numberTaken(c *wire.Call, it *store.ACLItem, number int) bool {
	_, taken := c.St.ACLItems.Find(func(o *store.ACLItem) bool {
		return o.List == it.List && o != it && o.Number == number
	})
	return taken
}

func aclAction(s string, given bool) (string, error) {
	switch {
	case !given || strings.EqualFold(s, "Allow"):
		return "Allow", nil
	case strings.EqualFold(s, "Deny"):
		return "Deny", nil
	}
	return "", wire.Invalid("Invalid action [%s]. Permitted actions are Allow and Deny", s)
}

// checkItem checks the ports, CIDRs and protocol of an item.
func checkItem(c *wire.Call, it *store.ACLItem) error {
	if it.StartPort != nil || it.EndPort != nil {
		switch {
		case it.StartPort == nil || it.EndPort == nil:
			return c.Internal(wire.CSRuntime,
				"Cannot invoke \"java.lang.Integer.intValue()\" because \"sourcePortStart\" is null")
		case !validPort(*it.StartPort):
			return wire.Invalid("Start public port is an invalid value: %d", *it.StartPort)
		case !validPort(*it.EndPort):
			return wire.Invalid("End public port is an invalid value: %d", *it.EndPort)
		case *it.StartPort > *it.EndPort:
			return wire.Invalid("Start port can't be bigger than end port [startport=%d,endport=%d]", *it.StartPort,
				*it.EndPort)
		case strings.EqualFold(it.Protocol, "all"):
			return wire.Invalid("start port and end port must be null if protocol = 'all'")
		}
	}

	for _, s := range it.CIDRs {
		if _, err := netip.ParsePrefix(s); err != nil {
			return wire.ParamError("Source cidrs formatting error %s", s)
		}
	}

	return checkItemProtocol(it)
}

func validPort(p int) bool { return p >= 0 && p <= 65535 }

func checkItemProtocol(it *store.ACLItem) error {
	proto := strings.ToLower(it.Protocol)
	if n, err := strconv.Atoi(proto); err == nil {
		if n < 0 || n > 255 {
			return wire.Invalid("Invalid protocol number: %d", n)
		}
	} else if proto != "tcp" && proto != "udp" && proto != "icmp" && proto != "all" {
		return wire.Invalid("Invalid protocol [%s]. Expected one of: [tcp,udp,icmp,all]", it.Protocol)
	}

	switch {
	case proto != "icmp" && (it.IcmpType != nil || it.IcmpCode != nil):
		return wire.Invalid("Can specify icmpCode and icmpType for ICMP protocol only")
	case proto == "icmp" && (it.StartPort != nil || it.EndPort != nil):
		return wire.Invalid("Can't specify start/end port when protocol is ICMP")
	case it.IcmpType == nil:
	case *it.IcmpType != -1 && (*it.IcmpType < 0 || *it.IcmpType > 255):
		return wire.Invalid("Invalid icmp type [%d]. It should belong to [0-255] range", *it.IcmpType)
	case it.IcmpCode != nil && *it.IcmpCode != -1 && (*it.IcmpCode < 0 || *it.IcmpCode > 16):
		return wire.Invalid("Invalid icmp code [%d]. It should belong to [0-16] range and can be defined when "+
			"icmpType belongs to [0-40] range", *it.IcmpCode)
	}

	return nil
}

func deleteNetworkACL(c *wire.Call) (*wire.JobSpec, error) {
	it := wire.Arg[*store.ACLItem](c, "id")
	if it == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	return &wire.JobSpec{InstanceType: "NetworkAclItem", Run: func(time.Time) (any, error) {
		if it.List.IsDefault() {
			return nil, wire.Invalid("ACL Items in default ACL cannot be deleted")
		}
		if err := mayChange(c, it.List, "Only Root Admin can delete global ACL rules."); err != nil {
			return nil, err
		}
		if !it.Removed {
			c.St.ACLItems.Delete(it)
		}
		return wire.Success{Success: true}, nil
	}}, nil
}
