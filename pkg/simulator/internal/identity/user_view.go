// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// userView is the API object user.
type userView struct {
	ID          string          `json:"id"`
	Username    string          `json:"username"`
	FirstName   string          `json:"firstname"`
	LastName    string          `json:"lastname"`
	Email       string          `json:"email,omitempty"`
	Created     *wire.Timestamp `json:"created"`
	State       string          `json:"state"`
	Account     string          `json:"account"`
	AccountType int             `json:"accounttype"`
	Source      string          `json:"usersource"`
	RoleID      string          `json:"roleid"`
	RoleType    string          `json:"roletype"`
	RoleName    string          `json:"rolename"`
	DomainID    string          `json:"domainid"`
	Domain      string          `json:"domain"`
	Timezone    string          `json:"timezone,omitempty"`
	APIKey      string          `json:"apikey,omitempty"`
	AccountID   string          `json:"accountid"`
	ChildDomain bool            `json:"iscallerchilddomain"`
	IsDefault   bool            `json:"isdefault"`
	Is2FA       bool            `json:"is2faenabled"`
	Must2FA     bool            `json:"is2famandated"`
	KeyAccess   string          `json:"apikeyaccess,omitempty"`
	wire.JobRef
}

func viewUser(c *wire.Call, u *store.User) userView {
	a := u.Account
	v := userView{
		ID: u.UUID, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Email: u.Email, Created: wire.Stamp(u.Created), State: u.State,
		Account: a.Name, AccountType: a.Typ(), Source: "native", RoleID: a.Role.UUID, RoleType: a.Role.Kind, RoleName: a.Role.Name,
		DomainID: a.Domain.UUID, Domain: a.Domain.Name, APIKey: u.APIKey, AccountID: a.UUID, IsDefault: u.Builtin,
		Must2FA: c.St.BoolSetting("enable.2fa") && c.St.BoolSetting("mandate.2fa"), JobRef: wire.ViewJobRef(c.St, u),
	}
	return v
}

// withAdminView adds the fields that only listUsers shows.
func withAdminView(c *wire.Call, v userView, u *store.User) userView {
	mine := c.Caller.Account.Domain
	v.ChildDomain = u.Account.Domain != mine && u.Account.Domain.Within(mine)
	v.KeyAccess = keyAccess(c, u.KeyAccess)
	return v
}

// keyAccess returns apikeyaccess as answers show it to root admins; other callers do not see it.
func keyAccess(c *wire.Call, s string) string {
	switch {
	case !c.Caller.RootAdmin():
		return ""
	case s == "" || s == "inherit":
		return "INHERIT"
	}
	return strings.ToUpper(s)
}

// KeysAllowed reports whether the user may authenticate with API keys. The flag of the user decides, then that of the
// account, then the setting.
func KeysAllowed(st *store.State, u *store.User) bool {
	for _, flag := range []string{u.KeyAccess, u.Account.KeyAccess} {
		if flag == "enabled" || flag == "disabled" {
			return flag == "enabled"
		}
	}
	return st.BoolSetting("api.key.access")
}

// checkKeyAccess refuses an apikeyaccess other than the three valid values.
func checkKeyAccess(c *wire.Call) *wire.Error {
	switch strings.ToLower(c.Str("apikeyaccess")) {
	case "enabled", "disabled", "inherit":
		return nil
	}
	if !c.Has("apikeyaccess") {
		return nil
	}
	return wire.Invalid("ApiKeyAccess value can only be Enabled/Disabled/Inherit")
}

// keyAccessMatches is a list filter by apikeyaccess.
func keyAccessMatches(c *wire.Call, flag string) bool {
	return !c.Has("apikeyaccess") || strings.EqualFold(cmp.Or(flag, "inherit"), c.Str("apikeyaccess"))
}

// newKeyAccess returns the flag that apikeyaccess sets; "" is inherit.
func newKeyAccess(c *wire.Call) string {
	if v := strings.ToLower(c.Str("apikeyaccess")); v != "inherit" {
		return v
	}
	return ""
}
