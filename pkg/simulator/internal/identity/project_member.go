// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// admins counts the admins of a project.
func admins(p *store.Project) int {
	n := 0
	for _, m := range p.Members {
		if m.Admin {
			n++
		}
	}
	return n
}

// memberNamed returns the member that the parameter account refers to.
func memberNamed(c *wire.Call, p *store.Project) (*store.ProjectMember, error) {
	a, ok := c.St.AccountIn(p.Domain, c.Str("account"))
	if !ok {
		return nil, wire.Invalid("Unable to find account name=%s in domain id=%d", c.Str("account"), p.Domain.ID)
	}
	m := p.Find(a, nil)
	if m == nil {
		return nil, wire.Invalid("Account %s doesn't belong to the project. Add it to the project first and then change the project's ownership", a.Name)
	}
	return m, nil
}

// memberUser returns the member that the parameter userid refers to.
func memberUser(c *wire.Call, p *store.Project) (*store.ProjectMember, error) {
	u := wire.Arg[*store.User](c, "userid")
	switch {
	case u == nil || u.Removed:
		return nil, wire.Invalid("Invalid user ID provided")
	case u.Account.Domain != p.Domain:
		return nil, wire.Invalid("User doesn't belong to the specified account or domain")
	}
	m := p.Find(u.Account, u)
	if m == nil {
		return nil, wire.Invalid("User %s doesn't belong to the project. Add it to the project first and then change the project's ownership", u.Text())
	}
	return m, nil
}

// projectRoleType reads roletype and reports whether the member is an admin of the project; Regular is the default.
func projectRoleType(c *wire.Call) (admin bool, err error) {
	switch strings.ToLower(c.Str("roletype")) {
	case "admin":
		return true, nil
	case "regular", "":
		return false, nil
	}
	return false, wire.Invalid("Only Admin or Regular project role types are valid")
}

// newMember reads the role of a new member.
func newMember(c *wire.Call, p *store.Project, a *store.Account, u *store.User) (store.ProjectMember, error) {
	m := store.ProjectMember{Account: a, User: u}
	if c.Given("projectroleid") {
		m.Role = wire.Arg[*store.ProjectRole](c, "projectroleid")
		if m.Role == nil || m.Role.Removed || m.Role.Project != p {
			return m, wire.Invalid("Invalid project role ID for the given project")
		}
	}
	admin, err := projectRoleType(c)
	if err != nil {
		return m, err
	}
	if m.Admin = admin; admin {
		return m, c.CheckLimit(a, "projects", 1)
	}
	return m, nil
}

func addAccountToProject(c *wire.Call) (*wire.JobSpec, error) {
	return memberJob(c, func(p *store.Project) (any, error) {
		if !c.Has("account") && !c.Has("email") {
			return nil, wire.Invalid("Either accountName or email is required")
		}
		if p.State != store.ProjectActive {
			return nil, wire.Invalid("Can't add account to the specified project id in state=%s as it's no longer active", p.State)
		}
		name := c.Str("account")
		if name == "" {
			return nil, wire.Invalid("Account information is required for assigning account to the project")
		}
		a, ok := c.St.AccountIn(p.Domain, name)
		switch {
		case !ok:
			return nil, wire.Invalid("Unable to find account name=%s in specified domain id", name)
		case !mayModify(c, p):
			return nil, wire.Denied()
		case p.Find(a, nil) != nil:
			return wire.Success{Success: true}, nil
		}
		m, err := newMember(c, p, a, nil)
		if err != nil {
			return nil, err
		}
		p.Members = append(p.Members, m)
		return wire.Success{Success: true}, nil
	})
}

// memberJob returns a job that changes the members of a project.
func memberJob(c *wire.Call, act func(*store.Project) (any, error)) (*wire.JobSpec, error) {
	if p := wire.Arg[*store.Project](c, "projectid"); p == nil || p.Removed {
		return nil, wire.Invalid(missingProject)
	}
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		p := wire.Arg[*store.Project](c, "projectid")
		if p.Removed {
			return nil, wire.Invalid(missingProject)
		}
		return act(p)
	}}, nil
}

func addUserToProject(c *wire.Call) (*wire.JobSpec, error) {
	return memberJob(c, func(p *store.Project) (any, error) {
		if p.State != store.ProjectActive {
			return nil, wire.Invalid("Can't add user to the specified project id in state=%s as it isn't currently active", p.State)
		}
		u, ok := c.St.UserIn(p.Domain, c.Str("username"))
		switch {
		case !ok:
			return nil, wire.Invalid("Invalid user ID provided")
		case !mayModify(c, p):
			return nil, wire.Denied()
		case p.Find(u.Account, nil) != nil:
			return nil, wire.Invalid("User belongs to account %d which is already part of the project", u.Account.ID)
		case p.Find(u.Account, u) != nil:
			return wire.Success{Success: true}, nil
		}
		m, err := newMember(c, p, u.Account, u)
		if err != nil {
			return nil, err
		}
		p.Members = append(p.Members, m)
		return wire.Success{Success: true}, nil
	})
}

// dropMember removes a member. Callers make sure that one admin remains.
func dropMember(p *store.Project, a *store.Account, u *store.User) {
	p.Members = slices.DeleteFunc(p.Members, func(m store.ProjectMember) bool { return m.Account == a && m.User == u })
}

func deleteAccountFromProject(c *wire.Call) (*wire.JobSpec, error) {
	return memberJob(c, func(p *store.Project) (any, error) {
		name := c.Str("account")
		a, ok := c.St.AccountIn(p.Domain, name)
		if !ok {
			return nil, wire.Invalid("Unable to find account name=%s in domain id=%d", name, p.Domain.ID)
		}
		if !mayModify(c, p) {
			return nil, wire.Denied()
		}
		m := p.Find(a, nil)
		switch {
		case m == nil:
			return nil, wire.Invalid("Account %s is not assigned to the project with specified id", name)
		case m.Admin && admins(p) == 1:
			return nil, wire.Invalid("Unable to delete account %s from the project with specified id as the account is the owner of the project", name)
		}
		dropMember(p, a, nil)
		return wire.Success{Success: true}, nil
	})
}

func deleteUserFromProject(c *wire.Call) (*wire.JobSpec, error) {
	return memberJob(c, func(p *store.Project) (any, error) {
		u := wire.Arg[*store.User](c, "userid")
		switch {
		case u == nil || u.Removed:
			return nil, wire.Invalid("Invalid userId provided")
		case u.Account.Domain != p.Domain:
			return nil, wire.Invalid("Unable to find user %s in domain id=%d", u.Username, p.Domain.ID)
		case !mayModify(c, p):
			return nil, wire.Denied()
		case p.Find(u.Account, u) == nil:
			return nil, wire.Invalid("User %s is not assigned to the project with specified id", u.Username)
		}
		dropMember(p, u.Account, u)
		return wire.Success{Success: true}, nil
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

func roleName(m *store.ProjectMember) string {
	if m.Admin {
		return "Admin"
	}
	return "Regular"
}

func listProjectAccounts(c *wire.Call) (any, error) {
	p := wire.Arg[*store.Project](c, "projectid")
	switch {
	case p == nil || p.Removed:
		return nil, wire.Invalid("Unable to find the project id=%d", c.Refs["projectid"].ID)
	case !c.Access(p.Account):
		return nil, wire.Denied()
	}
	var out []store.ProjectMember
	for _, m := range p.Members {
		switch {
		case c.Has("account") && !strings.EqualFold(c.Str("account"), m.Account.Name), c.Has("role") && !strings.EqualFold(c.Str("role"), roleName(&m)):
		case c.Given("userid") && (m.User == nil || m.User != wire.Arg[*store.User](c, "userid")), c.Given("projectroleid") && (m.Role == nil || m.Role != wire.Arg[*store.ProjectRole](c, "projectroleid")):
		default:
			out = append(out, m)
		}
	}
	return wire.Page(c, "projectaccount", out, func(m store.ProjectMember) projectAccountView {
		a := m.Account
		v := projectAccountView{
			ProjectID: p.UUID, Project: p.Name, AccountID: a.UUID, Account: a.Name, AccountType: a.Typ(), Role: roleName(&m),
			DomainID: a.Domain.UUID, Domain: a.Domain.Name, DomainPath: a.Domain.Display(),
		}
		if m.User != nil {
			v.UserID, v.Username = m.User.UUID, m.User.Username
		}
		if m.Role != nil {
			v.RoleID = m.Role.UUID
		}
		return v
	})
}

// listProjectInvitations answers an empty list: members are added immediately, as with project.invite.required=false.
func listProjectInvitations(c *wire.Call) (any, error) {
	if _, err := c.OwnerScope(c.ByID()); err != nil {
		return nil, err
	}
	return wire.Page(c, "projectinvitation", []store.ProjectMember(nil), func(m store.ProjectMember) store.ProjectMember { return m })
}
