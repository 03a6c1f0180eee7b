// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func allow(rule string) cloudstack.RolePermission {
	return cloudstack.RolePermission{Rule: rule, Permission: "allow"}
}

func deny(rule string) cloudstack.RolePermission {
	return cloudstack.RolePermission{Rule: rule, Permission: "deny"}
}

func TestRuleMatches(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule, command string
		want          bool
	}{
		{"listZones", "listzones", true},
		{"listZones", "listZonesX", false},
		{"*", "anything", true},
		{"list*", "listZones", true},
		{"list*", "createTags", false},
		{"*Rule", "createLoadBalancerRule", true},
		{"*Load*Rule", "createLoadBalancerRule", true},
		{"*Load*Rule", "createFirewallRule", false},
		{"a*a", "a", false},
		{"list*Load*Load*s", "listLoads", false},
	} {
		require.Equal(t, tc.want, ruleMatches(tc.rule, tc.command), "%s on %s", tc.rule, tc.command)
	}
}

func TestPlanRole(t *testing.T) {
	t.Parallel()
	ours := &cloudstack.Role{ID: "r", Type: "User", Description: roleDescription}
	theirs := &cloudstack.Role{ID: "r", Type: "User", Description: "hand made"}
	commands := []string{"listZones", "createTags"}
	tests := map[string]struct {
		role  *cloudstack.Role
		rules []cloudstack.RolePermission
		want  rolePlan
		err   string
	}{
		"none": {want: rolePlan{Name: "n", Create: true, Add: commands, Close: true}},
		"half made, as a crash leaves it": {
			role: ours, rules: []cloudstack.RolePermission{allow("listZones")},
			want: rolePlan{Name: "n", ID: "r", Add: []string{"createTags"}, Close: true},
		},
		"all but the closing deny": {
			role: ours, rules: []cloudstack.RolePermission{allow("listZones"), allow("createTags")},
			want: rolePlan{Name: "n", ID: "r", Close: true},
		},
		"complete": {
			role: ours, rules: []cloudstack.RolePermission{allow("list*"), allow("createTags"), deny("*")},
			want: rolePlan{Name: "n", ID: "r"},
		},
		"closed too early": {
			role: ours, rules: []cloudstack.RolePermission{allow("listZones"), deny("*"), allow("createTags")},
			err: `role "n" denies createTags, and CloudStack adds rules only behind its closing deny`,
		},
		"foreign role is never changed": {
			role: theirs, rules: []cloudstack.RolePermission{allow("listZones")}, want: rolePlan{Name: "n", ID: "r"},
		},
		"foreign role that denies": {
			role: theirs, rules: []cloudstack.RolePermission{deny("create*")}, err: `role "n" denies createTags`,
		},
		"wrong type": {role: &cloudstack.Role{ID: "r", Name: "n", Type: "Admin"}, err: "is of type Admin"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := planRole("n", tc.role, tc.rules, commands)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				var e *Error
				require.ErrorAs(t, err, &e)
				require.NotEmpty(t, e.Remedy())
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want.Create, got.Create)
			require.Equal(t, tc.want.ID, got.ID)
			require.Equal(t, tc.want.Close, got.Close)
			require.Equal(t, tc.want.Add, got.Add)
		})
	}
}

func TestDomainPaths(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "ROOT", "/": "ROOT", "root": "ROOT", "ROOT/a/b": "ROOT/a/b", "/a/b": "ROOT/a/b", "a": "ROOT/a", "Root/a": "ROOT/a",
	} {
		require.Equal(t, want, normalPath(in), in)
	}
}
