// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"strings"

	"github.com/google/uuid"
)

var roleRefs = map[string]refKind{"id": refRole}

var permissionRefs = map[string]refKind{"ruleid": refRolePermission, "ruleorder": refRolePermission}

// roleView is the API object role.
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
	return roleView{Type: r.kind, State: r.state(), ID: r.uuid, Name: r.name, Description: r.description, Public: r.public}
}

func listRoles(c *call) (any, error) {
	var out []*role
	for _, r := range c.st.roles.rows {
		switch {
		case r.removed || !matches(c, "id", r), c.has("name") && !strings.EqualFold(c.str("name"), r.name):
		case c.has("type") && !strings.EqualFold(c.str("type"), r.kind), c.has("keyword") && !like(r.name, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), r.state()):
		case r.kind == roleAdmin && !c.caller.rootAdmin(), !r.public && !c.caller.rootAdmin():
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

func (r *role) state() string {
	if r.disabled {
		return stateDisabled
	}
	return stateEnabled
}

// roleKindArg returns the role type of a call in the API's spelling, or "" if the parameter is absent.
func (c *call) roleKindArg() (string, error) {
	if !c.has("type") {
		return "", nil
	}
	for k := range accountTypes {
		if strings.EqualFold(k, c.str("type")) {
			return k, nil
		}
	}
	return "", errf(codeInternal, csGeneric, "Illegal RoleType name provided")
}

func (st *state) roleNamed(name string) *role {
	r, _ := st.roles.find(func(r *role) bool { return strings.EqualFold(r.name, name) })
	return r
}

func createRole(c *call) (any, error) {
	if c.has("type") == c.given("roleid") {
		return nil, paramError("Either role type or role ID must be provided, but not both")
	}
	kind, err := c.roleKindArg()
	if err != nil {
		return nil, err
	}
	from := arg[*role](c, "roleid")
	if c.given("roleid") {
		if from == nil || from.removed {
			return nil, paramError("Invalid role ID provided")
		}
		kind = from.kind
	}
	if !c.caller.rootAdmin() {
		return nil, errf(codeAccount, csPermission, "Restricted API called by a user account of non-Admin role type")
	}
	if c.st.roleNamed(c.str("name")) != nil {
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

func importRole(c *call) (any, error) {
	kind, err := c.roleKindArg()
	if err != nil {
		return nil, err
	}
	if kind == "" {
		return nil, paramError("Invalid role type provided")
	}
	var rules []*roleRule
	for _, e := range c.maps["rules"] {
		pattern := e["rule"]
		switch {
		case pattern == "":
			return nil, paramError("Empty rule provided in rules param")
		case !strings.Contains(pattern, "*") && c.server.cat.byName[pattern] == nil:
			return nil, paramError("Invalid api name: %s provided in rules param", pattern)
		case !ruleSyntax.MatchString(pattern):
			return nil, invalid("Only API names and wildcards are allowed, invalid rule provided: %s", pattern)
		case e["permission"] == "":
			return nil, paramError("Invalid permission: %s provided in rules param", e["permission"])
		}
		allow, err := allowed(e["permission"], "Values for permission parameter should be: allow or deny")
		if err != nil {
			return nil, err
		}
		rules = append(rules, &roleRule{uuid: uuid.NewString(), pattern: pattern, allow: allow, description: e["description"]})
	}
	r := c.st.roleNamed(c.str("name"))
	switch {
	case r != nil && !c.boolean("forced"):
		return nil, c.internal(csRuntime, "Role already exists")
	case r != nil && r.builtin:
		return nil, c.internal(csRuntime, "Failed to import the role: %s, default role cannot be overriden", r.name) //nolint:misspell // as CloudStack spells it
	case r == nil || r.kind != kind:
		r = c.st.roles.add(&role{entity: entity{created: c.now}, name: c.str("name"), kind: kind})
	}
	r.description, r.public, r.rules = c.str("description"), c.boolOr("ispublic", true), rules
	return roleAnswer{viewRole(r)}, nil
}

// roleArg returns the role of a command that changes it; change is the error text for default roles, which are
// read-only.
func (c *call) roleArg(param, change string) (*role, error) {
	r := arg[*role](c, param)
	switch {
	case r == nil || r.removed:
		return nil, paramError("Invalid role id provided")
	case r.builtin:
		return nil, errf(codeAccount, csPermission, "%s", change)
	}
	return r, nil
}

func (r *role) used(st *state) bool {
	_, used := st.accounts.find(func(a *account) bool { return a.role == r && a.project == nil })
	return used
}

func updateRole(c *call) (any, error) {
	r, err := c.roleArg("id", "Default roles cannot be updated")
	if err != nil {
		return nil, err
	}
	kind, err := c.roleKindArg()
	if err != nil {
		return nil, err
	}
	if kind != "" && r.used(c.st) {
		return nil, errf(codeAccount, csPermission, "Found accounts that have role in use, won't allow to change role type")
	}
	if n := c.str("name"); n != "" {
		if o := c.st.roleNamed(n); o != nil && o != r {
			return nil, errf(codeInternal, csGeneric, "Entity already exists ")
		}
		r.name = n
	}
	r.kind = cmp.Or(kind, r.kind)
	r.description = cmp.Or(c.str("description"), r.description)
	r.public = c.boolOr("ispublic", r.public)
	return roleAnswer{viewRole(r)}, nil
}

func (c *call) switchRole(off bool) (any, error) {
	r := arg[*role](c, "id")
	switch {
	case r == nil || r.removed:
		return nil, paramError("Cannot find the role with provided id")
	case r.builtin:
		return nil, errf(codeAccount, csPermission, "Default roles cannot be enabled or disabled")
	}
	r.disabled = off
	return success{true}, nil
}

func deleteRole(c *call) (any, error) {
	r := arg[*role](c, "id")
	switch {
	case r == nil || r.removed:
		return nil, paramError("Cannot find the role with provided id")
	case r.builtin:
		return nil, errf(codeAccount, csPermission, "Default roles cannot be deleted")
	case r.used(c.st):
		return nil, errf(codeAccount, csPermission, "Found accounts with role in use, won't allow to delete role")
	}
	r.removed, r.rules = true, nil
	return success{true}, nil
}
