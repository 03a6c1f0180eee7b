// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// mayModify reports whether the caller may change a project: an admin of the project, or an admin of its domain.
func (c *call) mayModify(p *project) bool {
	me := c.caller.account
	if me.rootAdmin() || me.domainAdmin() && p.domain.within(me.domain) {
		return true
	}
	m := p.membership(c.caller)
	return m != nil && m.admin
}

// projectArg returns the project of a command that changes it; missing is the error text if there is no such project.
func (c *call) projectArg(param, missing string) (*project, error) {
	p := arg[*project](c, param)
	switch {
	case p == nil || p.removed:
		if strings.Contains(missing, "%") {
			missing = fmt.Sprintf(missing, c.refs[param].id)
		}
		return nil, invalid("%s", missing)
	case !c.mayModify(p):
		return nil, denied()
	}
	return p, nil
}

const (
	missingProject   = "Unable to find project with specified id"
	missingProjectID = "Unable to find project by id %d"
)

func createProject(c *call) (*jobSpec, error) {
	me := c.caller.account
	if !me.admin() && !c.st.boolSetting("allow.user.create.projects") {
		return nil, errf(codeAccount, csPermission, "Regular user is not permitted to create a project")
	}
	owner, user, err := c.projectOwner()
	if err != nil {
		return nil, err
	}
	name := c.str("name")
	if _, taken := c.st.projects.find(func(p *project) bool { return p.domain == owner.domain && strings.EqualFold(p.name, name) }); taken {
		return nil, invalid("Project with name %s already exists in domain id=%d", name, owner.domain.id)
	}
	if err := c.checkLimit(owner, "projects", 1); err != nil {
		return nil, err
	}
	p := c.st.newProject(name, c.str("displaytext"), owner, entity{created: c.now})
	p.members[0].user = user
	p.state = projectDisabled // until the job activates it
	return &jobSpec{objectID: p.uuid, instanceType: "None", run: func(time.Time) (any, error) {
		if p.removed {
			return nil, invalid(missingProjectID, p.id)
		}
		p.state = projectActive
		return projectAnswer{c.viewProject(p)}, nil
	}}, nil
}

// projectOwner returns the account that owns a new project, and the user if userid is set.
func (c *call) projectOwner() (*account, *user, error) {
	me := c.caller.account
	if c.has("account") && !c.given("domainid") {
		return nil, nil, invalid("Account name and domain id must be specified together")
	}
	if c.given("userid") && !c.given("accountid") && !c.given("domainid") {
		return nil, nil, invalid("Account ID and Domain ID must be specified with userID")
	}
	owner, d := me, me.domain
	if c.given("domainid") {
		d = arg[*domain](c, "domainid")
		name := cmp.Or(c.str("account"), me.name)
		switch {
		case d == nil || d.removed:
			return nil, nil, invalid("Unable to find the domain by id=%d", c.refs["domainid"].id)
		case !me.admin() && (!strings.EqualFold(name, me.name) || d != me.domain):
			return nil, nil, errf(codeAccount, csPermission, "Can't create/list resources for account %s in domain %d, permission denied", name, d.id)
		}
		a, ok := c.st.accountIn(d, name)
		if !ok {
			return nil, nil, invalid("Unable to find account %s in domain %d", name, d.id)
		}
		if !c.domainAccess(d) {
			return nil, nil, denied()
		}
		owner = a
	}
	if !c.given("userid") {
		return owner, nil, nil
	}
	u := arg[*user](c, "userid")
	switch {
	case u == nil || u.removed:
		return nil, nil, invalid("Invalid user ID provided")
	case c.given("accountid") && u.account != arg[*account](c, "accountid"), u.account.domain != d:
		return nil, nil, invalid("User doesn't belong to the specified account or domain")
	}
	return u.account, u, nil
}

// projectJob returns a job on an existing project. act runs after the access check.
func (c *call) projectJob(missing string, act func(*project, time.Time) (any, error)) (*jobSpec, error) {
	if p := arg[*project](c, "id"); p == nil || p.removed {
		_, err := c.projectArg("id", missingProjectID)
		return nil, err
	}
	return &jobSpec{run: func(now time.Time) (any, error) {
		p, err := c.projectArg("id", missing)
		if err != nil {
			return nil, err
		}
		return act(p, now)
	}}, nil
}

func activateProject(c *call) (*jobSpec, error) {
	return c.projectJob(missingProject, func(p *project, _ time.Time) (any, error) {
		if p.state == projectDisabled {
			return nil, invalid("Can't activate the project in %s state", p.state)
		}
		p.state, p.account.state = projectActive, stateEnabled
		return projectAnswer{c.viewProject(p)}, nil
	})
}

func suspendProject(c *call) (*jobSpec, error) {
	return c.projectJob(missingProject, func(p *project, now time.Time) (any, error) {
		p.state, p.account.state = projectSuspended, stateDisabled
		c.st.stopVMs(p.account, now)
		return projectAnswer{c.viewProject(p)}, nil
	})
}

func deleteProject(c *call) (*jobSpec, error) {
	return c.projectJob(missingProjectID, func(p *project, now time.Time) (any, error) {
		if what := c.st.projectLeftovers(p); what != "" && !c.boolean("cleanup") {
			return nil, errf(codeInternal, csRuntime, "Can't delete the project yet because it has %s to clean up", what)
		}
		c.st.purgeProject(p, now)
		return success{true}, nil
	})
}

// projectLeftovers returns the count and kind of the first kind of object that the project still owns, or "".
func (st *state) projectLeftovers(p *project) string {
	var vms, nets, vpcs int
	for _, v := range st.vms.rows {
		if v.owner == p.account && !v.removed {
			vms++
		}
	}
	for _, n := range st.networks.rows {
		if n.owner == p.account && !n.removed {
			nets++
		}
	}
	for _, v := range st.vpcs.rows {
		if v.owner == p.account && !v.removed {
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

func updateProject(c *call) (*jobSpec, error) {
	return c.projectJob("Unable to find the project id=%d", func(p *project, _ time.Time) (any, error) {
		if c.has("account") && c.given("userid") {
			return nil, invalid("Account name and User ID are mutually exclusive. Provide either Account nameto update Account or user ID to update the user of the project")
		}
		before := append([]projectMember(nil), p.members...)
		err := c.changeOwner(p)
		if err != nil {
			p.members = before
			return nil, err
		}
		p.name, p.display = cmp.Or(c.str("name"), p.name), cmp.Or(c.str("displaytext"), p.display)
		return projectAnswer{c.viewProject(p)}, nil
	})
}

// changeOwner changes the owner, or with swapowner=false promotes or demotes a member.
func (c *call) changeOwner(p *project) error {
	if c.boolOr("swapowner", true) {
		if !c.has("account") {
			return nil
		}
		to, err := c.memberNamed(p)
		if err != nil || to.admin && to.account == p.owner() {
			return err
		}
		if err := c.checkLimit(to.account, "projects", 1); err != nil {
			return err
		}
		owner := p.owner()
		for i := range p.members {
			if p.members[i].account == owner {
				p.members[i].admin = false
			}
		}
		to.admin = true
		return nil
	}
	admin, err := c.projectRoleType()
	if err != nil {
		return err
	}
	var m *projectMember
	switch {
	case c.has("account"):
		m, err = c.memberNamed(p)
	case c.given("userid"):
		m, err = c.memberUser(p)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if m.admin && !admin && p.admins() == 1 {
		return invalid("Cannot demote the only admin of the project")
	}
	if admin && !m.admin {
		if err := c.checkLimit(m.account, "projects", 1); err != nil {
			return err
		}
	}
	m.admin = admin
	return nil
}
