// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// permission is a rule with its role: either an account's role or a project role.
type permission struct {
	role    *role
	project *projectRole
	rule    *roleRule
}

// rolePermissions yields the rules of all roles.
func (st *state) rolePermissions(yield func(permission) bool) {
	for _, r := range st.roles.rows {
		for _, rule := range r.rules {
			if !r.removed && !yield(permission{role: r, rule: rule}) {
				return
			}
		}
	}
}

// permissionsOf finds rules by id, because they have no table of their own.
type permissionsOf func(yield func(permission) bool)

func (p permissionsOf) findUUID(v string) (any, int64) {
	n := int64(0)
	for perm := range p {
		n++
		if strings.EqualFold(perm.rule.uuid, v) {
			return perm.rule, n
		}
	}
	return nil, 0
}

func (p permissionsOf) findID(want int64) any {
	n := int64(0)
	for perm := range p {
		if n++; n == want {
			return perm.rule
		}
	}
	return nil
}

// ruleArg returns the rule that a uuid parameter refers to, or nil if the parameter is absent.
func (c *call) ruleArg(name string) *roleRule {
	r, _ := c.refs[name].obj.(*roleRule)
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
	return false, paramError("%s", text)
}

func (r *roleRule) permission() string {
	if r.allow {
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

func viewPermission(r *role, rule *roleRule) permissionView {
	return permissionView{ID: rule.uuid, RoleID: r.uuid, Rule: rule.pattern, Permission: rule.permission(), Description: rule.description}
}

func listRolePermissions(c *call) (any, error) {
	var out []permissionView
	for p := range c.st.rolePermissions {
		if matches(c, "roleid", p.role) {
			v := viewPermission(p.role, p.rule)
			v.RoleName = p.role.name
			out = append(out, v)
		}
	}
	// The command has no paging parameters and answers all rules.
	return whole("rolepermission", out, func(v permissionView) permissionView { return v }), nil
}

func createRolePermission(c *call) (any, error) {
	if r := arg[*role](c, "roleid"); r == nil || r.removed {
		return nil, paramError("Invalid role id provided")
	}
	if !ruleSyntax.MatchString(c.str("rule")) {
		return nil, invalid("Only API names and wildcards are allowed, invalid rule provided: %s", c.str("rule"))
	}
	allow, err := allowed(c.str("permission"), "No enum constant org.apache.cloudstack.acl.RolePermissionEntity.Permission."+strings.ToUpper(c.str("permission")))
	if err != nil {
		return nil, err
	}
	r, err := c.roleArg("roleid", "Role permission cannot be added for Default roles")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.rules, func(o *roleRule) bool { return strings.EqualFold(o.pattern, c.str("rule")) }) {
		return nil, errf(codeAccount, csPermission, "Rule already exists for the role: %s", r.name)
	}
	rule := &roleRule{uuid: uuid.NewString(), pattern: c.str("rule"), allow: allow, description: c.str("description")}
	r.rules = append(r.rules, rule)
	return struct {
		Permission permissionView `json:"rolepermission"`
	}{viewPermission(r, rule)}, nil
}

const exclusiveOrder = "Parameters permission and ruleid must be mutually exclusive with ruleorder"

func updateRolePermission(c *call) (any, error) {
	r := arg[*role](c, "roleid")
	if r == nil || r.removed {
		return nil, paramError("Invalid role id provided")
	}
	denied := errf(codeAccount, csPermission, "Role permission cannot be updated for Default roles")
	if c.has("ruleorder") {
		switch {
		case c.given("ruleid") || c.has("permission"):
			return nil, paramError(exclusiveOrder)
		case r.builtin:
			return nil, denied
		}
		return success{reorder(r.rules, c.ruleOrder())}, nil
	}
	if !c.given("ruleid") || !c.has("permission") {
		return success{false}, nil
	}
	allow, err := allowed(c.str("permission"), "Values for permission parameter should be: allow or deny")
	if err != nil {
		return nil, err
	}
	rule := c.ruleArg("ruleid")
	switch {
	case rule == nil:
		return nil, paramError("Invalid rule id provided")
	case r.builtin:
		return nil, denied
	case !slices.Contains(r.rules, rule):
		return success{false}, nil
	}
	rule.allow = allow
	return success{true}, nil
}

// ruleOrder returns the rules of the parameter ruleorder.
func (c *call) ruleOrder() []*roleRule {
	var out []*roleRule
	for _, ref := range c.lists["ruleorder"] {
		if r, ok := ref.obj.(*roleRule); ok {
			out = append(out, r)
		}
	}
	return out
}

// reorder sorts the rules in the given order, which must contain each of them once. It reports whether it did.
func reorder(rules, order []*roleRule) bool {
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

func deleteRolePermission(c *call) (any, error) {
	rule := c.ruleArg("id")
	if rule == nil {
		return nil, paramError("Invalid role permission id provided")
	}
	for _, r := range c.st.roles.rows {
		if !slices.Contains(r.rules, rule) {
			continue
		}
		if r.builtin {
			return nil, errf(codeAccount, csPermission, "Role permission cannot be deleted for Default roles")
		}
		r.rules = slices.DeleteFunc(r.rules, func(o *roleRule) bool { return o == rule })
		return success{true}, nil
	}
	return nil, paramError("Invalid role permission id provided")
}
