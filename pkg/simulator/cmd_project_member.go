// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// admins counts the admins of a project.
func (p *project) admins() int {
	n := 0
	for _, m := range p.members {
		if m.admin {
			n++
		}
	}
	return n
}

// find returns the membership of an account, or of one of its users.
func (p *project) find(a *account, u *user) *projectMember {
	for i := range p.members {
		if m := &p.members[i]; m.account == a && m.user == u {
			return m
		}
	}
	return nil
}

// memberNamed returns the member that the parameter account refers to.
func (c *call) memberNamed(p *project) (*projectMember, error) {
	a, ok := c.st.accountIn(p.domain, c.str("account"))
	if !ok {
		return nil, invalid("Unable to find account name=%s in domain id=%d", c.str("account"), p.domain.id)
	}
	m := p.find(a, nil)
	if m == nil {
		return nil, invalid("Account %s doesn't belong to the project. Add it to the project first and then change the project's ownership", a.name)
	}
	return m, nil
}

// memberUser returns the member that the parameter userid refers to.
func (c *call) memberUser(p *project) (*projectMember, error) {
	u := arg[*user](c, "userid")
	switch {
	case u == nil || u.removed:
		return nil, invalid("Invalid user ID provided")
	case u.account.domain != p.domain:
		return nil, invalid("User doesn't belong to the specified account or domain")
	}
	m := p.find(u.account, u)
	if m == nil {
		return nil, invalid("User %s doesn't belong to the project. Add it to the project first and then change the project's ownership", u.text())
	}
	return m, nil
}

// projectRoleType reads roletype and reports whether the member is an admin of the project; Regular is the default.
func (c *call) projectRoleType() (admin bool, err error) {
	switch strings.ToLower(c.str("roletype")) {
	case "admin":
		return true, nil
	case "regular", "":
		return false, nil
	}
	return false, invalid("Only Admin or Regular project role types are valid")
}

// newMember reads the role of a new member.
func (c *call) newMember(p *project, a *account, u *user) (projectMember, error) {
	m := projectMember{account: a, user: u}
	if c.given("projectroleid") {
		m.role = arg[*projectRole](c, "projectroleid")
		if m.role == nil || m.role.removed || m.role.project != p {
			return m, invalid("Invalid project role ID for the given project")
		}
	}
	admin, err := c.projectRoleType()
	if err != nil {
		return m, err
	}
	if m.admin = admin; admin {
		return m, c.checkLimit(a, "projects", 1)
	}
	return m, nil
}

func addAccountToProject(c *call) (*jobSpec, error) {
	return c.memberJob(func(p *project) (any, error) {
		if !c.has("account") && !c.has("email") {
			return nil, invalid("Either accountName or email is required")
		}
		if p.state != projectActive {
			return nil, invalid("Can't add account to the specified project id in state=%s as it's no longer active", p.state)
		}
		name := c.str("account")
		if name == "" {
			return nil, invalid("Account information is required for assigning account to the project")
		}
		a, ok := c.st.accountIn(p.domain, name)
		switch {
		case !ok:
			return nil, invalid("Unable to find account name=%s in specified domain id", name)
		case !c.mayModify(p):
			return nil, denied()
		case p.find(a, nil) != nil:
			return success{true}, nil
		}
		m, err := c.newMember(p, a, nil)
		if err != nil {
			return nil, err
		}
		p.members = append(p.members, m)
		return success{true}, nil
	})
}

// memberJob returns a job that changes the members of a project.
func (c *call) memberJob(act func(*project) (any, error)) (*jobSpec, error) {
	if p := arg[*project](c, "projectid"); p == nil || p.removed {
		return nil, invalid(missingProject)
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		p := arg[*project](c, "projectid")
		if p.removed {
			return nil, invalid(missingProject)
		}
		return act(p)
	}}, nil
}

func addUserToProject(c *call) (*jobSpec, error) {
	return c.memberJob(func(p *project) (any, error) {
		if p.state != projectActive {
			return nil, invalid("Can't add user to the specified project id in state=%s as it isn't currently active", p.state)
		}
		u, ok := c.st.userIn(p.domain, c.str("username"))
		switch {
		case !ok:
			return nil, invalid("Invalid user ID provided")
		case !c.mayModify(p):
			return nil, denied()
		case p.find(u.account, nil) != nil:
			return nil, invalid("User belongs to account %d which is already part of the project", u.account.id)
		case p.find(u.account, u) != nil:
			return success{true}, nil
		}
		m, err := c.newMember(p, u.account, u)
		if err != nil {
			return nil, err
		}
		p.members = append(p.members, m)
		return success{true}, nil
	})
}

// dropMember removes a member. Callers make sure that one admin remains.
func (p *project) dropMember(a *account, u *user) {
	p.members = slices.DeleteFunc(p.members, func(m projectMember) bool { return m.account == a && m.user == u })
}

func deleteAccountFromProject(c *call) (*jobSpec, error) {
	return c.memberJob(func(p *project) (any, error) {
		name := c.str("account")
		a, ok := c.st.accountIn(p.domain, name)
		if !ok {
			return nil, invalid("Unable to find account name=%s in domain id=%d", name, p.domain.id)
		}
		if !c.mayModify(p) {
			return nil, denied()
		}
		m := p.find(a, nil)
		switch {
		case m == nil:
			return nil, invalid("Account %s is not assigned to the project with specified id", name)
		case m.admin && p.admins() == 1:
			return nil, invalid("Unable to delete account %s from the project with specified id as the account is the owner of the project", name)
		}
		p.dropMember(a, nil)
		return success{true}, nil
	})
}

func deleteUserFromProject(c *call) (*jobSpec, error) {
	return c.memberJob(func(p *project) (any, error) {
		u := arg[*user](c, "userid")
		switch {
		case u == nil || u.removed:
			return nil, invalid("Invalid userId provided")
		case u.account.domain != p.domain:
			return nil, invalid("Unable to find user %s in domain id=%d", u.username, p.domain.id)
		case !c.mayModify(p):
			return nil, denied()
		case p.find(u.account, u) == nil:
			return nil, invalid("User %s is not assigned to the project with specified id", u.username)
		}
		p.dropMember(u.account, u)
		return success{true}, nil
	})
}

// projectAccountView is the API object projectaccount.
type projectAccountView struct {
	ProjectID   string `json:"projectid"`
	Project     string `json:"project"`
	RoleID      string `json:"projectroleid,omitempty"`
	AccountID   string `json:"accountid"`
	Account     string `json:"account"`
	UserID      string `json:"userid,omitempty"`
	Username    string `json:"username,omitempty"`
	AccountType int    `json:"accounttype"`
	Role        string `json:"role"`
	DomainID    string `json:"domainid"`
	Domain      string `json:"domain"`
	DomainPath  string `json:"domainpath"`
}

func (m *projectMember) roleName() string {
	if m.admin {
		return "Admin"
	}
	return "Regular"
}

func listProjectAccounts(c *call) (any, error) {
	p := arg[*project](c, "projectid")
	switch {
	case p == nil || p.removed:
		return nil, invalid("Unable to find the project id=%d", c.refs["projectid"].id)
	case !c.access(p.account):
		return nil, denied()
	}
	var out []projectMember
	for _, m := range p.members {
		switch {
		case c.has("account") && !strings.EqualFold(c.str("account"), m.account.name), c.has("role") && !strings.EqualFold(c.str("role"), m.roleName()):
		case c.given("userid") && (m.user == nil || m.user != arg[*user](c, "userid")), c.given("projectroleid") && (m.role == nil || m.role != arg[*projectRole](c, "projectroleid")):
		default:
			out = append(out, m)
		}
	}
	return page(c, "projectaccount", out, func(m projectMember) projectAccountView {
		a := m.account
		v := projectAccountView{
			ProjectID: p.uuid, Project: p.name, AccountID: a.uuid, Account: a.name, AccountType: a.typ(), Role: m.roleName(),
			DomainID: a.domain.uuid, Domain: a.domain.name, DomainPath: a.domain.display(),
		}
		if m.user != nil {
			v.UserID, v.Username = m.user.uuid, m.user.username
		}
		if m.role != nil {
			v.RoleID = m.role.uuid
		}
		return v
	})
}

// listProjectInvitations answers an empty list: members are added immediately, as with project.invite.required=false.
func listProjectInvitations(c *call) (any, error) {
	if _, err := c.ownerScope(c.byID()); err != nil {
		return nil, err
	}
	return page(c, "projectinvitation", []projectMember(nil), func(m projectMember) projectMember { return m })
}
