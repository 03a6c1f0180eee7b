// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// targetUser returns the user that id refers to, if the caller may change it.
func targetUser(c *wire.Call, missing string, v ...any) (*store.User, error) {
	u := wire.Arg[*store.User](c, "id")
	if u == nil || u.Removed {
		return nil, wire.Invalid(missing, v...)
	}
	if !c.Access(u.Account) {
		return nil, wire.Denied()
	}
	if err := checkPrivilege(c, u.Account, u); err != nil {
		return nil, err
	}
	return u, nil
}

// removableUser returns the user to delete or move. The built-in admin can be neither.
func removableUser(c *wire.Call) (*store.User, error) {
	u := wire.Arg[*store.User](c, "id")
	switch {
	case u == nil || u.Removed:
		return nil, wire.Invalid("The specified user doesn't exist in the system")
	case u.Builtin:
		return nil, wire.Invalid("The user is default and can't be (re)moved")
	}
	return u, nil
}

func deleteUser(c *wire.Call) (any, error) {
	u, err := removableUser(c)
	if err != nil {
		return nil, err
	}
	if u == c.Caller.User {
		return nil, wire.Invalid("The caller is requesting to delete itself. As a security measure, ACS will not allow this operation."+
			" To delete user %s (ID: %s, Domain: %s), request to another user with permission to execute the operation.", u.Username, u.UUID, u.Account.Domain.UUID)
	}
	if _, err := targetUser(c, ""); err != nil {
		return nil, err
	}
	c.St.RemoveUser(u)
	return wire.Success{Success: true}, nil
}
