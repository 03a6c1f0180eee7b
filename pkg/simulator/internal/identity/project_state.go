// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// mayModify reports whether the caller may change a project: an admin of the project, or an admin of its domain.
func mayModify(c *wire.Call, p *store.Project) bool {
	me := c.Caller.Account
	if me.RootAdmin() || me.DomainAdmin() && p.Domain.Within(me.Domain) {
		return true
	}
	m := p.Membership(c.Caller)
	return m != nil && m.Admin
}

const (
	missingProject   = "Unable to find project with specified id"
	missingProjectID = "Unable to find project by id %d"
)

func createProject(c *wire.Call) (*wire.JobSpec, error) {
	me := c.Caller.Account
	if !me.Admin() && !c.St.BoolSetting("allow.user.create.projects") {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Regular user is not permitted to create a project")
	}

	owner, user, err := projectOwner(c)
	if err != nil {
		return nil, err
	}

	name := c.Str("name")
	if _, taken := c.St.Projects.Find(func(p *store.Project) bool {
		return p.Domain == owner.Domain && strings.EqualFold(p.Name, name)
	}); taken {
		return nil, wire.Invalid("Project with name %s already exists in domain id=%d", name, owner.Domain.ID)
	}

	if err := c.CheckLimit(owner, "projects", 1); err != nil {
		return nil, err
	}

	p := c.St.NewProject(name, c.Str("displaytext"), owner, store.Entity{Created: c.Now})
	p.Members[0].User = user
	p.State = store.ProjectDisabled // until the job activates it
	return &wire.JobSpec{ObjectID: p.UUID, InstanceType: "None", Run: func(time.Time) (any, error) {
		if p.Removed {
			return nil, wire.Invalid(missingProjectID, p.ID)
		}
		p.State = store.ProjectActive
		return wire.Object("project", viewProject(c, p)), nil
	}}, nil
}

// projectOwner returns the account that owns a new project, and the user if userid is set.
func projectOwner(c *wire.Call) (*store.Account, *store.User, error) {
	me := c.Caller.Account
	if c.Has("account") && !c.Given("domainid") {
		return nil, nil, wire.Invalid("Account name and domain id must be specified together")
	}

	if c.Given("userid") && !c.Given("accountid") && !c.Given("domainid") {
		return nil, nil, wire.Invalid("Account ID and Domain ID must be specified with userID")
	}

	owner, d := me, me.Domain
	if c.Given("domainid") {
		d = wire.Arg[*store.Domain](c, "domainid")
		name := cmp.Or(c.Str("account"), me.Name)
		switch {
		case d == nil || d.Removed:
			return nil, nil, wire.Invalid("Unable to find the domain by id=%d", c.Refs["domainid"].ID)
		case !me.Admin() && (!strings.EqualFold(name, me.Name) || d != me.Domain):
			return nil, nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
				"Can't create/list resources for account %s in domain %d, permission denied", name, d.ID)
		}
		a, ok := c.St.AccountIn(d, name)
		if !ok {
			return nil, nil, wire.Invalid("Unable to find account %s in domain %d", name, d.ID)
		}
		if !c.DomainAccess(d) {
			return nil, nil, wire.Denied()
		}
		owner = a
	}

	if !c.Given("userid") {
		return owner, nil, nil
	}

	u := wire.Arg[*store.User](c, "userid")
	switch {
	case u == nil || u.Removed:
		return nil, nil, wire.Invalid("Invalid user ID provided")
	case c.Given("accountid") && u.Account != wire.Arg[*store.Account](c, "accountid"), u.Account.Domain != d:
		return nil, nil, wire.Invalid("User doesn't belong to the specified account or domain")
	}

	return u.Account, u, nil
}

func deleteProject(c *wire.Call) (*wire.JobSpec, error) {
	p := wire.Arg[*store.Project](c, "id")
	if p == nil || p.Removed {
		return nil, wire.Invalid(missingProjectID, c.Refs["id"].ID)
	}
	return &wire.JobSpec{Run: func(now time.Time) (any, error) {
		switch what := projectLeftovers(c.St, p); {
		case p.Removed:
			return nil, wire.Invalid(missingProjectID, p.ID)
		case !mayModify(c, p):
			return nil, wire.Denied()
		case what != "" && !c.Boolean("cleanup"):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
				"Can't delete the project yet because it has %s to clean up", what)
		}
		c.St.PurgeProject(p, now)
		return wire.Success{Success: true}, nil
	}}, nil
}

// projectLeftovers returns the count and kind of the first kind of object that the project still owns, or "".
func projectLeftovers(st *store.State, p *store.Project) string {
	var vms, nets, vpcs int
	for _, v := range st.VMs.Rows {
		if v.Owner == p.Account && !v.Removed {
			vms++
		}
	}

	for _, n := range st.Networks.Rows {
		if n.Owner == p.Account && !n.Removed {
			nets++
		}
	}

	for _, v := range st.VPCs.Rows {
		if v.Owner == p.Account && !v.Removed {
			vpcs++
		}
	}

	for _, k := range []struct {
		n    int
		name string
	}{{vms, "VirtualMachine"}, {nets, "Network"}, {vpcs, "Vpc"}} {
		if k.n > 0 {
			return fmt.Sprintf("%d %s", k.n, k.name)
		}
	}

	return ""
}
