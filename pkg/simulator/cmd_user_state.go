// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// targetUser returns the user that id refers to, if the caller may change it.
func (c *call) targetUser(missing string, v ...any) (*user, error) {
	u := arg[*user](c, "id")
	if u == nil || u.removed {
		return nil, invalid(missing, v...)
	}
	if !c.access(u.account) {
		return nil, denied()
	}
	if err := c.checkPrivilege(u.account, u); err != nil {
		return nil, err
	}
	return u, nil
}

const missingUser = "Unable to find active user by id %d"

func enableUser(c *call) (any, error) {
	u, err := c.targetUser(missingUser, c.refs["id"].id)
	if err != nil {
		return nil, err
	}
	u.state, u.account.state, u.failures = stateEnabled, stateEnabled, 0 // enabling a user enables the account too
	return userAnswer{c.viewUser(u)}, nil
}

func disableUser(c *call) (*jobSpec, error) {
	spec := &jobSpec{instanceType: "User"}
	if u := arg[*user](c, "id"); u != nil {
		spec.instanceID = u.uuid
	}
	spec.run = func(time.Time) (any, error) {
		u, err := c.targetUser(missingUser, c.refs["id"].id)
		if err != nil {
			return nil, err
		}
		u.state = stateDisabled
		return userAnswer{c.viewUser(u)}, nil
	}
	return spec, nil
}

// lockUser locks an enabled user. If no enabled user is left, it locks the account too.
func lockUser(c *call) (any, error) {
	u, err := c.targetUser("Unable to find user by id")
	if err != nil {
		return nil, err
	}
	switch u.state {
	case stateLocked:
	case stateEnabled:
		u.state = stateLocked
		if !slices.ContainsFunc(u.account.accountUsers(), func(o *user) bool { return o.state == stateEnabled }) {
			u.account.lock()
		}
	default:
		return nil, c.internal(csRuntime, "Unable to lock user %s", u.text())
	}
	return userAnswer{c.viewUser(u)}, nil
}

// text formats a user like CloudStack's exceptions.
func (u *user) text() string { return `User {"username":"` + u.username + `","uuid":"` + u.uuid + `"}` }

// removableUser returns the user to delete or move. The built-in admin can be neither.
func (c *call) removableUser() (*user, error) {
	u := arg[*user](c, "id")
	switch {
	case u == nil || u.removed:
		return nil, invalid("The specified user doesn't exist in the system")
	case u.builtin:
		return nil, invalid("The user is default and can't be (re)moved")
	}
	return u, nil
}

func deleteUser(c *call) (any, error) {
	u, err := c.removableUser()
	if err != nil {
		return nil, err
	}
	if u == c.caller.user {
		return nil, invalid("The caller is requesting to delete itself. As a security measure, ACS will not allow this operation."+
			" To delete user %s (ID: %s, Domain: %s), request to another user with permission to execute the operation.", u.username, u.uuid, u.account.domain.uuid)
	}
	if _, err := c.targetUser(""); err != nil {
		return nil, err
	}
	c.st.removeUser(u)
	return success{true}, nil
}

// moveUser moves a user to another account of its domain. The user keeps its API keys.
func moveUser(c *call) (any, error) {
	if !c.has("account") && !c.given("accountid") {
		return nil, paramError("Please provide either account name or account id")
	}
	u, err := c.removableUser()
	if err != nil {
		return nil, err
	}
	if _, err := c.targetUser(""); err != nil {
		return nil, err
	}
	to, _ := c.st.accountIn(u.account.domain, c.str("account"))
	if to == nil {
		to = arg[*account](c, "accountid")
	}
	switch {
	case to == nil || to.removed:
		return nil, c.internal(csRuntime, "no account name or account id. this should have been caught before this point")
	case to.domain != u.account.domain:
		return nil, invalid("moving a user from an account in one domain to an account in another domain is not supported!")
	}
	from := u.account
	from.users = slices.DeleteFunc(from.users, func(o *user) bool { return o == u })
	u.account, to.users = to, append(to.users, u)
	return success{true}, nil
}

func updateUser(c *call) (any, error) {
	u := arg[*user](c, "id")
	if u == nil || u.removed {
		return nil, invalid("Unable to find user with id: %d", c.refs["id"].id)
	}
	if _, err := c.targetUser(""); err != nil {
		return nil, err
	}
	if err := c.checkUserUpdate(u); err != nil {
		return nil, err
	}
	if key := c.str("userapikey"); key != "" {
		delete(c.st.apiKeys, u.apiKey)
		u.apiKey, u.secretKey, u.printKeys = key, c.str("usersecretkey"), false
		c.st.apiKeys[key] = u
	}
	if c.has("apikeyaccess") {
		u.keyAccess = c.newKeyAccess()
		c.note("API.KEY.ACCESS.UPDATE", "Api key access was changed for the User to "+strings.ToUpper(c.str("apikeyaccess")), "User", u)
	}
	for name, to := range map[string]*string{
		"firstname": &u.firstName, "lastname": &u.lastName, "username": &u.username, "password": &u.password, "email": &u.email, "timezone": &u.timezone,
	} {
		if v := c.str(name); strings.TrimSpace(v) != "" {
			*to = v
		}
	}
	return userAnswer{c.viewUser(u)}, nil
}

// checkUserUpdate runs the checks of updateUser in CloudStack's order.
func (c *call) checkUserUpdate(u *user) error {
	key, secret := strings.TrimSpace(c.str("userapikey")), strings.TrimSpace(c.str("usersecretkey"))
	if (key == "") != (secret == "") {
		return invalid("Please provide a userApiKey/userSecretKey pair")
	}
	if o := c.st.apiKeys[key]; key != "" && o != nil && o != u {
		return invalid("The API key [%s] already exists in the system. Please provide a unique key.", key)
	}
	if err := c.checkKeyAccess(); err != nil {
		return err
	}
	for _, f := range []struct{ param, text string }{{"firstname", "Firstname"}, {"lastname", "Lastname"}, {"username", "Username"}} {
		if v, ok := c.args[f.param]; ok && strings.TrimSpace(v) == "" {
			return invalid("%s cannot be empty.", f.text)
		}
	}
	if name, ok := c.args["username"]; ok {
		if o, taken := c.st.userIn(u.account.domain, name); taken && o != u {
			return invalid("Username [%s] already exists in domain [id=%s,name=%s].", name, u.account.domain.uuid, u.account.domain.name)
		}
	}
	return c.checkNewPassword(u)
}

// checkNewPassword lets admins set any password; other users must supply the current password.
func (c *call) checkNewPassword(u *user) error {
	if !c.has("password") {
		return nil
	}
	if strings.TrimSpace(c.str("password")) == "" {
		return invalid("Password cannot be empty or blank.")
	}
	me := c.caller.account
	if me.rootAdmin() || me.domainAdmin() {
		return nil
	}
	if strings.TrimSpace(c.str("currentpassword")) == "" {
		return invalid("To set a new password the current password must be provided.")
	}
	if c.str("currentpassword") != u.password {
		return invalid("Current password is incorrect.")
	}
	return nil
}
