// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// roleMark is part of the description of roles that csccm created. csccm changes only those roles.
const roleMark = "made by csccm"

const roleDescription = "Kubernetes cloud controller manager, least privilege (" + roleMark + ")"

const allow, deny = "allow", "deny"

// everything is the last rule of a minimal role, with permission deny. CloudStack evaluates rules in order, and the
// first match wins; if no rule matches, the default rights of the role's type apply. New rules are appended, so nothing
// can be allowed after this deny. csccm therefore adds it last, and can complete a role whose creation was interrupted.
const everything = "*"

// missing returns, in order, the rules that a role lacks to allow exactly the commands. role is nil if it does not
// exist.
func missing(
	name string, role *cloudapi.Role, rules []cloudapi.RolePermission, commands []string,
) (absent []cloudapi.RolePermission, err error) {
	if role == nil {
		role = &cloudapi.Role{Type: "User", Description: roleMark}
	}

	if !strings.EqualFold(role.Type, "User") {
		return nil, report.Usage(
			"choose another name with --role-name",
			"role %q is of type %s; the controller needs one of type User", name, role.Type,
		)
	}

	var denied []string
	for _, command := range append(slices.Clone(commands), everything) {
		switch judged := judge(rules, command); {
		case command == everything && judged == "":
			absent = append(absent, cloudapi.RolePermission{Rule: everything, Permission: deny})
		case judged == "":
			absent = append(absent, cloudapi.RolePermission{Rule: command, Permission: allow})
		case judged == deny && command != everything:
			denied = append(denied, command)
		}
	}

	if len(denied) > 0 {
		return nil, report.Errorf(
			"move allow rules for them above the deny in CloudStack's role page, delete the role if no account "+
				"uses it, or choose another with --role-name",
			"role %q denies %s, and CloudStack adds rules only behind its closing deny",
			name, strings.Join(denied, ", "),
		)
	}

	if !strings.Contains(role.Description, roleMark) {
		// Somebody else created the role, so csccm does not change it. Commands without a rule have the default rights
		// of type User, which suffice; the self-test verifies that.
		return nil, nil
	}

	return absent, nil
}

// judge evaluates rules as CloudStack does. It returns the permission of the first rule that matches; "" if none does
// and the role's type decides.
func judge(rules []cloudapi.RolePermission, command string) string {
	for _, r := range rules {
		// Rules may have wildcards, such as list* or *, and ignore case.
		if ok, _ := path.Match(strings.ToLower(r.Rule), strings.ToLower(command)); ok {
			return strings.ToLower(r.Permission)
		}
	}
	return ""
}

// planRole plans the role of a new account and returns the role. Its ID is set when the action has run.
func (p *Provision) planRole(ctx context.Context, name string) (*CreatedObject, error) {
	roles, err := p.admin.ListRoles(ctx, name)
	if err != nil {
		return nil, explain("listing roles", err)
	}

	var role *cloudapi.Role
	var rules []cloudapi.RolePermission
	commands := p.r.Commands
	o, step := CreatedObject{Kind: CreatedRole, Name: name},
		"create role %[1]q of type User that allows %[3]s and denies all others"

	if i := slices.IndexFunc(roles, func(r cloudapi.Role) bool { return r.Name == name }); i >= 0 {
		role, o, step = &roles[i], CreatedObject{ID: roles[i].ID}, "complete role %[1]q: %[2]s"
		rules, err = p.admin.ListRolePermissions(ctx, role.ID)
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			// A domain administrator may assign a role, but not read its rules. The self-test with the new user's keys
			// verifies that they suffice.
			commands, rules, err = nil, []cloudapi.RolePermission{{Rule: everything, Permission: deny}}, nil
		}
		if err != nil {
			return nil, explain(fmt.Sprintf("listing the rules of role %q", name), err)
		}
	}

	absent, err := missing(name, role, rules, commands)
	if err != nil || len(absent) == 0 {
		return &o, err
	}

	if err := p.mayMakeRole(ctx, name); err != nil {
		return nil, err
	}

	texts := cloudapi.Names(absent, func(r *cloudapi.RolePermission) string { return r.Permission + " " + r.Rule })
	step = fmt.Sprintf(step, name, strings.Join(texts, ", "), report.Count(len(commands), "command"))
	return p.add(step, fmt.Sprintf("role %q", name), o, func(ctx context.Context, o *CreatedObject) error {
		if o.ID == "" {
			role, err := p.admin.CreateRole(ctx, name, roleDescription)
			if err != nil {
				return err
			}
			o.ID = role.ID // set before the rules are added, which may fail
		}
		for _, r := range absent {
			err := p.admin.Do(ctx, "createRolePermission",
				cloudstack.Params{"roleid": o.ID, "rule": r.Rule, "permission": r.Permission})
			if err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// mayMakeRole returns an error, before anything is created, if the administrator may not create roles and their rules.
// By default only root administrators may.
func (p *Provision) mayMakeRole(ctx context.Context, name string) error {
	apis, err := p.admin.ListAPIs(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) ||
		err == nil && apis.HasAll("createRole", "createRolePermission") {
		return nil // allowed, or unknown until createRole is called
	}
	if err != nil {
		return explain("listing the APIs that the administrator may call", err)
	}
	return report.Errorf(
		fmt.Sprintf("name a role of type User that exists, for example --role-name User; or an account that exists, "+
			"with --account; "+
			"or have a root administrator create role %q", name),
		"this administrator may not create role %q for account %q: by default only root administrators may create "+
			"roles",
		name, p.Account,
	)
}
