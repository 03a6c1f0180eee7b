// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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
