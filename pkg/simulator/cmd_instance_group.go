// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

// instanceGroup is a named group of VMs.
type instanceGroup struct {
	entity
	name  string
	owner *account
}

type groupView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	ownerView
	Created     *timestamp `json:"created"`
	Annotations bool       `json:"hasannotations"`
}

func viewGroup(g *instanceGroup) groupView {
	return groupView{ID: g.uuid, Name: g.name, ownerView: viewOwner(g.owner), Created: stamp(g.created)}
}

func listInstanceGroups(c *call) (any, error) {
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*instanceGroup
	for _, g := range c.st.groups.rows {
		switch {
		case g.removed || !in(g.owner) || !matches(c, "id", g):
		case c.has("name") && !like(g.name, c.str("name")), c.has("keyword") && !like(g.name, c.str("keyword")):
		default:
			out = append(out, g)
		}
	}
	return page(c, "instancegroup", out, viewGroup)
}

// groupNamed returns the owner's group with the name. It creates the group if necessary.
func (st *state) groupNamed(owner *account, name string, now time.Time) *instanceGroup {
	g, ok := st.groups.find(func(g *instanceGroup) bool { return g.owner == owner && strings.EqualFold(g.name, name) })
	if !ok {
		g = st.groups.add(&instanceGroup{entity: entity{created: now}, name: name, owner: owner})
	}
	return g
}

func createInstanceGroup(c *call) (any, error) {
	owner, err := c.newOwner()
	if err != nil {
		return nil, err
	}
	name := c.str("name")
	if _, taken := c.st.groups.find(func(g *instanceGroup) bool { return g.owner == owner && strings.EqualFold(g.name, name) }); taken {
		return nil, invalid("Unable to create vm group, a group with name %s already exists for account %d", name, owner.id)
	}
	return struct {
		Group groupView `json:"instancegroup"`
	}{viewGroup(c.st.groupNamed(owner, name, c.now))}, nil
}

func deleteInstanceGroup(c *call) (any, error) {
	g := arg[*instanceGroup](c, "id")
	switch {
	case g == nil || g.removed:
		return nil, invalid("unable to find a vm group with id %d", c.refs["id"].id)
	case !c.access(g.owner):
		return nil, denied()
	}
	g.removed = true
	for _, v := range c.st.vms.rows {
		if v.group == g {
			v.group = nil
		}
	}
	return success{true}, nil
}
