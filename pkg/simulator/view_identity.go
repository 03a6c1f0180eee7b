// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"strings"
)

// userView is the API object user.
type userView struct {
	ID          string     `json:"id"`
	Username    string     `json:"username"`
	FirstName   string     `json:"firstname"`
	LastName    string     `json:"lastname"`
	Email       string     `json:"email,omitempty"`
	Created     *timestamp `json:"created"`
	State       string     `json:"state"`
	Account     string     `json:"account"`
	AccountType int        `json:"accounttype"`
	Source      string     `json:"usersource"`
	RoleID      string     `json:"roleid"`
	RoleType    string     `json:"roletype"`
	RoleName    string     `json:"rolename"`
	DomainID    string     `json:"domainid"`
	Domain      string     `json:"domain"`
	Timezone    string     `json:"timezone,omitempty"`
	APIKey      string     `json:"apikey,omitempty"`
	AccountID   string     `json:"accountid"`
	ChildDomain bool       `json:"iscallerchilddomain"`
	IsDefault   bool       `json:"isdefault"`
	Is2FA       bool       `json:"is2faenabled"`
	Must2FA     bool       `json:"is2famandated"`
	KeyAccess   string     `json:"apikeyaccess,omitempty"`
	jobRef
}

func (c *call) viewUser(u *user) userView {
	a := u.account
	v := userView{
		ID: u.uuid, Username: u.username, FirstName: u.firstName, LastName: u.lastName, Email: u.email, Created: stamp(u.created), State: u.state,
		Account: a.name, AccountType: a.typ(), Source: "native", RoleID: a.role.uuid, RoleType: a.role.kind, RoleName: a.role.name,
		DomainID: a.domain.uuid, Domain: a.domain.name, APIKey: u.apiKey, AccountID: a.uuid, IsDefault: u.builtin,
		Must2FA: c.st.boolSetting("enable.2fa") && c.st.boolSetting("mandate.2fa"), jobRef: c.st.jobRef(u),
	}
	return v
}

// withAdminView adds the fields that only listUsers shows.
func (c *call) withAdminView(v userView, u *user) userView {
	mine := c.caller.account.domain
	v.ChildDomain = u.account.domain != mine && u.account.domain.within(mine)
	v.KeyAccess = c.keyAccess(u.keyAccess)
	return v
}

// keyAccess returns apikeyaccess as answers show it to root admins; other callers do not see it.
func (c *call) keyAccess(s string) string {
	switch {
	case !c.caller.rootAdmin():
		return ""
	case s == "" || s == "inherit":
		return "INHERIT"
	}
	return strings.ToUpper(s)
}

// keysAllowed reports whether the user may authenticate with API keys. The flag of the user decides, then that of the
// account, then the setting.
func (st *state) keysAllowed(u *user) bool {
	for _, flag := range []string{u.keyAccess, u.account.keyAccess} {
		if flag == "enabled" || flag == "disabled" {
			return flag == "enabled"
		}
	}
	return st.boolSetting("api.key.access")
}

// checkKeyAccess refuses an apikeyaccess other than the three valid values.
func (c *call) checkKeyAccess() *apiError {
	switch strings.ToLower(c.str("apikeyaccess")) {
	case "enabled", "disabled", "inherit":
		return nil
	}
	if !c.has("apikeyaccess") {
		return nil
	}
	return invalid("ApiKeyAccess value can only be Enabled/Disabled/Inherit")
}

// keyAccessMatches is a list filter by apikeyaccess.
func (c *call) keyAccessMatches(flag string) bool {
	return !c.has("apikeyaccess") || strings.EqualFold(cmp.Or(flag, "inherit"), c.str("apikeyaccess"))
}

// newKeyAccess returns the flag that apikeyaccess sets; "" is inherit.
func (c *call) newKeyAccess() string {
	if v := strings.ToLower(c.str("apikeyaccess")); v != "inherit" {
		return v
	}
	return ""
}
