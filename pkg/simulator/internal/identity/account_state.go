// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// roleRank orders role types, the most powerful first: a caller may change only accounts of its own rank or a lower
// one.
var roleRank = map[string]int{store.RoleAdmin: 1, store.RoleResourceAdmin: 2, store.RoleDomainAdmin: 4, store.RoleUser: 8}

// checkPrivilege refuses callers whose rank is lower than that of the account, or who may not change its user.
func checkPrivilege(c *wire.Call, a *store.Account, u *store.User) error {
	me := c.Caller.Account
	if a.Project != nil || builtin(me) {
		return nil
	}
	refuse := func(format string, v ...any) error {
		return wire.Errf(wire.CodeAccount, wire.CSPermission, format, v...)
	}
	mine, theirs := roleRank[me.Role.Kind], roleRank[a.Role.Kind]
	switch {
	case mine > theirs:
		return refuse("The calling account [%s, %s] has a lower role type than the user account [%s, %s]", me.Name, me.UUID, a.Name, a.UUID)
	case mine == theirs && me != a && me.Role.Kind == store.RoleUser:
		return refuse("The calling account [%s, %s] is not allowed to perform this operation on users from other accounts of the same role type within the domain",
			me.Name, me.UUID)
	case me == a && u != nil && u != c.Caller.User && !c.St.BoolSetting("allow.operations.on.users.in.same.account"):
		return refuse("The user operations are not allowed by the users in the same account")
	}
	if me.RootAdmin() {
		return nil
	}
	return checkEscalation(c, a.Role)
}

// builtin reports whether the account is the first admin or the system account, which cannot be deleted.
func builtin(a *store.Account) bool {
	return a.System() || a.Project == nil && a.Domain.Parent == nil && a.Name == "admin" && a.Role.Kind == store.RoleAdmin
}

func deleteAccount(c *wire.Call) (*wire.JobSpec, error) {
	a := wire.Arg[*store.Account](c, "id")
	if a == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	return &wire.JobSpec{InstanceType: "Account", InstanceID: a.UUID, Subject: a, Run: func(now time.Time) (any, error) {
		switch {
		case a == c.Caller.Account:
			return nil, wire.Invalid("Deletion of your own account is not allowed. To delete account %s (ID: %s, Domain: %s), request to another user with permissions to perform the operation.",
				a.Name, a.UUID, a.Domain.UUID)
		case a.Removed:
			return wire.Success{Success: true}, nil
		case a.Project != nil:
			return nil, wire.Invalid("The specified account does not exist in the system")
		case !c.Access(a):
			return nil, wire.Denied()
		case builtin(a):
			return nil, wire.Invalid("The account is default and can't be removed")
		}
		var managed []string
		for _, p := range c.St.Projects.Rows {
			for _, m := range p.Members {
				if m.Account == a && m.Admin && !p.Removed {
					managed = append(managed, fmt.Sprint(p.ID))
				}
			}
		}
		if len(managed) > 0 {
			return nil, wire.Invalid("Unable to delete account [%d], because it manages the following project(s): [%s]. Please, remove the account from these projects or demote it to a regular project role first.",
				a.ID, strings.Join(managed, ", "))
		}
		if err := checkPrivilege(c, a, nil); err != nil {
			return nil, err
		}
		c.St.PurgeAccount(a, now)
		return wire.Success{Success: true}, nil
	}}, nil
}
