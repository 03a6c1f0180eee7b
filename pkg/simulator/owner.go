// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

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
	me, name := c.caller.account, c.str("account")
	a, err := c.ownerArg(true)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return me, nil
	case name != "" && c.given("projectid"):
		return nil, invalid("ProjectId and account/domainId can't be specified together")
	case name != "" && me.normal() && a != me:
		return nil, errf(codeAccount, csPermission, "Can't create/list resources for account %s in domain %d, permission denied", name, a.domain.id)
	case c.access(a):
		return a, nil
	case name != "":
		return nil, denied()
	}
	return nil, errf(codeAccount, csPermission, "Account %s is unauthorised to use project id=%s", accountText(me), a.project.uuid)
}
