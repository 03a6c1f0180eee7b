// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type groupView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	wire.OwnerView
	Created     *wire.Timestamp `json:"created"`
	Annotations bool            `json:"hasannotations"`
}

func viewGroup(g *store.InstanceGroup) groupView {
	return groupView{ID: g.UUID, Name: g.Name, OwnerView: wire.ViewOwner(g.Owner), Created: wire.Stamp(g.Created)}
}

func listInstanceGroups(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}
	var out []*store.InstanceGroup
	for _, g := range c.St.Groups.Rows {
		switch {
		case g.Removed || !in(g.Owner) || !wire.Matches(c, "id", g):
		case c.Has("name") && !store.Like(g.Name, c.Str("name")), c.Has("keyword") && !store.Like(g.Name, c.Str("keyword")):
		default:
			out = append(out, g)
		}
	}
	return wire.Page(c, "instancegroup", out, viewGroup)
}

// groupNamed returns the owner's group with the name. It creates the group if necessary.
func groupNamed(st *store.State, owner *store.Account, name string, now time.Time) *store.InstanceGroup {
	g, ok := st.Groups.Find(func(g *store.InstanceGroup) bool { return g.Owner == owner && strings.EqualFold(g.Name, name) })
	if !ok {
		g = st.Groups.Add(&store.InstanceGroup{Entity: store.Entity{Created: now}, Name: name, Owner: owner})
	}
	return g
}

func createInstanceGroup(c *wire.Call) (any, error) {
	owner, err := c.NewOwner()
	if err != nil {
		return nil, err
	}
	name := c.Str("name")
	if _, taken := c.St.Groups.Find(func(g *store.InstanceGroup) bool { return g.Owner == owner && strings.EqualFold(g.Name, name) }); taken {
		return nil, wire.Invalid("Unable to create vm group, a group with name %s already exists for account %d", name, owner.ID)
	}
	return struct {
		Group groupView `json:"instancegroup"`
	}{viewGroup(groupNamed(c.St, owner, name, c.Now))}, nil
}

func deleteInstanceGroup(c *wire.Call) (any, error) {
	g := wire.Arg[*store.InstanceGroup](c, "id")
	switch {
	case g == nil || g.Removed:
		return nil, wire.Invalid("unable to find a vm group with id %d", c.Refs["id"].ID)
	case !c.Access(g.Owner):
		return nil, wire.Denied()
	}
	g.Removed = true
	for _, v := range c.St.VMs.Rows {
		if v.Group == g {
			v.Group = nil
		}
	}
	return wire.Success{Success: true}, nil
}
