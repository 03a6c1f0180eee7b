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
		switch verdict := judge(rules, command); verdict {
		case ruleDenies:
			denied = append(denied, command)
		case ruleAbsent:
			p.Add = append(p.Add, command)
		case ruleAllows:
		}
	}
	closed := judge(rules, "csccmNoSuchCommand") == ruleDenies
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
	p.Close = !closed
	return p, nil
}

func checkRoleType(role *cloudapi.Role) error {
	if strings.EqualFold(role.Type, userRoleType) {
		return nil
	}
	return report.Usage(fmt.Sprintf("role %q is of type %s; the controller needs one of type %s", role.Name, role.Type, userRoleType),
		"choose another name with --role-name")
}

// roleFor returns what is to be done for the role of a new account.
func roleFor(ctx context.Context, admin *cloudapi.Client, name, account string, commands []string) (rolePlan, error) {
	role, err := findRole(ctx, admin, name)
	if err != nil {
		return rolePlan{}, err
	}
	var rules []cloudapi.RolePermission
	if role != nil {
		rules, err = admin.ListRolePermissions(ctx, role.ID)
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			// A domain administrator may give a role to an account, but not read its rules. Whether they suffice is
			// verified with the new user's keys.
			return rolePlan{Name: name, ID: role.ID}, checkRoleType(role)
		}
		if err != nil {
			return rolePlan{}, explain(fmt.Sprintf("listing the rules of role %q", name), err)
		}
	}
	plan, err := planRole(name, role, rules, commands)
	if err != nil || !plan.changes() {
		return plan, err
	}
	return plan, mayMakeRole(ctx, admin, name, account)
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

type ruleVerdict int

const (
	ruleAbsent ruleVerdict = iota // no rule matches: the role type decides
	ruleAllows
	ruleDenies
)

// judge evaluates rules as CloudStack does.
func judge(rules []cloudapi.RolePermission, command string) ruleVerdict {
	for _, r := range rules {
		// A rule such as list* or *; case does not matter.
		if ok, _ := path.Match(strings.ToLower(r.Rule), strings.ToLower(command)); !ok {
			continue
		}
		if strings.EqualFold(r.Permission, "allow") {
			return ruleAllows
		}
		return ruleDenies
	}
	return ruleAbsent
}

// findRole is the role of that exact name, or nil.
func findRole(ctx context.Context, admin *cloudapi.Client, name string) (*cloudapi.Role, error) {
	roles, err := admin.ListRoles(ctx, name)
	if err != nil {
		return nil, explain("listing roles", err)
	}
	for i := range roles {
		if roles[i].Name == name {
			return &roles[i], nil
		}
	}
	return nil, nil
}

// apply makes the role as planned and returns its id.
func (p *rolePlan) apply(ctx context.Context, admin *cloudapi.Client) (string, error) {
	if p.Create {
		role, err := admin.CreateRole(ctx, p.Name, userRoleType, roleDescription)
		if err != nil {
			return "", explain(fmt.Sprintf("creating role %q", p.Name), err)
		}
		p.ID = role.ID
	}
	for _, command := range p.Add {
		if err := admin.CreateRolePermission(ctx, p.ID, command, "allow", ""); err != nil {
			return "", explain(fmt.Sprintf("allowing %s to role %q", command, p.Name), err)
		}
	}
	if p.Close {
		if err := admin.CreateRolePermission(ctx, p.ID, denyAll, "deny", "everything else"); err != nil {
			return "", explain(fmt.Sprintf("closing role %q", p.Name), err)
		}
	}
	return p.ID, nil
}
