// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
)

var accountCommands = []command{
	{name: "listAccounts", refs: map[string]refKind{"id": refAccount}, run: listAccounts},
	{name: "createAccount", write: true, run: createAccount, order: []string{"account", "accounttype", "roleid", "domainid", "email", "firstname", "lastname", "password", "username"}},
	{name: "listDomains", refs: map[string]refKind{"id": refDomain}, run: listDomains},
}

// accountView is the object account.
type accountView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	AccountType int    `json:"accounttype"`
	RoleID      string `json:"roleid"`
	RoleType    string `json:"roletype"`
	RoleName    string `json:"rolename"`
	DomainID    string `json:"domainid"`
	Domain      string `json:"domain"`
	DomainPath  string `json:"domainpath"`
	Received    *int   `json:"receivedbytes,omitempty"` // there once the account has had networks
	Sent        *int   `json:"sentbytes,omitempty"`
	*counters
	State         string     `json:"state"`
	Created       *timestamp `json:"created"`
	NetworkDomain string     `json:"networkdomain,omitempty"`
	Users         []userView `json:"user"`
	IsDefault     bool       `json:"isdefault"`
	Groups        []struct{} `json:"groups"`
	KeyAccess     string     `json:"apikeyaccess,omitempty"`
}

func (c *call) viewAccount(a *account) accountView {
	n := c.st.count(a)
	v := accountView{
		ID: a.uuid, Name: a.name, AccountType: a.typ(), RoleID: a.role.uuid, RoleType: a.role.kind, RoleName: a.role.name, DomainID: a.domain.uuid,
		Domain: a.domain.name, DomainPath: a.domain.display(), counters: &n, State: a.state, Created: stamp(a.created), NetworkDomain: a.networkDomain,
		IsDefault: a.domain.parent == nil && a.name == "admin", Groups: []struct{}{}, Users: []userView{}, KeyAccess: c.keyAccess(""),
	}
	if n.NetworkTotal > 0 {
		v.Received, v.Sent = new(int), new(int)
	}
	for _, u := range a.accountUsers() {
		v.Users = append(v.Users, c.viewUser(u))
	}
	return v
}

// identityScope is the owner filter of accounts and users: a normal user sees only the own account.
func (c *call) identityScope() (scope, *apiError) {
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	return func(a *account) bool { return a.project == nil && in(a) }, nil
}

func listAccounts(c *call) (any, error) {
	in, err := c.identityScope()
	if err != nil {
		return nil, err
	}
	var out []*account
	for _, a := range c.st.accounts.rows {
		switch {
		case a.removed || !in(a) || !matches(c, "id", a):
		case c.has("name") && !strings.EqualFold(c.str("name"), a.name), c.has("keyword") && !like(a.name, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), a.state), c.has("accounttype") && c.integer("accounttype") != a.typ():
		case c.has("iscleanuprequired") && c.boolean("iscleanuprequired"):
		default:
			out = append(out, a)
		}
	}
	return page(c, "account", out, c.viewAccount)
}

func createAccount(c *call) (any, error) {
	if !c.has("accounttype") && !c.given("roleid") {
		return nil, paramError("Neither account type and role ID are not provided")
	}
	d := c.caller.account.domain
	if c.given("domainid") {
		if d = arg[*domain](c, "domainid"); d == nil || d.removed {
			return nil, invalid("The domain %s does not exist; unable to create account", c.str("domainid"))
		}
	}
	if !c.domainAccess(d) {
		return nil, denied()
	}
	r := arg[*role](c, "roleid")
	if r == nil {
		r = c.st.builtinRole(c.integer("accounttype"))
	}
	if r == nil {
		return nil, paramError("Account type %s is not known", c.str("accounttype"))
	}
	if r.kind == roleAdmin && !c.caller.rootAdmin() {
		return nil, denied()
	}
	name := c.str("account")
	if name == "" {
		name = c.str("username")
	}
	if _, taken := c.st.userIn(d, c.str("username")); taken {
		return nil, invalid("The user %s already exists in domain %s", c.str("username"), d.text())
	}
	if _, taken := c.st.accountIn(d, name); taken {
		return nil, invalid("The specified account: %s already exists", name)
	}
	a := &account{
		entity: entity{uuid: c.str("accountid"), created: c.now}, name: name, domain: d, role: r, state: stateEnabled, networkDomain: c.str("networkdomain"),
	}
	c.st.accounts.add(a)
	c.st.newUser(c, a)
	return map[string]any{"account": c.viewAccount(a)}, nil
}

// text is how exceptions print a domain.
func (d *domain) text() string {
	return fmt.Sprintf(`Domain {"id":%d,"name":"%s","path":"%s","uuid":"%s"}`, d.id, d.name, strings.ReplaceAll(d.path(), "/", `\/`), d.uuid)
}

// builtinRole is the default role of an account type.
func (st *state) builtinRole(typ int) *role {
	for _, r := range st.roles.rows {
		if r.builtin && accountTypes[r.kind] == typ {
			return r
		}
	}
	return nil
}

// newUser adds the user that createAccount and createUser describe.
func (st *state) newUser(c *call, a *account) *user {
	u := &user{
		entity: entity{uuid: c.str("userid"), created: c.now}, username: c.str("username"), password: c.str("password"), firstName: c.str("firstname"),
		lastName: c.str("lastname"), email: c.str("email"), timezone: c.str("timezone"), account: a, state: stateEnabled,
	}
	st.users.add(u)
	a.users = append(a.users, u)
	return u
}

// domainView is the object domain.
type domainView struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Level      int        `json:"level"`
	ParentID   string     `json:"parentdomainid,omitempty"`
	ParentName string     `json:"parentdomainname,omitempty"`
	HasChild   bool       `json:"haschild"`
	Path       string     `json:"path"`
	State      string     `json:"state"`
	Created    *timestamp `json:"created"`
}

func listDomains(c *call) (any, error) {
	me := c.caller.account.domain
	var out []*domain
	for _, d := range c.st.domains.rows {
		visible := d == me || d.within(me) && (c.boolOr("listall", true) || c.given("id"))
		switch {
		case d.removed || !visible || !matches(c, "id", d):
		case c.has("name") && !strings.EqualFold(c.str("name"), d.name), c.has("keyword") && !like(d.name, c.str("keyword")):
		case c.has("level") && c.integer("level") != d.level():
		default:
			out = append(out, d)
		}
	}
	return page(c, "domain", out, c.viewDomain)
}

func (d *domain) level() int {
	n := 0
	for ; d.parent != nil; d = d.parent {
		n++
	}
	return n
}

func (c *call) viewDomain(d *domain) domainView {
	v := domainView{ID: d.uuid, Name: d.name, Level: d.level(), Path: d.display(), State: "Active", Created: stamp(d.created)}
	if d.parent != nil {
		v.ParentID, v.ParentName = d.parent.uuid, d.parent.name
	}
	_, v.HasChild = c.st.domains.find(func(o *domain) bool { return o.parent == d })
	return v
}
