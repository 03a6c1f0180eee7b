// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

type aclItemAnswer struct {
	Item aclItemView `json:"networkacl"`
}

// isDefault reports whether the list is default_deny or default_allow, the first two lists of every installation.
func (l *aclList) isDefault() bool { return l.vpc == nil && l.id <= 2 }

// mayChange checks that the caller may change the list or its items; text is the error for users who try to change a
// global list.
func (c *call) mayChange(l *aclList, text string) error {
	switch {
	case l.vpc == nil && !c.caller.rootAdmin():
		return errf(codeAccount, csPermission, "%s", text)
	case l.vpc != nil && !c.access(l.vpc.owner):
		return denied()
	}
	return nil
}

func createNetworkACL(c *call) (*jobSpec, error) {
	l, fresh, err := c.listForItem()
	if err != nil {
		return nil, err
	}
	proto := strings.TrimSpace(c.str("protocol"))
	if n, err := strconv.Atoi(proto); err == nil && n == 1 {
		proto = "icmp"
	}
	it := &aclItem{
		entity: entity{created: c.now}, list: l, protocol: proto, startPort: c.optInt("startport"), endPort: c.optInt("endport"), cidrs: c.list("cidrlist"),
		icmpType: c.optInt("icmptype"), icmpCode: c.optInt("icmpcode"), reason: c.str("reason"), state: ruleAdd,
		hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	if it.traffic, err = trafficType(c.str("traffictype"), c.has("traffictype")); err != nil {
		return nil, err
	}
	if it.endPort == nil {
		it.endPort = it.startPort
	}
	if !c.has("cidrlist") {
		it.cidrs = []string{"0.0.0.0/0", "::/0"}
	}
	if strings.EqualFold(proto, "icmp") {
		for _, p := range []**int{&it.icmpType, &it.icmpCode} {
			if *p == nil {
				*p = ptr(-1)
			}
		}
	}
	switch {
	case l.isDefault():
		return nil, invalid("Default ACL cannot be modified")
	default:
		if err := c.mayChange(l, "Only Root Admins can create rules for a global ACL."); err != nil {
			return nil, err
		}
	}
	if err := c.placeItem(it); err != nil {
		return nil, err
	}
	if err := c.checkItem(it); err != nil {
		return nil, err
	}
	if fresh != nil {
		fresh()
	}
	c.st.aclItems.add(it)
	return &jobSpec{
		objectID: it.uuid, instanceType: "NetworkAclItem",
		run: func(time.Time) (any, error) {
			if it.removed {
				return nil, errf(codeInternal, csRuntime, "Failed to create network ACL Item")
			}
			it.state = ruleActive
			return aclItemAnswer{c.viewACLItem(it)}, nil
		},
		undo: func() { c.st.aclItems.drop(it) },
	}, nil
}

// listForItem returns the list of a new item. For a tier without a list it returns a new list, which fresh stores.
func (c *call) listForItem() (l *aclList, fresh func(), err error) {
	if l = arg[*aclList](c, "aclid"); l != nil {
		return l, nil, nil
	}
	n := arg[*network](c, "networkid")
	switch {
	case c.given("aclid"):
		return nil, nil, invalid("Unable to find specified ACL.")
	case n == nil:
		return nil, nil, invalid("Cannot create Network ACL Item. ACL Id or network Id is required")
	case n.vpc == nil:
		return nil, nil, invalid("Network: %s does not belong to VPC", n.uuid)
	case n.acl != nil:
		return n.acl, nil, nil
	case !n.provides("NetworkACL"):
		return nil, nil, invalid("Network Offering does not support NetworkACL service")
	}
	name := "VPC_" + n.vpc.name + "_Tier_" + n.name + "_ACL_" + n.uuid
	l = &aclList{entity: entity{created: c.now, id: c.st.aclLists.next}, name: name, description: "ACL for " + name, vpc: n.vpc}
	return l, func() { n.acl = c.st.aclLists.add(l) }, nil
}

func trafficType(s string, given bool) (string, error) {
	switch {
	case !given || strings.EqualFold(s, "Ingress"):
		return "Ingress", nil
	case strings.EqualFold(s, "Egress"):
		return "Egress", nil
	}
	return "", invalid("Invalid traffic type %s", s)
}

// placeItem checks the number and the action of a new item. An item without a number becomes the last.
func (c *call) placeItem(it *aclItem) error {
	it.number = c.integer("number")
	if !c.has("number") {
		for _, o := range c.st.aclItems.rows {
			if o.list == it.list {
				it.number = max(it.number, o.number)
			}
		}
		it.number++
	}
	if it.number < 1 {
		return invalid("Invalid number [%d]. Number cannot be < 1", it.number)
	}
	if c.numberTaken(it, it.number) {
		return invalid("ACL item with number %d already exists in ACL: %s", it.number, it.list.uuid)
	}
	var err error
	it.action, err = aclAction(c.str("action"), c.has("action"))
	return err
}

func (c *call) numberTaken(it *aclItem, number int) bool {
	_, taken := c.st.aclItems.find(func(o *aclItem) bool { return o.list == it.list && o != it && o.number == number })
	return taken
}

func aclAction(s string, given bool) (string, error) {
	switch {
	case !given || strings.EqualFold(s, "Allow"):
		return "Allow", nil
	case strings.EqualFold(s, "Deny"):
		return "Deny", nil
	}
	return "", invalid("Invalid action [%s]. Permitted actions are Allow and Deny", s)
}

// checkItem checks the ports, CIDRs and protocol of an item.
func (c *call) checkItem(it *aclItem) error {
	if it.startPort != nil || it.endPort != nil {
		switch {
		case it.startPort == nil || it.endPort == nil:
			return c.internal(csRuntime, "Cannot invoke \"java.lang.Integer.intValue()\" because \"sourcePortStart\" is null")
		case !validPort(*it.startPort):
			return invalid("Start public port is an invalid value: %d", *it.startPort)
		case !validPort(*it.endPort):
			return invalid("End public port is an invalid value: %d", *it.endPort)
		case *it.startPort > *it.endPort:
			return invalid("Start port can't be bigger than end port [startport=%d,endport=%d]", *it.startPort, *it.endPort)
		case strings.EqualFold(it.protocol, "all"):
			return invalid("start port and end port must be null if protocol = 'all'")
		}
	}
	for _, s := range it.cidrs {
		if _, err := netip.ParsePrefix(s); err != nil {
			return paramError("Source cidrs formatting error %s", s)
		}
	}
	return checkItemProtocol(it)
}

func validPort(p int) bool { return p >= 0 && p <= 65535 }

func checkItemProtocol(it *aclItem) error {
	proto := strings.ToLower(it.protocol)
	if n, err := strconv.Atoi(proto); err == nil {
		if n < 0 || n > 255 {
			return invalid("Invalid protocol number: %d", n)
		}
	} else if proto != "tcp" && proto != "udp" && proto != "icmp" && proto != "all" {
		return invalid("Invalid protocol [%s]. Expected one of: [tcp,udp,icmp,all]", it.protocol)
	}
	switch {
	case proto != "icmp" && (it.icmpType != nil || it.icmpCode != nil):
		return invalid("Can specify icmpCode and icmpType for ICMP protocol only")
	case proto == "icmp" && (it.startPort != nil || it.endPort != nil):
		return invalid("Can't specify start/end port when protocol is ICMP")
	case it.icmpType == nil:
	case *it.icmpType != -1 && (*it.icmpType < 0 || *it.icmpType > 255):
		return invalid("Invalid icmp type [%d]. It should belong to [0-255] range", *it.icmpType)
	case it.icmpCode != nil && *it.icmpCode != -1 && (*it.icmpCode < 0 || *it.icmpCode > 16):
		return invalid("Invalid icmp code [%d]. It should belong to [0-16] range and can be defined when icmpType belongs to [0-40] range", *it.icmpCode)
	}
	return nil
}

func updateNetworkACLItem(c *call) (*jobSpec, error) {
	it := arg[*aclItem](c, "id")
	if it == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{instanceType: "NetworkAclItem", run: func(time.Time) (any, error) {
		switch {
		case it.removed:
			return nil, invalid("Unable to find ACL rule with ID [%d]", it.id)
		case it.list.isDefault():
			return nil, invalid("Default ACL cannot be modified")
		}
		if err := c.mayChange(it.list, "Only Root Admins can update global ACLs."); err != nil {
			return nil, err
		}
		changed := *it
		if err := c.changeItem(it, &changed); err != nil {
			return nil, err
		}
		if err := c.checkItem(&changed); err != nil {
			return nil, err
		}
		*it = changed
		setCustomID(c, c.st.aclItems, it)
		it.state = ruleAdd // CloudStack builds the answer before the router has the item
		ans := aclItemAnswer{c.viewACLItem(it)}
		it.state = ruleActive
		return ans, nil
	}}, nil
}

// changeItem copies the parameters to the item. Unless partialupgrade is false, absent parameters leave the item
// unchanged.
func (c *call) changeItem(it, to *aclItem) error {
	if c.has("number") {
		if to.number = c.integer("number"); c.numberTaken(it, to.number) {
			return invalid("ACL item with number %d already exists in ACL: %s", to.number, it.list.uuid)
		}
	}
	whole := !c.boolOr("partialupgrade", true)
	for name, dst := range map[string]**int{"startport": &to.startPort, "endport": &to.endPort, "icmptype": &to.icmpType, "icmpcode": &to.icmpCode} {
		if whole || c.has(name) {
			*dst = c.optInt(name)
		}
	}
	if whole || len(c.list("cidrlist")) > 0 {
		to.cidrs = c.list("cidrlist")
	}
	for name, dst := range map[string]*string{"protocol": &to.protocol, "reason": &to.reason} {
		if whole || c.str(name) != "" {
			*dst = strings.TrimSpace(c.str(name))
		}
	}
	var err error
	if whole || c.str("action") != "" {
		if to.action, err = aclAction(c.str("action"), c.has("action")); err != nil {
			return err
		}
	}
	if whole || c.str("traffictype") != "" {
		if to.traffic, err = trafficType(c.str("traffictype"), c.str("traffictype") != ""); err != nil {
			return err
		}
	}
	if b := c.optBool("fordisplay"); b != nil {
		to.hidden = !*b
	}
	return nil
}

func deleteNetworkACL(c *call) (*jobSpec, error) {
	it := arg[*aclItem](c, "id")
	if it == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{instanceType: "NetworkAclItem", run: func(time.Time) (any, error) {
		if it.list.isDefault() {
			return nil, invalid("ACL Items in default ACL cannot be deleted")
		}
		if err := c.mayChange(it.list, "Only Root Admin can delete global ACL rules."); err != nil {
			return nil, err
		}
		if !it.removed {
			c.st.aclItems.drop(it)
		}
		return success{true}, nil
	}}, nil
}
