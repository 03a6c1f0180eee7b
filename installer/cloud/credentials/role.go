// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// roleMark is in the description of roles that csccm made; only those does it
// change.
const roleMark = "made by csccm"

const roleDescription = "Kubernetes cloud controller manager, least privilege (" + roleMark + ")"

const (
	userRoleType = "User"
	denyAll      = "*"
	allow, deny  = "allow", "deny"
)

// Rules are evaluated in order, the first match wins, and where none matches
// the built-in rights of the role's type decide. A minimal role therefore is a
// list of allow rules and a deny of everything at the end. CloudStack appends
// new rules, so nothing can be allowed after that deny: the deny goes in last,
// which also makes a role that was half made (a crash) one that can be
// completed.

// rolePlan is the plan for the minimal role.
type rolePlan struct {
	Name   string
	ID     string   // of the existing role
	Create bool     // there is no such role yet
	Add    []string // commands to allow, in order
	Close  bool     // add the final deny
}

// changes reports whether there is anything to do.
func (p rolePlan) changes() bool { return p.Create || len(p.Add) > 0 || p.Close }

// planRole compares the role as it is with the commands that it must allow.
// role is nil when there is none.
func planRole(name string, role *cloudapi.Role, rules []cloudapi.RolePermission, commands []string) (rolePlan, error) {
	p := rolePlan{Name: name}
	if role == nil {
		p.Create, p.Add, p.Close = true, slices.Clone(commands), true
		return p, nil
	}
	p.ID = role.ID
	if err := checkRoleType(role); err != nil {
		return p, err
	}
	var denied []string
	for _, command := range commands {
		switch judge(rules, command) {
		case allow:
		case "":
			p.Add = append(p.Add, command)
		default:
			denied = append(denied, command)
		}
	}
	if len(denied) > 0 {
		return p, report.Remedied(fmt.Errorf("role %q denies %s, and CloudStack adds rules only behind its closing deny", name, strings.Join(denied, ", ")),
			"move allow rules for them above the deny in CloudStack's role page, delete the role if no account uses it, or choose another with --role-name")
	}
	if !strings.Contains(role.Description, roleMark) {
		// Somebody else's role: what no rule mentions falls to the rights of
		// type User, which suffice. Verification proves it.
		p.Add = nil
		return p, nil
	}
	p.Close = judge(rules, "csccmNoSuchCommand") != deny
	return p, nil
}

func checkRoleType(role *cloudapi.Role) error {
	if strings.EqualFold(role.Type, userRoleType) {
		return nil
	}
	return report.Usage(fmt.Sprintf("role %q is of type %s; the controller needs one of type %s", role.Name, role.Type, userRoleType),
		"choose another name with --role-name")
}

// planRole plans the role of a new account.
func (p *Provision) planRole(ctx context.Context, name string) (*rolePlan, error) {
	roles, err := p.admin.ListRoles(ctx, name)
	if err != nil {
		return nil, explain("listing roles", err)
	}
	var role *cloudapi.Role
	var rules []cloudapi.RolePermission
	if i := slices.IndexFunc(roles, func(r cloudapi.Role) bool { return r.Name == name }); i >= 0 {
		role = &roles[i]
		rules, err = p.admin.ListRolePermissions(ctx, role.ID)
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			// A domain administrator may give a role to an account, but not read its rules. Whether they suffice is
			// verified with the new user's keys.
			return &rolePlan{Name: name, ID: role.ID}, checkRoleType(role)
		}
		if err != nil {
			return nil, explain(fmt.Sprintf("listing the rules of role %q", name), err)
		}
	}
	plan, err := planRole(name, role, rules, p.r.Commands)
	if err != nil || !plan.changes() {
		return &plan, err
	}
	if err := mayMakeRole(ctx, p.admin, name, p.Account); err != nil {
		return nil, err
	}
	step, made := fmt.Sprintf("complete role %q: allow %s", name, strings.Join(plan.Add, ", ")), &MadeObject{}
	if plan.Create {
		step, made = fmt.Sprintf("create role %q of type User that allows %s and denies all others", name, english.Plural(len(plan.Add), "command", "")), p.makes(MadeRole, name)
	}
	p.add(step, fmt.Sprintf("role %q", name), fmt.Sprintf("making role %q", name), func(ctx context.Context) error {
		err := plan.apply(ctx, p.admin)
		made.ID = plan.ID // also where it has not got all of its rules
		return err
	})
	return &plan, nil
}

// mayMakeRole refuses, before anything is made, an administrator who may not create roles and their rules: by default
// only root administrators may.
func mayMakeRole(ctx context.Context, admin *cloudapi.Client, name, account string) error {
	apis, err := admin.ListAPIs(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil // unknown: createRole shows it
	}
	if err != nil {
		return explain("listing the APIs that the administrator may call", err)
	}
	for _, command := range []string{"createRole", "createRolePermission"} {
		if _, ok := apis[command]; !ok {
			return &Error{
				What: fmt.Sprintf("this administrator may not make role %q for account %q (%s): by default only root administrators make roles", name, account, command),
				Fix: fmt.Sprintf("name a role of type User that exists, for example --role-name User; or an account that exists, with --account; "+
					"or have a root administrator make role %q", name),
			}
		}
	}
	return nil
}

// judge evaluates rules as CloudStack does: the permission of the first that matches; "" where the role's type decides.
func judge(rules []cloudapi.RolePermission, command string) string {
	for _, r := range rules {
		// A rule such as list* or *; case does not matter.
		if ok, _ := path.Match(strings.ToLower(r.Rule), strings.ToLower(command)); ok {
			return strings.ToLower(r.Permission)
		}
	}
	return ""
}

// apply makes the role as planned.
func (p *rolePlan) apply(ctx context.Context, admin *cloudapi.Client) error {
	if p.Create {
		role, err := admin.CreateRole(ctx, p.Name, userRoleType, roleDescription)
		if err != nil {
			return err
		}
		p.ID = role.ID
	}
	for _, command := range p.Add {
		if err := admin.CreateRolePermission(ctx, p.ID, command, allow, ""); err != nil {
			return fmt.Errorf("allowing %s: %w", command, err)
		}
	}
	if p.Close {
		if err := admin.CreateRolePermission(ctx, p.ID, denyAll, deny, "everything else"); err != nil {
			return fmt.Errorf("closing the role: %w", err)
		}
	}
	return nil
}
