// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
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
		JobRef: wire.ViewJobRef(c.St, u),
	}
	return v
}

// withAdminView adds the fields that only listUsers shows.
func withAdminView(c *wire.Call, v userView, u *store.User) userView {
	mine := c.Caller.Account.Domain
	v.ChildDomain = u.Account.Domain != mine && u.Account.Domain.Within(mine)
	v.KeyAccess = keyAccess(c)
	return v
}

// keyAccess returns apikeyaccess as answers show it to root admins; other callers do not see it.
func keyAccess(c *wire.Call) string {
	if !c.Caller.RootAdmin() {
		return ""
	}
	return "INHERIT"
}
