// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	antiAffinity = "host anti-affinity"
	hostAffinity = "host affinity"
)

// affinityTypes are the affinity group types that users can choose.
var affinityTypes = []string{antiAffinity, hostAffinity, "non-strict host affinity", "non-strict host anti-affinity"}

// affinityGroup keeps VMs on the same host or on different hosts.
type affinityGroup struct {
	entity
	name, typ, description string
	owner                  *account
}

type affinityView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	ownerView
	Type string   `json:"type"`
	VMs  []string `json:"virtualmachineIds,omitempty"`
}

func (c *call) viewAffinity(g *affinityGroup) affinityView {
	v := affinityView{ID: g.uuid, Name: g.name, Description: g.description, ownerView: viewOwner(g.owner), Type: g.typ}
	for _, m := range c.st.vms.rows {
		if slices.Contains(m.affinity, g) {
			v.VMs = append(v.VMs, m.uuid)
		}
	}
	return v
}

func listAffinityGroups(c *call) (any, error) {
	if m := arg[*vm](c, "virtualmachineid"); m != nil && !c.access(m.owner) {
		return nil, denied()
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*affinityGroup
	for _, g := range c.st.affinity.rows {
		switch {
		case g.removed || !in(g.owner) || !matches(c, "id", g):
		case c.has("name") && !strings.EqualFold(c.str("name"), g.name):
		case c.has("type") && !strings.EqualFold(c.str("type"), g.typ):
		case c.has("keyword") && !like(g.name, c.str("keyword")) && !like(g.typ, c.str("keyword")):
		case c.given("virtualmachineid") && (arg[*vm](c, "virtualmachineid") == nil || !slices.Contains(arg[*vm](c, "virtualmachineid").affinity, g)):
		default:
			out = append(out, g)
		}
	}
	return page(c, "affinitygroup", out, c.viewAffinity)
}

func createAffinityGroup(c *call) (*jobSpec, error) {
	if !slices.Contains(affinityTypes, c.str("type")) {
		return nil, invalid("Unable to create affinity group, invalid affinity group type: %s. Valid values are %s", c.str("type"), strings.Join(affinityTypes, ","))
	}
	if c.given("domainid") && c.str("account") == "" && !c.given("projectid") {
		if !c.caller.rootAdmin() {
			return nil, invalid("Unable to create affinity group, account name must be passed with the domainId")
		}
		return nil, invalid("Unable to create affinity group, account name is needed. Affinity group type %s cannot be shared domain wide", c.str("type"))
	}
	owner, err := c.newOwner()
	if err != nil {
		return nil, err
	}
	if _, taken := c.st.affinityNamed(owner, c.str("name")); taken {
		return nil, invalid("Unable to create affinity group, a group with name %s already exists.", c.str("name"))
	}
	g := c.st.affinity.add(&affinityGroup{
		entity: entity{created: c.now}, name: c.str("name"), typ: c.str("type"), description: c.str("description"), owner: owner,
	})
	return &jobSpec{objectID: g.uuid, instanceType: "AffinityGroup", instanceID: g.uuid, run: func(time.Time) (any, error) {
		return struct {
			Group affinityView `json:"affinitygroup"`
		}{c.viewAffinity(g)}, nil
	}, undo: func() { c.st.affinity.drop(g) }}, nil
}

func (st *state) affinityNamed(owner *account, name string) (*affinityGroup, bool) {
	return st.affinity.find(func(g *affinityGroup) bool { return g.owner == owner && strings.EqualFold(g.name, name) })
}

// affinityArg returns the groups of affinitygroupids or affinitygroupnames for a VM of the owner.
func (c *call) affinityArg(owner *account) ([]*affinityGroup, error) {
	var out []*affinityGroup
	for _, r := range c.lists["affinitygroupids"] {
		g, ok := r.obj.(*affinityGroup)
		switch {
		case !ok:
			return nil, invalid("Unable to find affinity group null")
		case !c.access(g.owner):
			return nil, denied()
		case g.owner != owner:
			return nil, errf(codeAccount, csPermission, "Affinity Group %s does not belong to the VM's account", g.name)
		}
		out = append(out, g)
	}
	for _, n := range c.list("affinitygroupnames") {
		g, ok := c.st.affinityNamed(owner, n)
		if !ok {
			return nil, invalid("Unable to find group by name %s", n)
		}
		out = append(out, g)
	}
	return out, nil
}

func (c *call) deployAffinity(d *deployment) error {
	if c.has("affinitygroupids") && c.has("affinitygroupnames") {
		return invalid("affinitygroupids parameter is mutually exclusive with affinitygroupnames parameter")
	}
	var err error
	d.affinity, err = c.affinityArg(d.owner)
	return err
}

func deleteAffinityGroup(c *call) (*jobSpec, error) {
	g := arg[*affinityGroup](c, "id")
	if g != nil && !c.access(g.owner) {
		return nil, denied()
	}
	spec := &jobSpec{run: func(time.Time) (any, error) {
		if g == nil && c.str("name") != "" {
			owner, err := c.newOwner()
			if err != nil {
				return nil, err
			}
			g, _ = c.st.affinityNamed(owner, c.str("name"))
		}
		switch {
		case g == nil && c.str("name") == "":
			return nil, invalid("Either the affinity group Id or group name must be specified to delete the group")
		case g == nil || g.removed:
			return nil, invalid("Unable to find affinity group %s", cmp.Or(c.str("name"), c.str("id")))
		}
		for _, m := range c.st.vms.rows {
			m.affinity = slices.DeleteFunc(m.affinity, func(o *affinityGroup) bool { return o == g })
		}
		c.st.affinity.drop(g)
		return success{true}, nil
	}}
	if g != nil {
		spec.instanceType, spec.instanceID = "AffinityGroup", g.uuid
	}
	return spec, nil
}

func listAffinityGroupTypes(c *call) (any, error) {
	type view struct {
		Type string `json:"type"`
	}
	return page(c, "affinityGroupType", affinityTypes, func(s string) view { return view{s} })
}
