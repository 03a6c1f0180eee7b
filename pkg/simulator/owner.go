// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// ownerArg returns the account that account with domainid, or projectid, specifies as the owner of a new object, or
// nil if the call has none of them. If active is set, the account or project must be able to own new resources.
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
			return nil, errf(codeAccount, csPermission, "Can't add resources to the account %s in state=%s as it's no longer active", accountText(a), a.state)
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

// newOwner returns the owner of a new object for commands that ignore the state of the account or project: the
// specified owner, or else the caller.
func (c *call) newOwner() (*account, error) {
	me, name := c.caller.account, c.str("account")
	d, p := arg[*domain](c, "domainid"), arg[*project](c, "projectid")
	named := name != "" && c.given("domainid")
	switch {
	case named && c.given("projectid"):
		return nil, invalid("ProjectId and account/domainId can't be specified together")
	case c.given("projectid") && (p == nil || p.removed):
		return nil, invalid("Unable to find project by id=%s", c.projectRef())
	case c.given("projectid") && !c.access(p.account):
		return nil, errf(codeAccount, csPermission, "Account %s is unauthorised to use project id=%d", accountText(me), p.id)
	case c.given("projectid"):
		return p.account, nil
	case name != "" && !named:
		return nil, invalid("AccountName and domainId must be specified together")
	case !named:
		return me, nil
	case !me.admin() && (name != me.name || d != me.domain):
		return nil, errf(codeAccount, csPermission, "Can't create/list resources for account %s in domain %d, permission denied", name, c.refs["domainid"].id)
	case !me.admin():
		return me, nil
	case d == nil || d.removed:
		return nil, invalid("Unable to find the domain by id=%d", c.refs["domainid"].id)
	}
	a, ok := c.st.accountIn(d, name)
	switch {
	case !ok:
		return nil, invalid("Unable to find account %s in domain %s", name, d.text())
	case !c.domainAccess(d):
		return nil, denied()
	}
	return a, nil
}

// ownerOrCaller is ownerArg(true), with the caller as default.
func (c *call) ownerOrCaller() (*account, error) {
	a, err := c.ownerArg(true)
	if a == nil && err == nil {
		return c.caller.account, nil
	}
	return a, err
}

// ownerToUse is ownerOrCaller with a check that the caller has access to the owner.
func (c *call) ownerToUse() (*account, error) {
	a, err := c.ownerOrCaller()
	if err == nil && !c.access(a) {
		return nil, denied()
	}
	return a, err
}
