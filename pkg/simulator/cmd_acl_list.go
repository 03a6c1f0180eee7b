// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"crypto/md5" //nolint:gosec // CloudStack's checksum of the order, not a secret
	"encoding/hex"
	"slices"
	"time"
)

type aclListAnswer struct {
	List aclListView `json:"networkacllist"`
}

func createNetworkACLList(c *call) (*jobSpec, error) {
	v := arg[*vpc](c, "vpcid")
	switch {
	case c.given("vpcid") && (v == nil || v.removed):
		return nil, invalid("Invalid VPC ID [%d] provided.", c.refs["vpcid"].id)
	case v == nil && !c.caller.rootAdmin():
		return nil, errf(codeAccount, csPermission, "Only Root Admin can create global ACLs.")
	case v != nil && !c.access(v.owner):
		return nil, denied()
	}
	l := c.st.aclLists.add(&aclList{
		entity: entity{created: c.now}, name: c.str("name"), description: c.str("description"), vpc: v, hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	})
	return &jobSpec{
		objectID: l.uuid, instanceType: "NetworkAcl",
		run:  func(time.Time) (any, error) { return aclListAnswer{c.viewACLList(l)}, nil },
		undo: func() { c.st.dropACLList(l) },
	}, nil
}

// listJob returns a job on a list, which may have been deleted while the job waited.
func (c *call) listJob(run func(l *aclList) (any, error)) (*jobSpec, error) {
	l := arg[*aclList](c, "id")
	if l == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{instanceType: "NetworkAcl", run: func(time.Time) (any, error) {
		if l.removed {
			return nil, invalid("Unable to find specified ACL")
		}
		return run(l)
	}}, nil
}

func updateNetworkACLList(c *call) (*jobSpec, error) {
	return c.listJob(func(l *aclList) (any, error) {
		if err := c.mayChange(l, "Must be Root Admin to update a global ACL."); err != nil {
			return nil, err
		}
		l.name, l.description = cmp.Or(c.str("name"), l.name), cmp.Or(c.str("description"), l.description)
		setDisplay(c, c.st.aclLists, l, &l.hidden)
		return aclListAnswer{c.viewACLList(l)}, nil
	})
}

func deleteNetworkACLList(c *call) (*jobSpec, error) {
	return c.listJob(func(l *aclList) (any, error) {
		if l.isDefault() {
			return nil, invalid("Default ACL cannot be removed")
		}
		if err := c.mayChange(l, "Only Root Admin can delete global ACLs."); err != nil {
			return nil, err
		}
		used := 0
		for _, n := range c.st.networks.rows {
			if n.acl == l && !n.removed {
				used++
			}
		}
		if used > 0 {
			return nil, errf(codeInternal, csRuntime, "ACL is still associated with %d tier(s). Cannot delete network ACL: %s", used, l.uuid)
		}
		c.st.dropACLList(l)
		return success{true}, nil
	})
}

func replaceNetworkACLList(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		l, n := arg[*aclList](c, "aclid"), arg[*network](c, "networkid")
		switch {
		case !c.given("networkid") && !c.given("gatewayid"):
			return nil, errf(codeInternal, csRuntime, "Network ID and private gateway can't be null at the same time")
		case c.given("networkid") && c.given("gatewayid"):
			return nil, errf(codeInternal, csRuntime, "Network ID and private gateway can't be passed at the same time")
		case n == nil || n.removed:
			return nil, invalid("Unable to find specified Network")
		case l == nil || l.removed:
			return nil, invalid("Unable to find specified NetworkACL")
		case n.vpc == nil:
			return nil, invalid("Network is not part of a VPC: %s", n.uuid)
		case l.vpc != nil && !c.access(l.vpc.owner), !c.operates(n):
			return nil, denied()
		case l.vpc != nil && l.vpc != n.vpc:
			return nil, invalid("Network: %d and ACL: %d do not belong to the same VPC", n.id, l.id)
		case !n.provides("NetworkACL"):
			return nil, invalid("Cannot apply NetworkACL. Network Offering does not support NetworkACL service")
		}
		n.acl = l
		return success{true}, nil
	}}, nil
}

// moveNetworkACLItem moves an item between two others of its list; items whose number is then taken move down.
func moveNetworkACLItem(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		before, after := c.str("previousaclruleid"), c.str("nextaclruleid")
		if before == "" && after == "" {
			return nil, invalid("Both previous and next ACL rule IDs cannot be blank.")
		}
		it, ok := c.st.aclItems.get(c.str("id"))
		if !ok {
			return nil, invalid("Could not find a rule with ID[%s]", c.str("id"))
		}
		var around [2]*aclItem
		for i, id := range []string{before, after} {
			if id == "" {
				continue
			}
			if around[i], ok = c.st.aclItems.get(id); !ok {
				return nil, invalid("Could not find rule with ID [%s]", id)
			}
			if around[i].list != it.list {
				return nil, invalid("Cannot use ACL rules from differenting ACLs. Rule being moved [%s].", it.uuid)
			}
		}
		if err := c.mayChange(it.list, noAccessText); err != nil || it.list.isDefault() {
			if err == nil {
				err = invalid("Default ACL cannot be modified")
			}
			return nil, err
		}
		items := c.st.itemsOf(it.list)
		if want := c.str("aclconsistencyhash"); want != "" && want != orderHash(items) {
			return nil, invalid("It seems that the access control list in the database is not in the state that you used to apply the changed. Could you try it again?")
		}
		moveItem(it, around[0], around[1], items)
		return aclItemAnswer{c.viewACLItem(it)}, nil
	}}, nil
}

// itemsOf returns the items of a list, sorted by number.
func (st *state) itemsOf(l *aclList) []*aclItem {
	var out []*aclItem
	for _, it := range st.aclItems.rows {
		if it.list == l {
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b *aclItem) int { return a.number - b.number })
	return out
}

// orderHash returns the hash by which a client states the order of the items that it has seen.
func orderHash(items []*aclItem) string {
	h := md5.New()
	for _, it := range items {
		h.Write([]byte(it.uuid))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func moveItem(it, before, after *aclItem, items []*aclItem) {
	switch {
	case before == nil && items[0] == it, after == nil && items[len(items)-1] == it:
		return
	case before == nil:
		it.number = 1
	case after == nil:
		it.number = items[len(items)-1].number + 1
		return
	default:
		it.number = before.number + 1
	}
	next := it.number
	for _, o := range items {
		if o != it && o.number == next {
			o.number++
			next++
		}
	}
}
