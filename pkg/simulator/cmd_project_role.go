// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

var projectRoleRefs = map[string]refKind{"id": refProjectRole}

// permits applies the project role of a member. Admins of the project may call every command.
func (m *projectMember) permits(api *apiSpec) *apiError {
	if m.admin || m.role == nil || m.role.removed {
		return nil
	}
	for _, r := range m.role.rules {
		if !r.matches(api.Name) {
			continue
		}
		if r.allow {
			return nil
		}
		return &apiError{
			status: http.StatusUnauthorized, cs: csGeneric, text: "The given command '" + api.Name + "' either does not exist, is not available for user.",
		}
	}
	return nil
}

// projectPermissions yields the rules of all project roles.
func (st *state) projectPermissions(yield func(permission) bool) {
	for _, r := range st.projectRoles.rows {
		for _, rule := range r.rules {
			if !yield(permission{project: r, rule: rule}) {
				return
			}
		}
	}
}

// roleProject returns the project of a project role command, if the caller may change its roles.
func (c *call) roleProject() (*project, error) {
	p := arg[*project](c, "projectid")
	if p == nil || p.removed {
		return nil, c.internal(csRuntime, "Invalid project id provided")
	}
	if c.mayModify(p) {
		return p, nil
	}
	if !p.admits(c.caller) {
		return nil, errf(codeAccount, csPermission, "User/Account not part of project")
	}
	return nil, errf(codeAccount, csPermission, "User unauthorized to perform operation in the project")
}

// projectRoleArg returns the project role that a parameter refers to.
func (c *call) projectRoleArg(param string) (*project, *projectRole, error) {
	p, err := c.roleProject()
	if err != nil {
		return nil, nil, err
	}
	r := arg[*projectRole](c, param)
	if r == nil || r.removed || r.project != p {
		return nil, nil, paramError("Invalid project role id provided")
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

func viewProjectRole(r *projectRole) projectRoleView {
	return projectRoleView{ProjectID: r.project.uuid, ID: r.uuid, Name: r.name, Description: r.description, Public: true}
}

type projectRoleAnswer struct {
	Role projectRoleView `json:"projectrole"`
}

func listProjectRoles(c *call) (any, error) {
	p := arg[*project](c, "projectid")
	var out []*projectRole
	for _, r := range c.st.projectRoles.rows {
		switch {
		case r.removed || p == nil || r.project != p || !matches(c, "projectroleid", r):
		case c.has("name") && !strings.EqualFold(c.str("name"), r.name), c.has("keyword") && !like(r.name, c.str("keyword")):
		default:
			out = append(out, r)
		}
	}
	return page(c, "projectrole", out, viewProjectRole)
}

func createProjectRole(c *call) (any, error) {
	p, err := c.roleProject()
	if err != nil {
		return nil, err
	}
	name := c.str("name")
	if _, taken := c.st.projectRoles.find(func(r *projectRole) bool { return r.project == p && strings.EqualFold(r.name, name) }); taken {
		return nil, errf(codeInternal, csGeneric, "Entity already exists ")
	}
	r := c.st.projectRoles.add(&projectRole{entity: entity{created: c.now}, project: p, name: name, description: c.str("description")})
	return projectRoleAnswer{viewProjectRole(r)}, nil
}

func updateProjectRole(c *call) (any, error) {
	_, r, err := c.projectRoleArg("id")
	if err != nil {
		return nil, err
	}
	r.name, r.description = cmp.Or(c.str("name"), r.name), cmp.Or(c.str("description"), r.description)
	return projectRoleAnswer{viewProjectRole(r)}, nil
}

func deleteProjectRole(c *call) (any, error) {
	p, r, err := c.projectRoleArg("id")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(p.members, func(m projectMember) bool { return m.role == r }) {
		return nil, errf(codeAccount, csPermission, "Found users that have the project role in use, cannot delete the Project Role")
	}
	r.removed, r.rules = true, nil
	return success{true}, nil
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

func viewProjectPermission(p permission) projectPermissionView {
	return projectPermissionView{
		ID: p.rule.uuid, ProjectID: p.project.project.uuid, RoleID: p.project.uuid, RoleName: p.project.name, Rule: p.rule.pattern,
		Permission: p.rule.permission(), Description: p.rule.description,
	}
}

func listProjectRolePermissions(c *call) (any, error) {
	of := arg[*project](c, "projectid")
	var out []permission
	for p := range c.st.projectPermissions {
		if of != nil && p.project.project == of && matches(c, "projectroleid", p.project) {
			out = append(out, p)
		}
	}
	return whole("projectrolepermission", out, viewProjectPermission), nil
}

func createProjectRolePermission(c *call) (any, error) {
	_, r, err := c.projectRoleArg("projectroleid")
	if err != nil {
		return nil, err
	}
	if !ruleSyntax.MatchString(c.str("rule")) {
		return nil, invalid("Only API names and wildcards are allowed, invalid rule provided: %s", c.str("rule"))
	}
	allow, err := allowed(c.str("permission"), "Values for permission parameter should be: allow or deny")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.rules, func(o *roleRule) bool { return strings.EqualFold(o.pattern, c.str("rule")) }) {
		return nil, c.internal(csRuntime, "Project role permission for %s seems to already exist.", c.str("rule"))
	}
	rule := &roleRule{uuid: uuid.NewString(), pattern: c.str("rule"), allow: allow, description: c.str("description")}
	r.rules = append(r.rules, rule)
	return struct {
		Permission projectPermissionView `json:"projectrolepermission"`
	}{viewProjectPermission(permission{project: r, rule: rule})}, nil
}

func updateProjectRolePermission(c *call) (any, error) {
	_, r, err := c.projectRoleArg("projectroleid")
	if err != nil {
		return nil, err
	}
	if c.has("ruleorder") {
		if c.given("projectrolepermissionid") || c.has("permission") {
			return nil, paramError(exclusiveOrder)
		}
		return success{reorder(r.rules, c.ruleOrder())}, nil
	}
	rule := c.ruleArg("projectrolepermissionid")
	if rule == nil || !c.has("permission") {
		return success{false}, nil
	}
	allow, err := allowed(c.str("permission"), "Values for permission parameter should be: allow or deny")
	if err != nil {
		return nil, err
	}
	rule.allow = allow
	return success{true}, nil
}

func deleteProjectRolePermission(c *call) (any, error) {
	rule := c.ruleArg("id")
	for _, r := range c.st.projectRoles.rows {
		if rule == nil || !slices.Contains(r.rules, rule) {
			continue
		}
		if !c.mayModify(r.project) {
			return nil, errf(codeAccount, csPermission, "User unauthorized to perform operation in the project")
		}
		r.rules = slices.DeleteFunc(r.rules, func(o *roleRule) bool { return o == rule })
		return success{true}, nil
	}
	return nil, paramError("Invalid role permission id provided")
}
