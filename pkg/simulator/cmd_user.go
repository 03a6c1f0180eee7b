// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
)

var userRefs = map[string]refKind{"id": refUser}

func listUsers(c *call) (any, error) {
	me := c.caller
	if !me.account.admin() && c.given("id") && arg[*user](c, "id") != me.user {
		return nil, errf(codeAccount, csPermission, "Calling user is not authorized to see the user requested by id")
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	if err := c.checkKeyAccess(); err != nil {
		return nil, err
	}
	var out []*user
	for _, u := range c.st.users.rows {
		switch {
		case u.removed || u.account.project != nil || u.account.system() || !in(u.account) || !me.account.admin() && u != me.user || !matches(c, "id", u):
		case c.has("username") && !likeMatch([]rune(strings.ToLower(u.username)), []rune(strings.ToLower(c.str("username")))):
		case c.has("state") && !strings.EqualFold(c.str("state"), u.state):
		case c.has("accounttype") && c.integer("accounttype") != u.account.typ():
		case c.has("keyword") && !slices.ContainsFunc(u.texts(), func(s string) bool { return like(s, c.str("keyword")) }) &&
			!strings.EqualFold(c.str("keyword"), accountTypeNames[u.account.typ()]):
		case !c.keyAccessMatches(u.keyAccess):
		case c.has("usersource") && !strings.EqualFold(c.str("usersource"), "native"):
		default:
			out = append(out, u)
		}
	}
	return page(c, "user", out, func(u *user) userView { return c.withAdminView(c.viewUser(u), u) })
}

// texts returns the fields that a keyword is compared with.
func (u *user) texts() []string {
	return []string{u.username, u.firstName, u.lastName, u.email, u.state, u.account.name}
}

// accountTypeNames are the account types by which a keyword can filter.
var accountTypeNames = map[int]string{0: "NORMAL", 1: "ADMIN", 2: "DOMAIN_ADMIN", 3: "RESOURCE_DOMAIN_ADMIN"}

type userAnswer struct {
	User userView `json:"user"`
}

func getUser(c *call) (any, error) {
	u := c.st.apiKeys[c.str("userapikey")]
	if u == nil || u.removed {
		return nil, invalid("User with specified API key does not exist")
	}
	return userAnswer{c.viewUser(u)}, nil
}

func createUser(c *call) (any, error) {
	d := c.st.root()
	if c.given("domainid") {
		if d = arg[*domain](c, "domainid"); d == nil || d.removed {
			return nil, c.internal(csRuntime, "The domain %d does not exist; unable to create user", c.refs["domainid"].id)
		}
	}
	switch {
	case c.str("firstname") == "":
		return nil, invalid("Firstname is empty")
	case c.str("lastname") == "":
		return nil, invalid("Lastname is empty")
	case d.inactive:
		return nil, c.internal(csRuntime, "The user cannot be created as domain %s is being deleted", d.name)
	case !c.domainAccess(d):
		return nil, denied()
	}
	a, ok := c.st.accountIn(d, c.str("account"))
	if !ok || a.state != stateEnabled {
		return nil, invalid("Unable to find account %s in domain %s to create user", c.str("account"), d.text())
	}
	if _, taken := c.st.userIn(d, c.str("username")); taken {
		return nil, c.internal(csRuntime, "The user %s already exists in domain %d", c.str("username"), d.id)
	}
	if err := c.checkPrivilege(a, nil); err != nil {
		return nil, err
	}
	if err := c.checkNewID("userid"); err != nil {
		return nil, err
	}
	return userAnswer{c.viewUser(c.st.newUser(c, a))}, nil
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
func registerUserKeys(c *call) (any, error) {
	u, err := c.targetUser("unable to find user by id")
	if err != nil {
		return nil, err
	}
	delete(c.st.apiKeys, u.apiKey)
	u.apiKey, u.secretKey = newKeys()
	u.printKeys = false
	c.st.apiKeys[u.apiKey] = u
	return keysAnswer{keysView{APIKey: u.apiKey, SecretKey: u.secretKey}}, nil
}

func getUserKeys(c *call) (any, error) {
	u, err := c.targetUser("Unable to find user by id")
	if err != nil {
		return nil, err
	}
	return keysAnswer{keysView{APIKey: u.apiKey, SecretKey: u.secretKey, Access: ptr(c.st.keysAllowed(u))}}, nil
}
