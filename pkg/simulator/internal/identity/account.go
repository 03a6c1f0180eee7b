// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/events"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// accountView is the API object account.
type accountView struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	AccountType int             `json:"accounttype"`
	RoleID      string          `json:"roleid"`
	RoleType    string          `json:"roletype"`
	RoleName    string          `json:"rolename"`
	DomainID    string          `json:"domainid"`
	Domain      string          `json:"domain"`
	DomainPath  string          `json:"domainpath"`
	Received    *int            `json:"receivedbytes,omitempty"` // shown once the account has had networks
	Sent        *int            `json:"sentbytes,omitempty"`
	State       string          `json:"state"`
	Created     *wire.Timestamp `json:"created"`
	Users       []userView      `json:"user"`
	IsDefault   bool            `json:"isdefault"`
	Groups      []struct{}      `json:"groups"`
	KeyAccess   string          `json:"apikeyaccess,omitempty"`
	wire.JobRef
}

func viewAccount(c *wire.Call, a *store.Account) counted {
	v, n := plainAccount(c, a), count(c.St, a)
	if n["networktotal"] != int64(0) {
		v.Received, v.Sent = new(int), new(int)
	}
	return counted{a.UUID, v, n}
}

// plainAccount returns the view without the resource counters.
func plainAccount(c *wire.Call, a *store.Account) accountView {
	v := accountView{
		ID:          a.UUID,
		Name:        a.Name,
		AccountType: a.Typ(),
		RoleID:      a.Role.UUID,
		RoleType:    a.Role.Kind,
		RoleName:    a.Role.Name,
		DomainID:    a.Domain.UUID,
		Domain:      a.Domain.Name,
		DomainPath:  a.Domain.Display(),
		State:       a.State,
		Created:     wire.Stamp(a.Created),
		IsDefault:   a.Domain.Parent == nil && a.Name == "admin",
		Groups:      []struct{}{},
		Users:       []userView{},
		KeyAccess:   keyAccess(c),
		JobRef:      wire.ViewJobRef(c.St, a),
	}

	for _, u := range a.AccountUsers() {
		v.Users = append(v.Users, viewUser(c, u))
	}

	return v
}

// accountScope returns the filter of listAccounts. Users see their own account. Admins see their own account, or with
// domainid or listall the accounts of the domain.
func accountScope(c *wire.Call) (wire.Scope, *wire.Error) {
	me := c.Caller.Account
	if c.Given("id") {
		a := wire.Arg[*store.Account](c, "id")
		if a == nil || a.Removed || a.Project != nil {
			return nil, wire.Invalid("Unable to find account by id %d", c.Refs["id"].ID)
		}
		if !c.Access(a) {
			return nil, wire.Denied()
		}
	}

	d := wire.Arg[*store.Domain](c, "domainid")
	if c.Given("domainid") {
		if d == nil || d.Removed {
			return nil, wire.Invalid("Domain id=%d doesn't exist", c.Refs["domainid"].ID)
		}
		if !c.DomainAccess(d) {
			return nil, wire.Denied()
		}
		if name, ok := c.Args["name"]; ok {
			a, found := c.St.AccountIn(d, name)
			if !found {
				return nil, wire.Invalid("Unable to find account by name %s in domain %d", name, d.ID)
			}
			if !c.Access(a) {
				return nil, wire.Denied()
			}
		}
	}

	deep := c.Boolean("isrecursive")
	switch {
	case c.Given("id"):
		return func(*store.Account) bool { return true }, nil
	case !me.Admin() && c.Boolean("listall") && c.St.BoolSetting("allow.user.view.all.domain.accounts"):
		d, deep = me.Domain, false
	case me.Admin() && c.Boolean("listall") && d == nil:
		d, deep = me.Domain, true
	case !me.Admin() || d == nil:
		return func(a *store.Account) bool { return a == me }, nil
	}

	return func(a *store.Account) bool { return a.Domain == d || deep && a.Domain.Within(d) }, nil
}

func listAccounts(c *wire.Call) (any, error) {
	all, err := resourceDetails(c)
	if err != nil {
		return nil, err
	}

	in, err := accountScope(c)
	if err != nil {
		return nil, err
	}

	return wire.List(c, "account", c.St.Accounts.Rows, func(a *store.Account) bool {
		return a.Project == nil &&
			!a.System() &&
			in(a) &&
			(!a.DomainAdmin() || c.Caller.Account.Admin()) &&
			c.Is("name", a.Name) &&
			c.Like("keyword", a.Name, a.State) &&
			c.Is("state", a.State) &&
			(!c.Has("accounttype") || c.Integer("accounttype") == a.Typ())
	}, func(a *store.Account) any {
		if all {
			return viewAccount(c, a)
		}
		return plainAccount(c, a)
	})
}

func createAccount(c *wire.Call) (any, error) {
	if !c.Has("accounttype") && !c.Given("roleid") {
		return nil, wire.ParamError("Neither account type and role ID are not provided")
	}

	r, err := newAccountRole(c)
	if err != nil {
		return nil, err
	}

	d := c.St.Root()
	if c.Given("domainid") {
		if d = wire.Arg[*store.Domain](c, "domainid"); d == nil || d.Removed {
			return nil, wire.Invalid("The domain %d does not exist; unable to create account", c.Refs["domainid"].ID)
		}
	}

	switch {
	case c.Str("firstname") == "":
		return nil, wire.Invalid("Firstname is empty")
	case c.Str("lastname") == "":
		return nil, wire.Invalid("Lastname is empty")
	case !c.DomainAccess(d):
		return nil, wire.Denied()
	}

	name := c.Str("account")
	if name == "" {
		name = c.Str("username")
	}

	if _, taken := c.St.UserIn(d, c.Str("username")); taken {
		return nil, wire.Invalid("The user %s already exists in domain %s", c.Str("username"), d.Text())
	}

	if d.Inactive {
		return nil, c.Internal(wire.CSRuntime, "The account cannot be created as domain %s is being deleted", d.Name)
	}

	if r.Kind == store.RoleAdmin && d.Parent != nil {
		return nil, wire.Invalid("Invalid account type ADMIN given for an account in domain %s; unable to create "+
			"user of admin role type in non-ROOT domain.", d.Text())
	}

	if _, taken := c.St.AccountIn(d, name); taken {
		return nil, wire.Invalid("The specified account: %s already exists", name)
	}

	if err := checkEscalation(c, r); err != nil {
		return nil, err
	}

	a := &store.Account{
		Entity: store.Entity{Created: c.Now}, Name: name, Domain: d, Role: r, State: store.StateEnabled,
	}
	c.St.Accounts.Add(a)
	u := newUser(c.St, c, a)
	events.Note(c, "USER.CREATE", "Successfully completed creating User. User Id: "+u.UUID, "User", u)
	return wire.Object("account", viewAccount(c, a)), nil
}

// newAccountRole returns the role of a new account: roleid, or else the default role of the account type.
func newAccountRole(c *wire.Call) (*store.Role, error) {
	r := wire.Arg[*store.Role](c, "roleid")
	if c.Given("roleid") {
		if r == nil || r.Removed || r.Kind == store.RoleAdmin && !c.Caller.RootAdmin() {
			return nil, wire.ParamError("Invalid role ID provided")
		}
		return r, nil
	}
	if r = builtinRole(c.St, c.Integer("accounttype")); r == nil {
		return nil, wire.ParamError("Invalid account type provided")
	}
	return r, nil
}

// checkEscalation refuses to assign a role that allows more than the caller's own role.
func checkEscalation(c *wire.Call, r *store.Role) error {
	me := c.Caller.Account
	if r == me.Role || me.RootAdmin() && me.Role.ID == 1 {
		return nil
	}
	for i := range c.Server.Cat.APIs {
		if api := &c.Server.Cat.APIs[i]; r.Allows(api) && !me.Role.Allows(api) {
			return wire.Errf(wire.CodeAccount, wire.CSPermission,
				"User of Account %s and domain %s can not create an account with access to more privileges they have "+
					"themself.", store.AccountText(me), me.Domain.Text())
		}
	}
	return nil
}

// builtinRole returns the default role of an account type.
func builtinRole(st *store.State, typ int) *store.Role {
	for _, r := range st.Roles.Rows {
		if r.Builtin && store.AccountTypes[r.Kind] == typ {
			return r
		}
	}
	return nil
}

// newUser adds the user that the parameters of createAccount or createUser specify.
func newUser(st *store.State, c *wire.Call, a *store.Account) *store.User {
	u := &store.User{
		Entity:    store.Entity{Created: c.Now},
		Username:  c.Str("username"),
		Password:  c.Str("password"),
		FirstName: c.Str("firstname"),
		LastName:  c.Str("lastname"),
		Email:     c.Str("email"),
		Timezone:  c.Str("timezone"),
		Account:   a,
		State:     store.StateEnabled,
	}
	st.Users.Add(u)
	a.Users = append(a.Users, u)
	return u
}

// roleRank orders role types, the most powerful first. A caller may change only accounts of its own or a lower rank.
var roleRank = map[string]int{
	store.RoleAdmin:         1,
	store.RoleResourceAdmin: 2,
	store.RoleDomainAdmin:   4,
	store.RoleUser:          8,
}

// checkPrivilege refuses callers whose rank is lower than that of the account, or who may not change its user.
func checkPrivilege(c *wire.Call, a *store.Account, u *store.User) error {
	me := c.Caller.Account
	if a.Project != nil || builtin(me) {
		return nil
	}

	refuse := func(format string, v ...any) error {
		return wire.Errf(wire.CodeAccount, wire.CSPermission, format, v...)
	}
	mine, theirs := roleRank[me.Role.Kind], roleRank[a.Role.Kind]
	switch {
	case mine > theirs:
		return refuse("The calling account [%s, %s] has a lower role type than the user account [%s, %s]", me.Name,
			me.UUID, a.Name, a.UUID)
	case mine == theirs && me != a && me.Role.Kind == store.RoleUser:
		return refuse("The calling account [%s, %s] is not allowed to perform this operation on users from other "+
			"accounts of the same role type within the domain", me.Name, me.UUID)
	case me == a && u != nil && u != c.Caller.User && !c.St.BoolSetting("allow.operations.on.users.in.same.account"):
		return refuse("The user operations are not allowed by the users in the same account")
	}

	if me.RootAdmin() {
		return nil
	}

	return checkEscalation(c, a.Role)
}

// builtin reports whether the account is the first admin or the system account, which cannot be deleted.
func builtin(a *store.Account) bool {
	return a.System() ||
		a.Project == nil && a.Domain.Parent == nil && a.Name == "admin" && a.Role.Kind == store.RoleAdmin
}

func deleteAccount(c *wire.Call) (*wire.JobSpec, error) {
	a := wire.Arg[*store.Account](c, "id")
	if a == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}

	return &wire.JobSpec{
		InstanceType: "Account",
		InstanceID:   a.UUID,
		Subject:      a,
		Run: func(now time.Time) (any, error) {
			switch {
			case a == c.Caller.Account:
				return nil, wire.Invalid("Deletion of your own account is not allowed. To delete account %s (ID: %s, "+
					"Domain: %s), request to another user with permissions to perform the operation.",
					a.Name, a.UUID, a.Domain.UUID)
			case a.Removed:
				return wire.Success{Success: true}, nil
			case a.Project != nil:
				return nil, wire.Invalid("The specified account does not exist in the system")
			case !c.Access(a):
				return nil, wire.Denied()
			case builtin(a):
				return nil, wire.Invalid("The account is default and can't be removed")
			}

			var managed []string
			for _, p := range c.St.Projects.Rows {
				for _, m := range p.Members {
					if m.Account == a && m.Admin && !p.Removed {
						managed = append(managed, fmt.Sprint(p.ID))
					}
				}
			}

			if len(managed) > 0 {
				return nil, wire.Invalid("Unable to delete account [%d], because it manages the following "+
					"project(s): [%s]. Please, remove the account from these projects or demote it to a regular "+
					"project role first.", a.ID, strings.Join(managed, ", "))
			}

			if err := checkPrivilege(c, a, nil); err != nil {
				return nil, err
			}

			c.St.PurgeAccount(a, now)
			return wire.Success{Success: true}, nil
		},
	}, nil
}
