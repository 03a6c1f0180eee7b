// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "github.com/google/uuid"

// ownerArg is the account that account with domainid, or projectid, name as the
// owner of what a command makes; nil when none of them is given. active wants one
// that takes new resources.
func (c *call) ownerArg(active bool) (*account, error) {
	if name := c.str("account"); name != "" {
		if !c.given("domainid") {
			return nil, invalid("Account must be specified with domainId parameter")
		}
		d := arg[*domain](c, "domainid")
		if d == nil || d.removed {
			return nil, invalid("Unable to find domain by id")
		}
		a, ok := c.st.accountIn(d, name)
		switch {
		case !ok:
			return nil, invalid("Unable to find account by name %s in domain with specified id", name)
		case active && a.state != stateEnabled:
			return nil, errf(codeAccount, csPermission, "Can't add resources to the account id=%d in state=%s as it's no longer active", a.id, a.state)
		}
		return a, nil
	}
	if c.given("projectid") {
		p := arg[*project](c, "projectid")
		switch {
		case p == nil || p.removed:
			return nil, invalid("Unable to find project by id")
		case active && p.state != projectActive:
			return nil, errf(codeAccount, csPermission, "Can't add resources to the project with specified projectId in state=%s as it's no longer active", p.state)
		}
		return p.account, nil
	}
	return nil, nil
}

// newOwner is who will own the new object of a create command: the account
// named by account and domainid, or the project, else the caller.
func (c *call) newOwner() (*account, error) {
	me := c.caller.account
	if name := c.str("account"); name != "" {
		return c.accountArg(name)
	}
	if !c.given("projectid") {
		return me, nil
	}
	p := arg[*project](c, "projectid")
	switch {
	case p == nil || p.removed:
		return nil, invalid("Unable to find project by id")
	case p.state != projectActive:
		return nil, errf(codeAccount, csPermission, "Can't add resources to the project with specified projectId in state=%s as it's no longer active", p.state)
	case !c.access(p.account):
		return nil, errf(codeAccount, csPermission, "Account %s is unauthorised to use project id=%s", accountText(me), p.uuid)
	}
	return p.account, nil
}

func (c *call) accountArg(name string) (*account, error) {
	if !c.given("domainid") {
		return nil, invalid("Account must be specified with domainId parameter")
	}
	d := arg[*domain](c, "domainid")
	if d == nil || d.removed {
		return nil, invalid("Unable to find domain by id")
	}
	a, ok := c.st.accountIn(d, name)
	switch {
	case !ok:
		return nil, invalid("Unable to find account by name %s in domain with specified id", name)
	case a.state != stateEnabled:
		return nil, errf(codeAccount, csPermission, "Can't add resources to the account id=%d in state=%s as it's no longer active", a.id, a.state)
	case c.given("projectid"):
		return nil, invalid("ProjectId and account/domainId can't be specified together")
	case c.caller.account.normal() && a != c.caller.account:
		return nil, errf(codeAccount, csPermission, "Can't create/list resources for account %s in domain %d, permission denied", name, d.id)
	case !c.access(a):
		return nil, denied()
	}
	return a, nil
}

// customID gives a row the id that a root admin wants it to have.
func customID[T row](c *call, t *table[T], v T) error {
	id := c.str("customid")
	if id == "" {
		return nil
	}
	if _, err := uuid.Parse(id); err != nil || len(id) != 36 {
		return invalid("UUID: %s doesn't follow the UUID format", id)
	}
	if _, taken := t.get(id); taken {
		return invalid("UUID %s already exists so can't update custom id", id)
	}
	t.rename(v, id)
	return nil
}
