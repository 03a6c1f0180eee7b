// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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

func viewRole(r *store.Role) roleView {
	return roleView{
		Type:        r.Kind,
		State:       state(r),
		ID:          r.UUID,
		Name:        r.Name,
		Description: r.Description,
		Public:      r.Public,
	}
}

func listRoles(c *wire.Call) (any, error) {
	return wire.List(c, "role", c.St.Roles.Rows, func(r *store.Role) bool {
		return c.Is("name", r.Name) &&
			c.Is("type", r.Kind) &&
			c.Like("keyword", r.Name) &&
			c.Is("state", state(r)) &&
			(r.Kind != store.RoleAdmin || c.Caller.RootAdmin()) &&
			(r.Public || c.Caller.RootAdmin())
	}, func(r *store.Role) roleView {
		v := viewRole(r)
		v.IsDefault = wire.Ptr(r.Builtin)
		return v
	})
}

func state(r *store.Role) string {
	if r.Disabled {
		return store.StateDisabled
	}
	return store.StateEnabled
}

// roleKindArg returns the role type of a call in the API's spelling, or "" if the parameter is absent.
func roleKindArg(c *wire.Call) (string, error) {
	if !c.Has("type") {
		return "", nil
	}
	for k := range store.AccountTypes {
		if strings.EqualFold(k, c.Str("type")) {
			return k, nil
		}
	}
	return "", wire.Errf(wire.CodeInternal, wire.CSGeneric, "Illegal RoleType name provided")
}

func roleNamed(st *store.State, name string) *store.Role {
	r, _ := st.Roles.Find(func(r *store.Role) bool { return strings.EqualFold(r.Name, name) })
	return r
}

func createRole(c *wire.Call) (any, error) {
	if c.Has("type") == c.Given("roleid") {
		return nil, wire.ParamError("Either role type or role ID must be provided, but not both")
	}

	kind, err := roleKindArg(c)
	if err != nil {
		return nil, err
	}

	from := wire.Arg[*store.Role](c, "roleid")
	if c.Given("roleid") {
		if from == nil || from.Removed {
			return nil, wire.ParamError("Invalid role ID provided")
		}
		kind = from.Kind
	}

	if !c.Caller.RootAdmin() {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Restricted API called by a user account of non-Admin role type")
	}

	if roleNamed(c.St, c.Str("name")) != nil {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Entity already exists ")
	}

	r := &store.Role{
		Entity:      store.Entity{Created: c.Now},
		Name:        c.Str("name"),
		Kind:        kind,
		Description: c.Str("description"),
		Public:      c.BoolOr("ispublic", true),
	}

	if from != nil {
		for _, rule := range from.Rules {
			r.Rules = append(r.Rules, &store.RoleRule{
				UUID:        uuid.NewString(),
				Pattern:     rule.Pattern,
				Allow:       rule.Allow,
				Description: rule.Description,
			})
		}
	}

	c.St.Roles.Add(r)
	return wire.Object("role", viewRole(r)), nil
}

// roleArg returns the role of a command that changes it. change is the error text for default roles, which are
// read-only.
func roleArg(c *wire.Call, param, change string) (*store.Role, error) {
	r := wire.Arg[*store.Role](c, param)
	switch {
	case r == nil || r.Removed:
		return nil, wire.ParamError("Invalid role id provided")
	case r.Builtin:
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "%s", change)
	}
	return r, nil
}

func used(r *store.Role, st *store.State) bool {
	_, used := st.Accounts.Find(func(a *store.Account) bool { return a.Role == r && a.Project == nil })
	return used
}

func deleteRole(c *wire.Call) (any, error) {
	r := wire.Arg[*store.Role](c, "id")
	switch {
	case r == nil || r.Removed:
		return nil, wire.ParamError("Cannot find the role with provided id")
	case r.Builtin:
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Default roles cannot be deleted")
	case used(r, c.St):
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Found accounts that have role in use, won't allow to delete role")
	}
	r.Removed, r.Rules = true, nil
	return wire.Success{Success: true}, nil
}

// allowed parses allow or deny; text is the error for any other value.
func allowed(v, text string) (bool, error) {
	switch strings.ToLower(v) {
	case "allow":
		return true, nil
	case "deny":
		return false, nil
	}
	return false, wire.ParamError("%s", text)
}

func permission(r *store.RoleRule) string {
	if r.Allow {
		return "allow"
	}
	return "deny"
}

// permissionView is the API object rolepermission.
type permissionView struct {
	ID          string `json:"id"`
	RoleID      string `json:"roleid"`
	RoleName    string `json:"rolename,omitempty"`
	Rule        string `json:"rule"`
	Permission  string `json:"permission"`
	Description string `json:"description,omitempty"`
}

func viewPermission(r *store.Role, rule *store.RoleRule) permissionView {
	return permissionView{
		ID:          rule.UUID,
		RoleID:      r.UUID,
		Rule:        rule.Pattern,
		Permission:  permission(rule),
		Description: rule.Description,
	}
}

func listRolePermissions(c *wire.Call) (any, error) {
	var out []permissionView
	for _, r := range c.St.Roles.Rows {
		if r.Removed || !wire.Matches(c, "roleid", r) {
			continue
		}
		for _, rule := range r.Rules {
			v := viewPermission(r, rule)
			v.RoleName = r.Name
			out = append(out, v)
		}
	}
	// The command has no paging parameters and returns all rules.
	return wire.Whole("rolepermission", out, func(v permissionView) permissionView { return v }), nil
}

func createRolePermission(c *wire.Call) (any, error) {
	if r := wire.Arg[*store.Role](c, "roleid"); r == nil || r.Removed {
		return nil, wire.ParamError("Invalid role id provided")
	}

	if !store.RuleSyntax.MatchString(c.Str("rule")) {
		return nil, wire.Invalid("Only API names and wildcards are allowed, invalid rule provided: %s", c.Str("rule"))
	}

	allow, err := allowed(c.Str("permission"),
		"No enum constant org.apache.cloudstack.acl.RolePermissionEntity.Permission."+
			strings.ToUpper(c.Str("permission")))
	if err != nil {
		return nil, err
	}

	r, err := roleArg(c, "roleid", "Role permission cannot be added for Default roles")
	if err != nil {
		return nil, err
	}

	if slices.ContainsFunc(r.Rules, func(o *store.RoleRule) bool {
		return strings.EqualFold(o.Pattern, c.Str("rule"))
	}) {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Rule already exists for the role: %s", r.Name)
	}

	rule := &store.RoleRule{
		UUID:        uuid.NewString(),
		Pattern:     c.Str("rule"),
		Allow:       allow,
		Description: c.Str("description"),
	}

	r.Rules = append(r.Rules, rule)
	return wire.Object("rolepermission", viewPermission(r, rule)), nil
}
