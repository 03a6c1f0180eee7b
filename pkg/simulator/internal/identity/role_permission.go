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
