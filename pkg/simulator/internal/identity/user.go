// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func listUsers(c *wire.Call) (any, error) {
	me := c.Caller
	if !me.Account.Admin() && c.Given("id") && wire.Arg[*store.User](c, "id") != me.User {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Calling user is not authorized to see the user requested by id")
	}

	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	return wire.List(c, "user", c.St.Users.Rows, func(u *store.User) bool {
		return u.Account.Project == nil &&
			!u.Account.System() &&
			in(u.Account) &&
			(me.Account.Admin() || u == me.User) &&
			(!c.Has("username") ||
				store.LikeMatch([]rune(strings.ToLower(u.Username)), []rune(strings.ToLower(c.Str("username"))))) &&
			c.Is("state", u.State) &&
			(c.Like("keyword", u.Username, u.FirstName, u.LastName, u.Email, u.State, u.Account.Name) ||
				strings.EqualFold(c.Str("keyword"), accountTypeNames[u.Account.Typ()]))
	}, func(u *store.User) userView { return withAdminView(c, viewUser(c, u), u) })
}

// accountTypeNames are the account types by which a keyword can filter.
var accountTypeNames = map[int]string{0: "NORMAL", 1: "ADMIN", 2: "DOMAIN_ADMIN", 3: "RESOURCE_DOMAIN_ADMIN"}

func createUser(c *wire.Call) (any, error) {
	d := c.St.Root()
	if c.Given("domainid") {
		if d = wire.Arg[*store.Domain](c, "domainid"); d == nil || d.Removed {
			return nil, c.Internal(wire.CSRuntime, "The domain %d does not exist; unable to create user",
				c.Refs["domainid"].ID)
		}
	}

	switch {
	case c.Str("firstname") == "":
		return nil, wire.Invalid("Firstname is empty")
	case c.Str("lastname") == "":
		return nil, wire.Invalid("Lastname is empty")
	case d.Inactive:
		return nil, c.Internal(wire.CSRuntime, "The user cannot be created as domain %s is being deleted", d.Name)
	case !c.DomainAccess(d):
		return nil, wire.Denied()
	}

	a, ok := c.St.AccountIn(d, c.Str("account"))
	if !ok || a.State != store.StateEnabled {
		return nil, wire.Invalid("Unable to find account %s in domain %s to create user", c.Str("account"), d.Text())
	}

	if _, taken := c.St.UserIn(d, c.Str("username")); taken {
		return nil, c.Internal(wire.CSRuntime, "The user %s already exists in domain %d", c.Str("username"), d.ID)
	}

	if err := checkPrivilege(c, a, nil); err != nil {
		return nil, err
	}

	return wire.Object("user", viewUser(c, newUser(c.St, c, a))), nil
}

// keysView is the API object userkeys.
type keysView struct {
	APIKey    string `json:"apikey,omitempty"`
	SecretKey string `json:"secretkey,omitempty"`
	Access    *bool  `json:"apikeyaccess,omitempty"`
}

// registerUserKeys generates a new key pair in every call; the old keys become invalid immediately.
func registerUserKeys(c *wire.Call) (any, error) {
	u, err := targetUser(c, "unable to find user by id")
	if err != nil {
		return nil, err
	}
	delete(c.St.APIKeys, u.APIKey)
	u.APIKey, u.SecretKey = store.NewKeys()
	u.PrintKeys = false
	c.St.APIKeys[u.APIKey] = u
	return wire.Object("userkeys", keysView{APIKey: u.APIKey, SecretKey: u.SecretKey}), nil
}

func getUserKeys(c *wire.Call) (any, error) {
	u, err := targetUser(c, "Unable to find user by id")
	if err != nil {
		return nil, err
	}
	return wire.Object("userkeys", keysView{APIKey: u.APIKey, SecretKey: u.SecretKey, Access: wire.Ptr(true)}), nil
}

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
		return nil, wire.Invalid("The caller is requesting to delete itself. As a security measure, ACS will not "+
			"allow this operation. To delete user %s (ID: %s, Domain: %s), request to another user with "+
			"permission to execute the operation.", u.Username, u.UUID, u.Account.Domain.UUID)
	}
	if _, err := targetUser(c, ""); err != nil {
		return nil, err
	}
	c.St.RemoveUser(u)
	return wire.Success{Success: true}, nil
}

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
		ID:          u.UUID,
		Username:    u.Username,
		FirstName:   u.FirstName,
		LastName:    u.LastName,
		Email:       u.Email,
		Created:     wire.Stamp(u.Created),
		State:       u.State,
		Account:     a.Name,
		AccountType: a.Typ(),
		Source:      "native",
		RoleID:      a.Role.UUID,
		RoleType:    a.Role.Kind,
		RoleName:    a.Role.Name,
		DomainID:    a.Domain.UUID,
		Domain:      a.Domain.Name,
		APIKey:      u.APIKey,
		AccountID:   a.UUID,
		IsDefault:   u.Builtin,
		JobRef:      wire.ViewJobRef(c.St, u),
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
