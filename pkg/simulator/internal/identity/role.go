// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"strings"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

var roleRefs = map[string]store.RefKind{"id": store.RefRole}

var permissionRefs = map[string]store.RefKind{"ruleid": store.RefRolePermission, "ruleorder": store.RefRolePermission}

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
	return roleView{Type: r.Kind, State: state(r), ID: r.UUID, Name: r.Name, Description: r.Description, Public: r.Public}
}

func listRoles(c *wire.Call) (any, error) {
	var out []*store.Role
	for _, r := range c.St.Roles.Rows {
		switch {
		case r.Removed || !wire.Matches(c, "id", r), c.Has("name") && !strings.EqualFold(c.Str("name"), r.Name):
		case c.Has("type") && !strings.EqualFold(c.Str("type"), r.Kind), c.Has("keyword") && !store.Like(r.Name, c.Str("keyword")):
		case c.Has("state") && !strings.EqualFold(c.Str("state"), state(r)):
		case r.Kind == store.RoleAdmin && !c.Caller.RootAdmin(), !r.Public && !c.Caller.RootAdmin():
		default:
			out = append(out, r)
		}
	}
	return wire.Page(c, "role", out, func(r *store.Role) roleView {
		v := viewRole(r)
		v.IsDefault = wire.Ptr(r.Builtin)
		return v
	})
}

type roleAnswer struct {
	Role roleView `json:"role"`
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
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Restricted API called by a user account of non-Admin role type")
	}
	if roleNamed(c.St, c.Str("name")) != nil {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Entity already exists ")
	}
	r := &store.Role{Entity: store.Entity{Created: c.Now}, Name: c.Str("name"), Kind: kind, Description: c.Str("description"), Public: c.BoolOr("ispublic", true)}
	if from != nil {
		for _, rule := range from.Rules {
			r.Rules = append(r.Rules, &store.RoleRule{UUID: uuid.NewString(), Pattern: rule.Pattern, Allow: rule.Allow, Description: rule.Description})
		}
	}
	c.St.Roles.Add(r)
	return roleAnswer{viewRole(r)}, nil
}

func importRole(c *wire.Call) (any, error) {
	kind, err := roleKindArg(c)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		return nil, wire.ParamError("Invalid role type provided")
	}
	var rules []*store.RoleRule
	for _, e := range c.Maps["rules"] {
		pattern := e["rule"]
		switch {
		case pattern == "":
			return nil, wire.ParamError("Empty rule provided in rules param")
		case !strings.Contains(pattern, "*") && c.Server.Cat.ByName[pattern] == nil:
			return nil, wire.ParamError("Invalid api name: %s provided in rules param", pattern)
		case !store.RuleSyntax.MatchString(pattern):
			return nil, wire.Invalid("Only API names and wildcards are allowed, invalid rule provided: %s", pattern)
		case e["permission"] == "":
			return nil, wire.ParamError("Invalid permission: %s provided in rules param", e["permission"])
		}
		allow, err := allowed(e["permission"], "Values for permission parameter should be: allow or deny")
		if err != nil {
			return nil, err
		}
		rules = append(rules, &store.RoleRule{UUID: uuid.NewString(), Pattern: pattern, Allow: allow, Description: e["description"]})
	}
	r := roleNamed(c.St, c.Str("name"))
	switch {
	case r != nil && !c.Boolean("forced"):
		return nil, c.Internal(wire.CSRuntime, "Role already exists")
	case r != nil && r.Builtin:
		return nil, c.Internal(wire.CSRuntime, "Failed to import the role: %s, default role cannot be overriden", r.Name) //nolint:misspell // as CloudStack spells it
	case r == nil || r.Kind != kind:
		r = c.St.Roles.Add(&store.Role{Entity: store.Entity{Created: c.Now}, Name: c.Str("name"), Kind: kind})
	}
	r.Description, r.Public, r.Rules = c.Str("description"), c.BoolOr("ispublic", true), rules
	return roleAnswer{viewRole(r)}, nil
}

// roleArg returns the role of a command that changes it; change is the error text for default roles, which are
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

func updateRole(c *wire.Call) (any, error) {
	r := wire.Arg[*store.Role](c, "id")
	if r == nil || r.Removed {
		return nil, wire.ParamError("Invalid role id provided")
	}
	kind, err := roleKindArg(c)
	if err != nil {
		return nil, err
	}
	if r.Builtin {
		if !c.Has("ispublic") || kind != "" || c.Str("name")+c.Str("description") != "" {
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Default roles cannot be updated (with the exception of making it private/public).")
		}
		r.Public = c.Boolean("ispublic")
		return roleAnswer{viewRole(r)}, nil
	}
	if kind != "" && used(r, c.St) {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Found accounts that have role in use, won't allow to change role type")
	}
	if n := c.Str("name"); n != "" {
		if o := roleNamed(c.St, n); o != nil && o != r {
			return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Entity already exists ")
		}
		r.Name = n
	}
	r.Kind = cmp.Or(kind, r.Kind)
	r.Description = cmp.Or(c.Str("description"), r.Description)
	r.Public = c.BoolOr("ispublic", r.Public)
	return roleAnswer{viewRole(r)}, nil
}

func switchRole(c *wire.Call, off bool) (any, error) {
	r := wire.Arg[*store.Role](c, "id")
	switch {
	case r == nil || r.Removed:
		return nil, wire.ParamError("Cannot find the role with provided id")
	case r.Disabled == off:
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Role is already %s", state(r))
	}
	r.Disabled = off
	return wire.Success{Success: true}, nil
}

func deleteRole(c *wire.Call) (any, error) {
	r := wire.Arg[*store.Role](c, "id")
	switch {
	case r == nil || r.Removed:
		return nil, wire.ParamError("Cannot find the role with provided id")
	case r.Builtin:
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Default roles cannot be deleted")
	case used(r, c.St):
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Found accounts that have role in use, won't allow to delete role")
	}
	r.Removed, r.Rules = true, nil
	return wire.Success{Success: true}, nil
}
