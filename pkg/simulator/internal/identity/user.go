// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

var userRefs = map[string]store.RefKind{"id": store.RefUser}

func listUsers(c *wire.Call) (any, error) {
	me := c.Caller
	if !me.Account.Admin() && c.Given("id") && wire.Arg[*store.User](c, "id") != me.User {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Calling user is not authorized to see the user requested by id")
	}
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}
	var out []*store.User
	for _, u := range c.St.Users.Rows {
		switch {
		case u.Removed || u.Account.Project != nil || u.Account.System() || !in(u.Account) || !me.Account.Admin() && u != me.User || !wire.Matches(c, "id", u):
		case c.Has("username") && !store.LikeMatch([]rune(strings.ToLower(u.Username)), []rune(strings.ToLower(c.Str("username")))):
		case c.Has("state") && !strings.EqualFold(c.Str("state"), u.State):
		case c.Has("accounttype") && c.Integer("accounttype") != u.Account.Typ():
		case c.Has("keyword") && !slices.ContainsFunc(texts(u), func(s string) bool { return store.Like(s, c.Str("keyword")) }) &&
			!strings.EqualFold(c.Str("keyword"), accountTypeNames[u.Account.Typ()]):
		default:
			out = append(out, u)
		}
	}
	return wire.Page(c, "user", out, func(u *store.User) userView { return withAdminView(c, viewUser(c, u), u) })
}

// texts returns the fields that a keyword is compared with.
func texts(u *store.User) []string {
	return []string{u.Username, u.FirstName, u.LastName, u.Email, u.State, u.Account.Name}
}

// accountTypeNames are the account types by which a keyword can filter.
var accountTypeNames = map[int]string{0: "NORMAL", 1: "ADMIN", 2: "DOMAIN_ADMIN", 3: "RESOURCE_DOMAIN_ADMIN"}

type userAnswer struct {
	User userView `json:"user"`
}

func createUser(c *wire.Call) (any, error) {
	d := c.St.Root()
	if c.Given("domainid") {
		if d = wire.Arg[*store.Domain](c, "domainid"); d == nil || d.Removed {
			return nil, c.Internal(wire.CSRuntime, "The domain %d does not exist; unable to create user", c.Refs["domainid"].ID)
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
	return userAnswer{viewUser(c, newUser(c.St, c, a))}, nil
}

// keysView is the API object userkeys.
type keysView struct {
	APIKey    string `json:"apikey,omitempty"`
	SecretKey string `json:"secretkey,omitempty"`
	Access    *bool  `json:"apikeyaccess,omitempty"`
}

type keysAnswer struct {
	Keys keysView `json:"userkeys"`
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
	return keysAnswer{keysView{APIKey: u.APIKey, SecretKey: u.SecretKey}}, nil
}

func getUserKeys(c *wire.Call) (any, error) {
	u, err := targetUser(c, "Unable to find user by id")
	if err != nil {
		return nil, err
	}
	return keysAnswer{keysView{APIKey: u.APIKey, SecretKey: u.SecretKey, Access: wire.Ptr(true)}}, nil
}
