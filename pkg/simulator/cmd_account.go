// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

var accountRefs = map[string]refKind{"id": refAccount}

// accountView is the API object account.
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
	Received    *int   `json:"receivedbytes,omitempty"` // shown once the account has had networks
	Sent        *int   `json:"sentbytes,omitempty"`
	*counters
	State         string            `json:"state"`
	Created       *timestamp        `json:"created"`
	NetworkDomain string            `json:"networkdomain,omitempty"`
	Users         []userView        `json:"user"`
	IsDefault     bool              `json:"isdefault"`
	Groups        []struct{}        `json:"groups"`
	KeyAccess     string            `json:"apikeyaccess,omitempty"`
	Details       map[string]string `json:"accountdetails,omitempty"`
	jobRef
}

func (c *call) viewAccount(a *account) accountView {
	v := c.plainAccount(a)
	n := c.st.count(a)
	v.counters = &n
	if n.NetworkTotal > 0 {
		v.Received, v.Sent = new(int), new(int)
	}
	return v
}

// plainAccount returns the view without the resource counters.
func (c *call) plainAccount(a *account) accountView {
	v := accountView{
		ID: a.uuid, Name: a.name, AccountType: a.typ(), RoleID: a.role.uuid, RoleType: a.role.kind, RoleName: a.role.name, DomainID: a.domain.uuid,
		Domain: a.domain.name, DomainPath: a.domain.display(), State: a.state, Created: stamp(a.created), NetworkDomain: a.networkDomain,
		IsDefault: a.domain.parent == nil && a.name == "admin", Groups: []struct{}{}, Users: []userView{}, KeyAccess: c.keyAccess(a.keyAccess),
		Details: a.details, jobRef: c.st.jobRef(a),
	}
	for _, u := range a.accountUsers() {
		v.Users = append(v.Users, c.viewUser(u))
	}
	return v
}

// accountScope returns the filter of listAccounts: users see their own account; admins see their own, or with a
// domain or listall the accounts of the domain.
func (c *call) accountScope() (scope, *apiError) {
	me := c.caller.account
	if c.given("id") {
		a := arg[*account](c, "id")
		if a == nil || a.removed || a.project != nil {
			return nil, invalid("Unable to find account by id %d", c.refs["id"].id)
		}
		if !c.access(a) {
			return nil, denied()
		}
	}
	d := arg[*domain](c, "domainid")
	if c.given("domainid") {
		if d == nil || d.removed {
			return nil, invalid("Domain id=%d doesn't exist", c.refs["domainid"].id)
		}
		if !c.domainAccess(d) {
			return nil, denied()
		}
		if name, ok := c.args["name"]; ok {
			a, found := c.st.accountIn(d, name)
			if !found {
				return nil, invalid("Unable to find account by name %s in domain %d", name, d.id)
			}
			if !c.access(a) {
				return nil, denied()
			}
		}
	}
	deep := c.boolean("isrecursive")
	switch {
	case c.given("id"):
		return func(*account) bool { return true }, nil
	case !me.admin() && c.boolean("listall") && c.st.boolSetting("allow.user.view.all.domain.accounts"):
		d, deep = me.domain, false
	case me.admin() && c.boolean("listall") && d == nil:
		d, deep = me.domain, true
	case !me.admin() || d == nil:
		return func(a *account) bool { return a == me }, nil
	}
	return func(a *account) bool { return a.domain == d || deep && a.domain.within(d) }, nil
}

func listAccounts(c *call) (any, error) {
	counted, err := c.resourceDetails()
	if err != nil {
		return nil, err
	}
	in, err := c.accountScope()
	if err != nil {
		return nil, err
	}
	if err := c.checkKeyAccess(); err != nil {
		return nil, err
	}
	var out []*account
	for _, a := range c.st.accounts.rows {
		switch {
		case a.removed || a.project != nil || a.system() || !in(a) || !matches(c, "id", a), a.domainAdmin() && !c.caller.account.admin():
		case c.has("name") && !strings.EqualFold(c.str("name"), a.name), c.has("keyword") && !like(a.name, c.str("keyword")) && !like(a.state, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), a.state), c.has("accounttype") && c.integer("accounttype") != a.typ():
		case c.has("iscleanuprequired") && c.boolean("iscleanuprequired"), !c.keyAccessMatches(a.keyAccess):
		default:
			out = append(out, a)
		}
	}
	return page(c, "account", out, func(a *account) accountView {
		if counted {
			return c.viewAccount(a)
		}
		return c.plainAccount(a)
	})
}

func createAccount(c *call) (any, error) {
	if !c.has("accounttype") && !c.given("roleid") {
		return nil, paramError("Neither account type and role ID are not provided")
	}
	r, err := c.newAccountRole()
	if err != nil {
		return nil, err
	}
	d := c.st.root()
	if c.given("domainid") {
		if d = arg[*domain](c, "domainid"); d == nil || d.removed {
			return nil, invalid("The domain %d does not exist; unable to create account", c.refs["domainid"].id)
		}
	}
	switch {
	case c.str("firstname") == "":
		return nil, invalid("Firstname is empty")
	case c.str("lastname") == "":
		return nil, invalid("Lastname is empty")
	case !c.domainAccess(d):
		return nil, denied()
	}
	name := c.str("account")
	if name == "" {
		name = c.str("username")
	}
	if _, taken := c.st.userIn(d, c.str("username")); taken {
		return nil, invalid("The user %s already exists in domain %s", c.str("username"), d.text())
	}
	if n := c.str("networkdomain"); n != "" && !validDomainName(n) {
		return nil, badNetworkDomain()
	}
	if d.inactive {
		return nil, c.internal(csRuntime, "The account cannot be created as domain %s is being deleted", d.name)
	}
	if r.kind == roleAdmin && d.parent != nil {
		return nil, invalid("Invalid account type ADMIN given for an account in domain %s; unable to create user of admin role type in non-ROOT domain.", d.text())
	}
	if _, taken := c.st.accountIn(d, name); taken {
		return nil, invalid("The specified account: %s already exists", name)
	}
	for _, p := range []string{"accountid", "userid"} {
		if err := c.checkNewID(p); err != nil {
			return nil, err
		}
	}
	if err := c.checkEscalation(r); err != nil {
		return nil, err
	}
	a := &account{
		entity: entity{uuid: c.str("accountid"), created: c.now}, name: name, domain: d, role: r, state: stateEnabled, networkDomain: c.str("networkdomain"),
		details: c.mapArg("accountdetails"),
	}
	c.st.accounts.add(a)
	u := c.st.newUser(c, a)
	c.note("USER.CREATE", "Successfully completed creating User. User Id: "+u.uuid, "User", u)
	return accountAnswer{c.viewAccount(a)}, nil
}

type accountAnswer struct {
	Account accountView `json:"account"`
}

// newAccountRole returns the role of a new account: roleid, or else the default role of the account type.
func (c *call) newAccountRole() (*role, error) {
	r := arg[*role](c, "roleid")
	if c.given("roleid") {
		if r == nil || r.removed || r.kind == roleAdmin && !c.caller.rootAdmin() {
			return nil, paramError("Invalid role ID provided")
		}
		return r, nil
	}
	if r = c.st.builtinRole(c.integer("accounttype")); r == nil {
		return nil, paramError("Invalid account type provided")
	}
	return r, nil
}

// checkNewID refuses an id that the caller specifies for a new object if the id is malformed or in use.
func (c *call) checkNewID(param string) error {
	id, ok := c.args[param]
	if !ok {
		return nil
	}
	if _, err := uuid.Parse(id); err != nil {
		return invalid("UUID: %s doesn't follow the UUID format", id)
	}
	_, account := c.st.accounts.get(id)
	_, user := c.st.users.get(id)
	if account || user {
		return c.internal(csRuntime, "Entity already exists ")
	}
	return nil
}

// mapArg converts a map parameter such as details[0].key=value to a map.
func (c *call) mapArg(name string) map[string]string {
	entries := c.maps[name]
	if entries == nil {
		return nil
	}
	out := map[string]string{}
	for _, e := range entries {
		if k, ok := e["key"]; ok && len(e) == 2 {
			out[k] = e["value"]
			continue
		}
		for k, v := range e {
			out[k] = v
		}
	}
	return out
}

// checkEscalation refuses to assign a role that allows more than the caller's own role.
func (c *call) checkEscalation(r *role) error {
	me := c.caller.account
	if r == me.role || me.rootAdmin() && me.role.id == 1 {
		return nil
	}
	for i := range c.server.cat.APIs {
		if api := &c.server.cat.APIs[i]; r.allows(api) && !me.role.allows(api) {
			return errf(codeAccount, csPermission, "User of Account %s and domain %s can not create an account with access to more privileges they have themself.",
				accountText(me), me.domain.text())
		}
	}
	return nil
}

// text formats a domain like CloudStack's exceptions.
func (d *domain) text() string {
	return fmt.Sprintf(`Domain {"id":%d,"name":"%s","path":"%s","uuid":"%s"}`, d.id, d.name, strings.ReplaceAll(d.path(), "/", `\/`), d.uuid)
}

// builtinRole returns the default role of an account type.
func (st *state) builtinRole(typ int) *role {
	for _, r := range st.roles.rows {
		if r.builtin && accountTypes[r.kind] == typ {
			return r
		}
	}
	return nil
}

// newUser adds the user that the parameters of createAccount or createUser describe.
func (st *state) newUser(c *call, a *account) *user {
	u := &user{
		entity: entity{uuid: c.str("userid"), created: c.now}, username: c.str("username"), password: c.str("password"), firstName: c.str("firstname"),
		lastName: c.str("lastname"), email: c.str("email"), timezone: c.str("timezone"), account: a, state: stateEnabled,
	}
	st.users.add(u)
	a.users = append(a.users, u)
	return u
}
