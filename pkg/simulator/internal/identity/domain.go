// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// domainView is the API object domain.
type domainView struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Level       int             `json:"level"`
	ParentID    string          `json:"parentdomainid,omitempty"`
	ParentName  string          `json:"parentdomainname,omitempty"`
	HasChild    bool            `json:"haschild"`
	Path        string          `json:"path"`
	State       string          `json:"state"`
	Created     *wire.Timestamp `json:"created"`
	Annotations bool            `json:"hasannotations"`
	wire.JobRef
}

func viewDomain(c *wire.Call, d *store.Domain) domainView {
	v := domainView{
		ID: d.UUID, Name: d.Name, Level: level(d), Path: d.Display(), State: "Active", Created: wire.Stamp(d.Created),
		JobRef: wire.ViewJobRef(c.St, d),
	}
	if d.Parent != nil {
		v.ParentID, v.ParentName = d.Parent.UUID, d.Parent.Name
	}
	if d.Inactive {
		v.State = "Inactive"
	}
	v.HasChild = len(c.St.Children(d)) > 0
	return v
}

// fullDomain returns the view with the counters of the domain and all its subdomains.
func fullDomain(c *wire.Call, d *store.Domain) counted {
	of := func(k *settings.LimitKind) (int64, int64) { return c.St.DomainLimit(d, k), c.St.DomainUsed(d, k) }
	return counted{d.UUID, viewDomain(c, d), countersOf(of)}
}

func level(d *store.Domain) int {
	n := 0
	for ; d.Parent != nil; d = d.Parent {
		n++
	}
	return n
}

// resourceDetails reads details (all, resource or min) and reports whether the answer includes the resource counters.
func resourceDetails(c *wire.Call) (all bool, err *wire.Error) {
	wanted := c.List("details")
	for _, d := range wanted {
		if !slices.Contains([]string{"all", "resource", "min"}, d) {
			return false, wire.Invalid("The details parameter contains a non permitted value. The allowed values are " +
				"[all, resource, min]")
		}
	}
	return len(wanted) == 0 || slices.Contains(wanted, "all") || slices.Contains(wanted, "resource"), nil
}

func listDomains(c *wire.Call) (any, error) {
	all, err := resourceDetails(c)
	if err != nil {
		return nil, err
	}

	me := c.Caller.Account
	only := wire.Arg[*store.Domain](c, "id")
	if c.Given("id") {
		if only == nil || only.Removed {
			return nil, wire.Invalid("Domain id=%d doesn't exist", c.Refs["id"].ID)
		}
		if !c.DomainAccess(only) {
			return nil, wire.Denied()
		}
	}

	return wire.List(c, "domain", c.St.Domains.Rows, func(d *store.Domain) bool {
		visible := only != nil || me.RootAdmin() || d == me.Domain || c.Boolean("listall") && d.Within(me.Domain)
		return visible &&
			!d.Inactive &&
			c.Is("name", d.Name) &&
			c.Like("keyword", d.Name) &&
			(!c.Has("level") || c.Integer("level") == level(d))
	}, func(d *store.Domain) any {
		if all {
			return fullDomain(c, d)
		}
		return viewDomain(c, d)
	})
}

func createDomain(c *wire.Call) (any, error) {
	parent := c.St.Root()
	name := c.Str("name")
	if c.Given("parentdomainid") {
		if parent = wire.Arg[*store.Domain](c, "parentdomainid"); parent == nil || parent.Removed {
			return nil, wire.Invalid("Unable to create domain %s, parent domain %d not found.", name,
				c.Refs["parentdomainid"].ID)
		}
	}

	switch {
	case parent.Inactive:
		return nil, c.Internal(wire.CSRuntime, "The domain cannot be created as the parent domain %s is being deleted",
			parent.Name)
	case !c.DomainAccess(parent):
		return nil, wire.Denied()
	case childNamed(c.St, parent, name) != nil:
		return nil, wire.Invalid("Domain with name [%s] already exists for the parent with ID [%d].", name, parent.ID)
	case strings.Contains(name, "/"):
		return nil, wire.Invalid("Domain name can't contain \"/\"")
	}

	d := c.St.Domains.Add(&store.Domain{
		Entity: store.Entity{Created: c.Now}, Name: name, Parent: parent,
	})
	return wire.Object("domain", fullDomain(c, d)), nil
}

func childNamed(st *store.State, parent *store.Domain, name string) *store.Domain {
	for _, d := range st.Children(parent) {
		if strings.EqualFold(d.Name, name) {
			return d
		}
	}
	return nil
}

func deleteDomain(c *wire.Call) (*wire.JobSpec, error) {
	d := wire.Arg[*store.Domain](c, "id")
	if d == nil || d.Removed {
		return nil, wire.Invalid("Failed to delete domain %d, domain not found", c.Refs["id"].ID)
	}

	return &wire.JobSpec{InstanceType: "Domain", InstanceID: d.UUID, Subject: d, Run: func(now time.Time) (any, error) {
		switch {
		case d.Removed:
			return nil, wire.Invalid("Failed to delete domain %d, domain not found", d.ID)
		case d.Parent == nil:
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Can't delete ROOT domain")
		case !c.DomainAccess(d):
			return nil, wire.Denied()
		}

		if c.Boolean("cleanup") {
			c.St.PurgeDomain(d, now)
			return wire.Success{Success: true}, nil
		}

		if n := domainNetworks(c.St, d); n > 0 {
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
				"Can't delete the domain yet because it has %d non-removed networks", n)
		}

		if _, used := c.St.Accounts.Find(func(a *store.Account) bool { return a.Domain == d }); used ||
			len(c.St.Children(d)) > 0 {
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
				"Delete failed on domain %s (id: %d); Please make sure all users and sub domains have been removed "+
					"from the domain before deleting", d.Name, d.ID)
		}

		d.Removed = true
		return wire.Success{Success: true}, nil
	}}, nil
}

// domainNetworks counts the networks that belong to the domain itself, not to an account.
func domainNetworks(st *store.State, d *store.Domain) int {
	n := 0
	for _, o := range st.Networks.Rows {
		if !o.Removed && o.Owner == nil && o.Domain == d {
			n++
		}
	}
	return n
}
