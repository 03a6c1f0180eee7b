// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
)

// ProjectPermissions yields the rules of all project roles.
func (st *State) ProjectPermissions(yield func(Permission) bool) {
	for _, r := range st.ProjectRoles.Rows {
		for _, rule := range r.Rules {
			if !yield(Permission{Project: r, Rule: rule}) {
				return
			}
		}
	}
}

// Permission is a rule with its role: either an account's role or a project role.
type Permission struct {
	Role    *Role
	Project *ProjectRole
	Rule    *RoleRule
}

// RolePermissions yields the rules of all roles.
func (st *State) RolePermissions(yield func(Permission) bool) {
	for _, r := range st.Roles.Rows {
		for _, rule := range r.Rules {
			if !r.Removed && !yield(Permission{Role: r, Rule: rule}) {
				return
			}
		}
	}
}

// permissionsOf finds rules by id, because they have no table of their own.
type permissionsOf func(yield func(Permission) bool)

func (p permissionsOf) FindUUID(v string) (any, int64) {
	n := int64(0)
	for perm := range p {
		n++
		if strings.EqualFold(perm.Rule.UUID, v) {
			return perm.Rule, n
		}
	}
	return nil, 0
}

func (p permissionsOf) findID(want int64) any {
	n := int64(0)
	for perm := range p {
		if n++; n == want {
			return perm.Rule
		}
	}
	return nil
}
