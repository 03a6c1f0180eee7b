// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
	"time"
)

// namedAccount returns the account that id, or else account and domainid, refer to. missing is the error text if
// there is no such account.
func (c *call) namedAccount(missing string) (*account, error) {
	a := arg[*account](c, "id")
	if !c.given("id") {
		if d := arg[*domain](c, "domainid"); d != nil {
			a, _ = c.st.accountIn(d, c.str("account"))
		}
	}
	if a == nil || a.removed || a.project != nil {
		id, name := "null", "null"
		if c.given("id") {
			id = fmt.Sprint(c.refs["id"].id)
		}
		if c.has("account") {
			name = c.str("account")
		}
		d := "null"
		if dom := arg[*domain](c, "domainid"); dom != nil {
			d = dom.text()
		}
		return nil, invalid(missing, id, name, d)
	}
	return a, nil
}

const missingAccount = "Unable to find account by accountId: %s OR by name: %s in domain %s"

// roleRank orders role types, the most powerful first: a caller may change only accounts of its own rank or a lower
// one.
var roleRank = map[string]int{roleAdmin: 1, roleResourceAdmin: 2, roleDomainAdmin: 4, roleUser: 8}

// checkPrivilege refuses callers whose rank is lower than that of the account, or who may not change its user.
func (c *call) checkPrivilege(a *account, u *user) error {
	me := c.caller.account
	if a.project != nil || me.builtin() {
		return nil
	}
	refuse := func(format string, v ...any) error { return errf(codeAccount, csPermission, format, v...) }
	mine, theirs := roleRank[me.role.kind], roleRank[a.role.kind]
	switch {
	case mine > theirs:
		return refuse("The calling account [%s, %s] has a lower role type than the user account [%s, %s]", me.name, me.uuid, a.name, a.uuid)
	case mine == theirs && me != a && me.role.kind == roleUser:
		return refuse("The calling account [%s, %s] is not allowed to perform this operation on users from other accounts of the same role type within the domain",
			me.name, me.uuid)
	case me == a && u != nil && u != c.caller.user && !c.st.boolSetting("allow.operations.on.users.in.same.account"):
		return refuse("The user operations are not allowed by the users in the same account")
	}
	if me.rootAdmin() {
		return nil
	}
	return c.checkEscalation(a.role)
}

// builtin reports whether the account is the first admin or the system account, which cannot be deleted.
func (a *account) builtin() bool {
	return a.system() || a.project == nil && a.domain.parent == nil && a.name == "admin" && a.role.kind == roleAdmin
}

// admin reports whether the account has an administrator role of any type.
func (a *account) admin() bool { return a.project == nil && a.role.kind != roleUser }

// mayOperate checks access and privilege for an account.
func (c *call) mayOperate(a *account) error {
	if !c.access(a) {
		return denied()
	}
	return c.checkPrivilege(a, nil)
}

func updateAccount(c *call) (any, error) {
	a, err := c.namedAccount(missingAccount)
	if err != nil {
		return nil, err
	}
	if !c.domainAccess(a.domain) {
		return nil, denied()
	}
	if err := c.checkPrivilege(a, nil); err != nil {
		return nil, err
	}
	if err := c.checkKeyAccess(); err != nil {
		return nil, err
	}
	if name, ok := c.args["newname"]; ok {
		if name == "" {
			return nil, invalid("The new account name for account '%s' within domain '%s' is empty string. Account will be not renamed.", accountText(a), a.domain.text())
		}
		if o, taken := c.st.accountIn(a.domain, name); taken && o != a {
			return nil, invalid("The account with the proposed name '%s' exists in the domain '%s' with existing account %s", name, a.domain.text(), accountText(o))
		}
	}
	if n := c.str("networkdomain"); n != "" && !validDomainName(n) {
		return nil, invalid("Invalid network domain or format. Total length shouldn't exceed 190 chars. Every domain part must be between 1 and 63 " +
			"characters long, can contain ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-'); can't start or end with \"-\"")
	}
	if c.given("roleid") {
		if err := c.checkRoleChange(a, arg[*role](c, "roleid")); err != nil {
			return nil, err
		}
		a.role = arg[*role](c, "roleid")
	}
	if c.has("apikeyaccess") {
		a.keyAccess = c.newKeyAccess()
		c.note("API.KEY.ACCESS.UPDATE", "Api key access was changed for the Account to "+strings.ToUpper(c.str("apikeyaccess")), "Account", a)
	}
	if name := c.str("newname"); name != "" {
		a.name = name
	}
	if n, ok := c.args["networkdomain"]; ok {
		a.networkDomain = n
	}
	if d := c.mapArg("accountdetails"); d != nil {
		a.details = d
	}
	return accountAnswer{c.viewAccount(a)}, nil
}

// checkRoleChange applies the rules for changing an account's role.
func (c *call) checkRoleChange(a *account, r *role) error {
	me := c.caller.account
	if r == nil || r.removed || r.kind == roleAdmin && !me.rootAdmin() {
		return invalid("Role with ID '%d' is not found or not available for the account '%s' in the domain '%s'.", c.refs["roleid"].id, accountText(a), a.domain.text())
	}
	if !me.rootAdmin() && (roleRank[r.kind] < roleRank[me.role.kind] || roleRank[a.role.kind] < roleRank[me.role.kind]) {
		return errf(codeAccount, csPermission, "Unable to update account role to %s,  as either current or new role has higher privileges than the caller", r.name)
	}
	if r.kind == roleAdmin && a.domain.parent != nil {
		return errf(codeAccount, csPermission, "Unable to update account role to %s,  as the user does not belong to the ROOT domain", r.name)
	}
	return c.checkEscalation(r)
}

func enableAccount(c *call) (any, error) {
	a, err := c.namedAccount(missingAccount)
	if err != nil {
		return nil, err
	}
	if err := c.mayOperate(a); err != nil {
		return nil, err
	}
	a.state = stateEnabled
	return accountAnswer{c.viewAccount(a)}, nil
}

const missingActive = "Unable to find active account by accountId: %s OR by name: %s in domain %s"

func lockAccount(c *call) (any, error) {
	a, err := c.namedAccount(missingActive)
	if err != nil {
		return nil, err
	}
	if err := c.mayOperate(a); err != nil {
		return nil, err
	}
	if !a.lock() {
		return nil, c.internal(csRuntime, "Unable to lock account %s by accountId: null OR by name: %s in domain %s", accountText(a), a.name, a.domain.text())
	}
	return accountAnswer{c.viewAccount(a)}, nil
}

// lock locks an enabled account and reports whether the account is locked.
func (a *account) lock() bool {
	if a.state == stateEnabled {
		a.state = stateLocked
	}
	return a.state == stateLocked
}

func disableAccount(c *call) (*jobSpec, error) {
	spec := &jobSpec{instanceType: "Account"}
	if a := arg[*account](c, "id"); a != nil {
		spec.instanceID, spec.subject = a.uuid, a
	}
	spec.run = func(now time.Time) (any, error) {
		a, err := c.namedAccount(missingAccount)
		if err != nil {
			return nil, err
		}
		if err := c.mayOperate(a); err != nil {
			return nil, err
		}
		done := false
		if c.boolean("lock") {
			done = a.lock()
		} else if !a.builtin() {
			a.state, done = stateDisabled, true
			c.st.stopVMs(a, now)
		}
		if !done {
			return nil, errf(codeInternal, csRuntime, "Unable to update account %s by accountId: %d OR by name: %s in domain %s",
				accountText(a), a.id, a.name, a.domain.text())
		}
		return accountAnswer{c.viewAccount(a)}, nil
	}
	return spec, nil
}

// stopVMs stops the running VMs of an account that is being disabled.
func (st *state) stopVMs(a *account, now time.Time) {
	for _, v := range st.vms.rows {
		if v.owner == a && !v.removed && v.state == vmRunning {
			v.state, v.updated, v.bootKnown = vmStopped, now, false
		}
	}
}

func deleteAccount(c *call) (*jobSpec, error) {
	a := arg[*account](c, "id")
	if a == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{instanceType: "Account", instanceID: a.uuid, subject: a, run: func(now time.Time) (any, error) {
		switch {
		case a == c.caller.account:
			return nil, invalid("Deletion of your own account is not allowed. To delete account %s (ID: %s, Domain: %s), request to another user with permissions to perform the operation.",
				a.name, a.uuid, a.domain.uuid)
		case a.removed:
			return success{true}, nil
		case a.project != nil:
			return nil, invalid("The specified account does not exist in the system")
		case !c.access(a):
			return nil, denied()
		case a.builtin():
			return nil, invalid("The account is default and can't be removed")
		}
		var managed []string
		for _, p := range c.st.projects.rows {
			for _, m := range p.members {
				if m.account == a && m.admin && !p.removed {
					managed = append(managed, fmt.Sprint(p.id))
				}
			}
		}
		if len(managed) > 0 {
			return nil, invalid("Unable to delete account [%d], because it manages the following project(s): [%s]. Please, remove the account from these projects or demote it to a regular project role first.",
				a.id, strings.Join(managed, ", "))
		}
		if err := c.checkPrivilege(a, nil); err != nil {
			return nil, err
		}
		c.st.purgeAccount(a, now)
		return success{true}, nil
	}}, nil
}
