// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

var projectRoleRefs = map[string]store.RefKind{"id": store.RefProjectRole}

// roleProject returns the project of a project role command, if the caller may change its roles.
func roleProject(c *wire.Call) (*store.Project, error) {
	p := wire.Arg[*store.Project](c, "projectid")
	if p == nil || p.Removed {
		return nil, c.Internal(wire.CSRuntime, "Invalid project id provided")
	}
	if mayModify(c, p) {
		return p, nil
	}
	if !p.Admits(c.Caller) {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "User/Account not part of project")
	}
	return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "User unauthorized to perform operation in the project")
}

// projectRoleArg returns the project role that a parameter refers to.
func projectRoleArg(c *wire.Call, param string) (*store.Project, *store.ProjectRole, error) {
	p, err := roleProject(c)
	if err != nil {
		return nil, nil, err
	}
	r := wire.Arg[*store.ProjectRole](c, param)
	if r == nil || r.Removed || r.Project != p {
		return nil, nil, wire.ParamError("Invalid project role id provided")
	}
	return p, r, nil
}

// projectRoleView is the API object projectrole.
type projectRoleView struct {
	ProjectID   string `json:"projectid"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Public      bool   `json:"ispublic"`
}

func viewProjectRole(r *store.ProjectRole) projectRoleView {
	return projectRoleView{ProjectID: r.Project.UUID, ID: r.UUID, Name: r.Name, Description: r.Description, Public: true}
}

type projectRoleAnswer struct {
	Role projectRoleView `json:"projectrole"`
}

func listProjectRoles(c *wire.Call) (any, error) {
	p := wire.Arg[*store.Project](c, "projectid")
	var out []*store.ProjectRole
	for _, r := range c.St.ProjectRoles.Rows {
		switch {
		case r.Removed || p == nil || r.Project != p || !wire.Matches(c, "projectroleid", r):
		case c.Has("name") && !strings.EqualFold(c.Str("name"), r.Name), c.Has("keyword") && !store.Like(r.Name, c.Str("keyword")):
		default:
			out = append(out, r)
		}
	}
	return wire.Page(c, "projectrole", out, viewProjectRole)
}

func createProjectRole(c *wire.Call) (any, error) {
	p, err := roleProject(c)
	if err != nil {
		return nil, err
	}
	name := c.Str("name")
	if _, taken := c.St.ProjectRoles.Find(func(r *store.ProjectRole) bool { return r.Project == p && strings.EqualFold(r.Name, name) }); taken {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Entity already exists ")
	}
	r := c.St.ProjectRoles.Add(&store.ProjectRole{Entity: store.Entity{Created: c.Now}, Project: p, Name: name, Description: c.Str("description")})
	return projectRoleAnswer{viewProjectRole(r)}, nil
}

func updateProjectRole(c *wire.Call) (any, error) {
	_, r, err := projectRoleArg(c, "id")
	if err != nil {
		return nil, err
	}
	r.Name, r.Description = cmp.Or(c.Str("name"), r.Name), cmp.Or(c.Str("description"), r.Description)
	return projectRoleAnswer{viewProjectRole(r)}, nil
}

func deleteProjectRole(c *wire.Call) (any, error) {
	p, r, err := projectRoleArg(c, "id")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(p.Members, func(m store.ProjectMember) bool { return m.Role == r }) {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Found users that have the project role in use, cannot delete the Project Role")
	}
	r.Removed, r.Rules = true, nil
	return wire.Success{Success: true}, nil
}

// projectPermissionView is the API object projectrolepermission.
type projectPermissionView struct {
	ID          string `json:"id"`
	ProjectID   string `json:"projectid"`
	RoleID      string `json:"projectroleid"`
	RoleName    string `json:"projectrolename"`
	Rule        string `json:"rule"`
	Permission  string `json:"permission"`
	Description string `json:"description,omitempty"`
}

func viewProjectPermission(p store.Permission) projectPermissionView {
	return projectPermissionView{
		ID: p.Rule.UUID, ProjectID: p.Project.Project.UUID, RoleID: p.Project.UUID, RoleName: p.Project.Name, Rule: p.Rule.Pattern,
		Permission: permission(p.Rule), Description: p.Rule.Description,
	}
}

func listProjectRolePermissions(c *wire.Call) (any, error) {
	of := wire.Arg[*store.Project](c, "projectid")
	var out []store.Permission
	for p := range c.St.ProjectPermissions {
		if of != nil && p.Project.Project == of && wire.Matches(c, "projectroleid", p.Project) {
			out = append(out, p)
		}
	}
	return wire.Whole("projectrolepermission", out, viewProjectPermission), nil
}

func createProjectRolePermission(c *wire.Call) (any, error) {
	_, r, err := projectRoleArg(c, "projectroleid")
	if err != nil {
		return nil, err
	}
	if !store.RuleSyntax.MatchString(c.Str("rule")) {
		return nil, wire.Invalid("Only API names and wildcards are allowed, invalid rule provided: %s", c.Str("rule"))
	}
	allow, err := allowed(c.Str("permission"), "Values for permission parameter should be: allow or deny")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.Rules, func(o *store.RoleRule) bool { return strings.EqualFold(o.Pattern, c.Str("rule")) }) {
		return nil, c.Internal(wire.CSRuntime, "Project role permission for %s seems to already exist.", c.Str("rule"))
	}
	rule := &store.RoleRule{UUID: uuid.NewString(), Pattern: c.Str("rule"), Allow: allow, Description: c.Str("description")}
	r.Rules = append(r.Rules, rule)
	return struct {
		Permission projectPermissionView `json:"projectrolepermission"`
	}{viewProjectPermission(store.Permission{Project: r, Rule: rule})}, nil
}

func updateProjectRolePermission(c *wire.Call) (any, error) {
	_, r, err := projectRoleArg(c, "projectroleid")
	if err != nil {
		return nil, err
	}
	if c.Has("ruleorder") {
		if c.Given("projectrolepermissionid") || c.Has("permission") {
			return nil, wire.ParamError(exclusiveOrder)
		}
		return wire.Success{Success: reorder(r.Rules, ruleOrder(c))}, nil
	}
	rule := ruleArg(c, "projectrolepermissionid")
	if rule == nil || !c.Has("permission") {
		return wire.Success{Success: false}, nil
	}
	allow, err := allowed(c.Str("permission"), "Values for permission parameter should be: allow or deny")
	if err != nil {
		return nil, err
	}
	rule.Allow = allow
	return wire.Success{Success: true}, nil
}

func deleteProjectRolePermission(c *wire.Call) (any, error) {
	rule := ruleArg(c, "id")
	for _, r := range c.St.ProjectRoles.Rows {
		if rule == nil || !slices.Contains(r.Rules, rule) {
			continue
		}
		if !mayModify(c, r.Project) {
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "User unauthorized to perform operation in the project")
		}
		r.Rules = slices.DeleteFunc(r.Rules, func(o *store.RoleRule) bool { return o == rule })
		return wire.Success{Success: true}, nil
	}
	return nil, wire.ParamError("Invalid role permission id provided")
}
