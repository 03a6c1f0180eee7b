// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"

	"github.com/google/uuid"
)

var roleRefs = map[string]refKind{"id": refRole}

var roleCommands = []command{
	{name: "listRoles", refs: roleRefs, run: listRoles},
	{name: "createRole", write: true, run: createRole},
	{name: "deleteRole", refs: roleRefs, write: true, run: deleteRole},
	{name: "listRolePermissions", run: listRolePermissions},
	{name: "createRolePermission", write: true, run: createRolePermission},
}

// roleView is the object role.
type roleView struct {
	Type        string `json:"type"`
	IsDefault   *bool  `json:"isdefault,omitempty"`
	State       string `json:"state"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Public      bool   `json:"ispublic"`
}

func viewRole(r *role) roleView {
	return roleView{Type: r.kind, State: stateEnabled, ID: r.uuid, Name: r.name, Description: r.description, Public: r.public}
}

func listRoles(c *call) (any, error) {
	var out []*role
	for _, r := range c.st.roles.rows {
		switch {
		case r.removed || !matches(c, "id", r), c.has("name") && !strings.EqualFold(c.str("name"), r.name):
		case c.has("type") && !strings.EqualFold(c.str("type"), r.kind), c.has("keyword") && !like(r.name, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), stateEnabled):
		default:
			out = append(out, r)
		}
	}
	return page(c, "role", out, func(r *role) roleView {
		v := viewRole(r)
		v.IsDefault = ptr(r.builtin)
		return v
	})
}

type roleAnswer struct {
	Role roleView `json:"role"`
}

func createRole(c *call) (any, error) {
	from := arg[*role](c, "roleid")
	kind := ""
	for k := range accountTypes {
		if strings.EqualFold(k, c.str("type")) {
			kind = k
		}
	}
	switch {
	case c.has("type") && c.given("roleid"), !c.has("type") && !c.given("roleid"):
		return nil, paramError("Either role type or role ID must be provided, but not both")
	case c.has("type") && kind == "":
		return nil, errf(codeInternal, csGeneric, "Illegal RoleType name provided")
	case from != nil:
		kind = from.kind
	}
	if kind == roleAdmin && !c.caller.rootAdmin() {
		return nil, denied()
	}
	if _, taken := c.st.roles.find(func(r *role) bool { return strings.EqualFold(r.name, c.str("name")) }); taken {
		return nil, errf(codeInternal, csGeneric, "Entity already exists ")
	}
	r := &role{entity: entity{created: c.now}, name: c.str("name"), kind: kind, description: c.str("description"), public: c.boolOr("ispublic", true)}
	if from != nil {
		for _, rule := range from.rules {
			r.rules = append(r.rules, &roleRule{uuid: uuid.NewString(), pattern: rule.pattern, allow: rule.allow, description: rule.description})
		}
	}
	c.st.roles.add(r)
	return roleAnswer{viewRole(r)}, nil
}

func deleteRole(c *call) (any, error) {
	r := arg[*role](c, "id")
	switch {
	case r == nil || r.removed:
		return nil, paramError("Cannot find the role with provided id")
	case r.builtin:
		return nil, errf(codeAccount, csPermission, "Role %s cannot be deleted: it is a default role", r.name)
	}
	if _, used := c.st.accounts.find(func(a *account) bool { return a.role == r }); used {
		return nil, errf(codeAccount, csPermission, "Found accounts with role in use, won't allow to delete role")
	}
	r.removed = true
	return success{true}, nil
}

// permissionView is the object rolepermission.
type permissionView struct {
	ID          string `json:"id"`
	RoleID      string `json:"roleid"`
	RoleName    string `json:"rolename,omitempty"`
	Rule        string `json:"rule"`
	Permission  string `json:"permission"`
	Description string `json:"description,omitempty"`
}

func viewPermission(r *role, rule *roleRule) permissionView {
	v := permissionView{ID: rule.uuid, RoleID: r.uuid, Rule: rule.pattern, Permission: "deny", Description: rule.description}
	if rule.allow {
		v.Permission = "allow"
	}
	return v
}

func listRolePermissions(c *call) (any, error) {
	var out []permissionView
	for _, r := range c.st.roles.rows {
		if r.removed || !matches(c, "roleid", r) {
			continue
		}
		for _, rule := range r.rules {
			v := viewPermission(r, rule)
			v.RoleName = r.name
			out = append(out, v)
		}
	}
	// The list has no paging parameters: it answers everything.
	return whole("rolepermission", out, func(v permissionView) permissionView { return v }), nil
}

func createRolePermission(c *call) (any, error) {
	r := arg[*role](c, "roleid")
	allow := strings.EqualFold(c.str("permission"), "allow")
	switch {
	case r == nil || r.removed:
		return nil, paramError("Invalid role id provided")
	case r.builtin:
		return nil, errf(codeAccount, csPermission, "Role permission cannot be added for Default roles")
	case !allow && !strings.EqualFold(c.str("permission"), "deny"):
		return nil, paramError("Values for permission parameter should be: allow, deny")
	case !ruleSyntax.MatchString(c.str("rule")):
		return nil, invalid("Only API names and wildcards are allowed, invalid rule provided: %s", c.str("rule"))
	}
	for _, rule := range r.rules {
		if strings.EqualFold(rule.pattern, c.str("rule")) {
			return nil, errf(codeAccount, csPermission, "Rule already exists for the role: %s", r.name)
		}
	}
	rule := &roleRule{uuid: uuid.NewString(), pattern: c.str("rule"), allow: allow, description: c.str("description")}
	r.rules = append(r.rules, rule)
	return map[string]any{"rolepermission": viewPermission(r, rule)}, nil
}
