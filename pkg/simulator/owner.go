// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// ownerArg is the account that account with domainid, or projectid, name as the
// owner of what a command makes; nil when none of them is given.
func (c *call) ownerArg() (*account, error) {
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
		case a.state != stateEnabled:
			return nil, errf(codeAccount, csPermission, "Can't add resources to the account id=%d in state=%s as it's no longer active", a.id, a.state)
		}
		return a, nil
	}
	if c.given("projectid") {
		p := arg[*project](c, "projectid")
		switch {
		case p == nil || p.removed:
			return nil, invalid("Unable to find project by id")
		case p.state != projectActive:
			return nil, errf(codeAccount, csPermission, "Can't add resources to the project with specified projectId in state=%s as it's no longer active", p.state)
		}
		return p.account, nil
	}
	return nil, nil
}

// newOwner is ownerArg with the caller as default, checked for access.
func (c *call) newOwner() (*account, error) {
	a, err := c.ownerArg()
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return c.caller.account, nil
	case !c.access(a):
		return nil, denied()
	}
	return a, nil
}
