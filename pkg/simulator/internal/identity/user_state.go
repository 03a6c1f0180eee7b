// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/events"
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

const missingUser = "Unable to find active user by id %d"

func enableUser(c *wire.Call) (any, error) {
	u, err := targetUser(c, missingUser, c.Refs["id"].ID)
	if err != nil {
		return nil, err
	}
	u.State, u.Account.State, u.Failures = store.StateEnabled, store.StateEnabled, 0 // enabling a user enables the account too
	return userAnswer{viewUser(c, u)}, nil
}

func disableUser(c *wire.Call) (*wire.JobSpec, error) {
	spec := &wire.JobSpec{InstanceType: "User"}
	if u := wire.Arg[*store.User](c, "id"); u != nil {
		spec.InstanceID = u.UUID
	}
	spec.Run = func(time.Time) (any, error) {
		u, err := targetUser(c, missingUser, c.Refs["id"].ID)
		if err != nil {
			return nil, err
		}
		u.State = store.StateDisabled
		return userAnswer{viewUser(c, u)}, nil
	}
	return spec, nil
}

// lockUser locks an enabled user. If no enabled user is left, it locks the account too.
func lockUser(c *wire.Call) (any, error) {
	u, err := targetUser(c, "Unable to find user by id")
	if err != nil {
		return nil, err
	}
	switch u.State {
	case store.StateLocked:
	case store.StateEnabled:
		u.State = store.StateLocked
		if !slices.ContainsFunc(u.Account.AccountUsers(), func(o *store.User) bool { return o.State == store.StateEnabled }) {
			lock(u.Account)
		}
	default:
		return nil, c.Internal(wire.CSRuntime, "Unable to lock user %s", u.Text())
	}
	return userAnswer{viewUser(c, u)}, nil
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

func updateUser(c *wire.Call) (any, error) {
	u := wire.Arg[*store.User](c, "id")
	if u == nil || u.Removed {
		return nil, wire.Invalid("Unable to find user with id: %d", c.Refs["id"].ID)
	}
	if _, err := targetUser(c, ""); err != nil {
		return nil, err
	}
	if err := checkUserUpdate(c, u); err != nil {
		return nil, err
	}
	if key := c.Str("userapikey"); key != "" {
		delete(c.St.APIKeys, u.APIKey)
		u.APIKey, u.SecretKey, u.PrintKeys = key, c.Str("usersecretkey"), false
		c.St.APIKeys[key] = u
	}
	if c.Has("apikeyaccess") {
		u.KeyAccess = newKeyAccess(c)
		events.Note(c, "API.KEY.ACCESS.UPDATE", "Api key access was changed for the User to "+strings.ToUpper(c.Str("apikeyaccess")), "User", u)
	}
	for name, to := range map[string]*string{
		"firstname": &u.FirstName, "lastname": &u.LastName, "username": &u.Username, "password": &u.Password, "email": &u.Email, "timezone": &u.Timezone,
	} {
		if v := c.Str(name); strings.TrimSpace(v) != "" {
			*to = v
		}
	}
	return userAnswer{viewUser(c, u)}, nil
}

// checkUserUpdate runs the checks of updateUser in CloudStack's order.
func checkUserUpdate(c *wire.Call, u *store.User) error {
	key, secret := strings.TrimSpace(c.Str("userapikey")), strings.TrimSpace(c.Str("usersecretkey"))
	if (key == "") != (secret == "") {
		return wire.Invalid("Please provide a userApiKey/userSecretKey pair")
	}
	if o := c.St.APIKeys[key]; key != "" && o != nil && o != u {
		return wire.Invalid("The API key [%s] already exists in the system. Please provide a unique key.", key)
	}
	if err := checkKeyAccess(c); err != nil {
		return err
	}
	for _, f := range []struct{ param, text string }{{"firstname", "Firstname"}, {"lastname", "Lastname"}, {"username", "Username"}} {
		if v, ok := c.Args[f.param]; ok && strings.TrimSpace(v) == "" {
			return wire.Invalid("%s cannot be empty.", f.text)
		}
	}
	if name, ok := c.Args["username"]; ok {
		if o, taken := c.St.UserIn(u.Account.Domain, name); taken && o != u {
			return wire.Invalid("Username [%s] already exists in domain [id=%s,name=%s].", name, u.Account.Domain.UUID, u.Account.Domain.Name)
		}
	}
	return checkNewPassword(c, u)
}

// checkNewPassword lets admins set any password; other users must supply the current password.
func checkNewPassword(c *wire.Call, u *store.User) error {
	if !c.Has("password") {
		return nil
	}
	if strings.TrimSpace(c.Str("password")) == "" {
		return wire.Invalid("Password cannot be empty or blank.")
	}
	me := c.Caller.Account
	if me.RootAdmin() || me.DomainAdmin() {
		return nil
	}
	if strings.TrimSpace(c.Str("currentpassword")) == "" {
		return wire.Invalid("To set a new password the current password must be provided.")
	}
	if c.Str("currentpassword") != u.Password {
		return wire.Invalid("Current password is incorrect.")
	}
	return nil
}
