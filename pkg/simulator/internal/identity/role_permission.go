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

// ruleArg returns the rule that a uuid parameter refers to, or nil if the parameter is absent.
func ruleArg(c *wire.Call, name string) *store.RoleRule {
	r, _ := c.Refs[name].Obj.(*store.RoleRule)
	return r
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
	return permissionView{ID: rule.UUID, RoleID: r.UUID, Rule: rule.Pattern, Permission: permission(rule), Description: rule.Description}
}

func listRolePermissions(c *wire.Call) (any, error) {
	var out []permissionView
	for p := range c.St.RolePermissions {
		if wire.Matches(c, "roleid", p.Role) {
			v := viewPermission(p.Role, p.Rule)
			v.RoleName = p.Role.Name
			out = append(out, v)
		}
	}
	// The command has no paging parameters and answers all rules.
	return wire.Whole("rolepermission", out, func(v permissionView) permissionView { return v }), nil
}

func createRolePermission(c *wire.Call) (any, error) {
	if r := wire.Arg[*store.Role](c, "roleid"); r == nil || r.Removed {
		return nil, wire.ParamError("Invalid role id provided")
	}
	if !store.RuleSyntax.MatchString(c.Str("rule")) {
		return nil, wire.Invalid("Only API names and wildcards are allowed, invalid rule provided: %s", c.Str("rule"))
	}
	allow, err := allowed(c.Str("permission"), "No enum constant org.apache.cloudstack.acl.RolePermissionEntity.Permission."+strings.ToUpper(c.Str("permission")))
	if err != nil {
		return nil, err
	}
	r, err := roleArg(c, "roleid", "Role permission cannot be added for Default roles")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.Rules, func(o *store.RoleRule) bool { return strings.EqualFold(o.Pattern, c.Str("rule")) }) {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Rule already exists for the role: %s", r.Name)
	}
	rule := &store.RoleRule{UUID: uuid.NewString(), Pattern: c.Str("rule"), Allow: allow, Description: c.Str("description")}
	r.Rules = append(r.Rules, rule)
	return struct {
		Permission permissionView `json:"rolepermission"`
	}{viewPermission(r, rule)}, nil
}

const exclusiveOrder = "Parameters permission and ruleid must be mutually exclusive with ruleorder"

func updateRolePermission(c *wire.Call) (any, error) {
	r := wire.Arg[*store.Role](c, "roleid")
	if r == nil || r.Removed {
		return nil, wire.ParamError("Invalid role id provided")
	}
	denied := wire.Errf(wire.CodeAccount, wire.CSPermission, "Role permission cannot be updated for Default roles")
	if c.Has("ruleorder") {
		switch {
		case c.Given("ruleid") || c.Has("permission"):
			return nil, wire.ParamError(exclusiveOrder)
		case r.Builtin:
			return nil, denied
		}
		return wire.Success{Success: reorder(r.Rules, ruleOrder(c))}, nil
	}
	if !c.Given("ruleid") || !c.Has("permission") {
		return wire.Success{Success: false}, nil
	}
	allow, err := allowed(c.Str("permission"), "Values for permission parameter should be: allow or deny")
	if err != nil {
		return nil, err
	}
	rule := ruleArg(c, "ruleid")
	switch {
	case rule == nil:
		return nil, wire.ParamError("Invalid rule id provided")
	case r.Builtin:
		return nil, denied
	case !slices.Contains(r.Rules, rule):
		return wire.Success{Success: false}, nil
	}
	rule.Allow = allow
	return wire.Success{Success: true}, nil
}

// ruleOrder returns the rules of the parameter ruleorder.
func ruleOrder(c *wire.Call) []*store.RoleRule {
	var out []*store.RoleRule
	for _, ref := range c.Lists["ruleorder"] {
		if r, ok := ref.Obj.(*store.RoleRule); ok {
			out = append(out, r)
		}
	}
	return out
}

// reorder sorts the rules in the given order, which must contain each of them once. It reports whether it did.
func reorder(rules, order []*store.RoleRule) bool {
	if len(order) != len(rules) {
		return false
	}
	for i, r := range order {
		if !slices.Contains(rules, r) || slices.Contains(order[:i], r) {
			return false
		}
	}
	copy(rules, order)
	return true
}

func deleteRolePermission(c *wire.Call) (any, error) {
	rule := ruleArg(c, "id")
	if rule == nil {
		return nil, wire.ParamError("Invalid role permission id provided")
	}
	for _, r := range c.St.Roles.Rows {
		if !slices.Contains(r.Rules, rule) {
			continue
		}
		if r.Builtin {
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Role permission cannot be deleted for Default roles")
		}
		r.Rules = slices.DeleteFunc(r.Rules, func(o *store.RoleRule) bool { return o == rule })
		return wire.Success{Success: true}, nil
	}
	return nil, wire.ParamError("Invalid role permission id provided")
}
