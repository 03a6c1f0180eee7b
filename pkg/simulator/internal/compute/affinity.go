// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// affinityTypes are the affinity group types that users can choose.
var affinityTypes = []string{store.AntiAffinity, store.HostAffinity, "non-strict host affinity", "non-strict host anti-affinity"}

type affinityView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	wire.OwnerView
	Type string   `json:"type"`
	VMs  []string `json:"virtualmachineIds,omitempty"`
}

func viewAffinity(c *wire.Call, g *store.AffinityGroup) affinityView {
	v := affinityView{ID: g.UUID, Name: g.Name, Description: g.Description, OwnerView: wire.ViewOwner(g.Owner), Type: g.Typ}
	for _, m := range c.St.VMs.Rows {
		if slices.Contains(m.Affinity, g) {
			v.VMs = append(v.VMs, m.UUID)
		}
	}
	return v
}

func listAffinityGroups(c *wire.Call) (any, error) {
	if m := wire.Arg[*store.VM](c, "virtualmachineid"); m != nil && !c.Access(m.Owner) {
		return nil, wire.Denied()
	}
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}
	var out []*store.AffinityGroup
	for _, g := range c.St.Affinity.Rows {
		switch {
		case g.Removed || !in(g.Owner) || !wire.Matches(c, "id", g):
		case c.Has("name") && !strings.EqualFold(c.Str("name"), g.Name):
		case c.Has("type") && !strings.EqualFold(c.Str("type"), g.Typ):
		case c.Has("keyword") && !store.Like(g.Name, c.Str("keyword")) && !store.Like(g.Typ, c.Str("keyword")):
		case c.Given("virtualmachineid") && (wire.Arg[*store.VM](c, "virtualmachineid") == nil || !slices.Contains(wire.Arg[*store.VM](c, "virtualmachineid").Affinity, g)):
		default:
			out = append(out, g)
		}
	}
	return wire.Page(c, "affinitygroup", out, func(g *store.AffinityGroup) affinityView { return viewAffinity(c, g) })
}

func createAffinityGroup(c *wire.Call) (*wire.JobSpec, error) {
	if !slices.Contains(affinityTypes, c.Str("type")) {
		return nil, wire.Invalid("Unable to create affinity group, invalid affinity group type: %s. Valid values are %s", c.Str("type"), strings.Join(affinityTypes, ","))
	}
	if c.Given("domainid") && c.Str("account") == "" && !c.Given("projectid") {
		if !c.Caller.RootAdmin() {
			return nil, wire.Invalid("Unable to create affinity group, account name must be passed with the domainId")
		}
		return nil, wire.Invalid("Unable to create affinity group, account name is needed. Affinity group type %s cannot be shared domain wide", c.Str("type"))
	}
	owner, err := c.NewOwner()
	if err != nil {
		return nil, err
	}
	if _, taken := affinityNamed(c.St, owner, c.Str("name")); taken {
		return nil, wire.Invalid("Unable to create affinity group, a group with name %s already exists.", c.Str("name"))
	}
	g := c.St.Affinity.Add(&store.AffinityGroup{
		Entity: store.Entity{Created: c.Now}, Name: c.Str("name"), Typ: c.Str("type"), Description: c.Str("description"), Owner: owner,
	})
	return &wire.JobSpec{ObjectID: g.UUID, InstanceType: "AffinityGroup", InstanceID: g.UUID, Run: func(time.Time) (any, error) {
		return struct {
			Group affinityView `json:"affinitygroup"`
		}{viewAffinity(c, g)}, nil
	}, Undo: func() { c.St.Affinity.Drop(g) }}, nil
}

func affinityNamed(st *store.State, owner *store.Account, name string) (*store.AffinityGroup, bool) {
	return st.Affinity.Find(func(g *store.AffinityGroup) bool { return g.Owner == owner && strings.EqualFold(g.Name, name) })
}

// affinityArg returns the groups of affinitygroupids or affinitygroupnames for a VM of the owner.
func affinityArg(c *wire.Call, owner *store.Account) ([]*store.AffinityGroup, error) {
	var out []*store.AffinityGroup
	for _, r := range c.Lists["affinitygroupids"] {
		g, ok := r.Obj.(*store.AffinityGroup)
		switch {
		case !ok:
			return nil, wire.Invalid("Unable to find affinity group null")
		case !c.Access(g.Owner):
			return nil, wire.Denied()
		case g.Owner != owner:
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Affinity Group %s does not belong to the VM's account", g.Name)
		}
		out = append(out, g)
	}
	for _, n := range c.List("affinitygroupnames") {
		g, ok := affinityNamed(c.St, owner, n)
		if !ok {
			return nil, wire.Invalid("Unable to find group by name %s", n)
		}
		out = append(out, g)
	}
	return out, nil
}

func deployAffinity(c *wire.Call, d *deployment) error {
	if c.Has("affinitygroupids") && c.Has("affinitygroupnames") {
		return wire.Invalid("affinitygroupids parameter is mutually exclusive with affinitygroupnames parameter")
	}
	var err error
	d.affinity, err = affinityArg(c, d.owner)
	return err
}

func deleteAffinityGroup(c *wire.Call) (*wire.JobSpec, error) {
	g := wire.Arg[*store.AffinityGroup](c, "id")
	if g != nil && !c.Access(g.Owner) {
		return nil, wire.Denied()
	}
	spec := &wire.JobSpec{Run: func(time.Time) (any, error) {
		if g == nil && c.Str("name") != "" {
			owner, err := c.NewOwner()
			if err != nil {
				return nil, err
			}
			g, _ = affinityNamed(c.St, owner, c.Str("name"))
		}
		switch {
		case g == nil && c.Str("name") == "":
			return nil, wire.Invalid("Either the affinity group Id or group name must be specified to delete the group")
		case g == nil || g.Removed:
			return nil, wire.Invalid("Unable to find affinity group %s", cmp.Or(c.Str("name"), c.Str("id")))
		}
		for _, m := range c.St.VMs.Rows {
			m.Affinity = slices.DeleteFunc(m.Affinity, func(o *store.AffinityGroup) bool { return o == g })
		}
		c.St.Affinity.Drop(g)
		return wire.Success{Success: true}, nil
	}}
	if g != nil {
		spec.InstanceType, spec.InstanceID = "AffinityGroup", g.UUID
	}
	return spec, nil
}

func listAffinityGroupTypes(c *wire.Call) (any, error) {
	type view struct {
		Type string `json:"type"`
	}
	return wire.Page(c, "affinityGroupType", affinityTypes, func(s string) view { return view{s} })
}
