// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// domain is a node of the domain tree.
type domain struct {
	entity
	name          string
	parent        *domain
	networkDomain string
	limits        map[string]int64
	inactive      bool // being deleted
}

// path returns the internal path: "/" for ROOT, "/k8s/" for a child.
func (d *domain) path() string {
	if d.parent == nil {
		return "/"
	}
	return d.parent.path() + d.name + "/"
}

// display returns the path as answers show it: "ROOT", "ROOT/k8s".
func (d *domain) display() string {
	if d.parent == nil {
		return "ROOT"
	}
	return d.parent.display() + "/" + d.name
}

// within reports whether d is root or a descendant of it.
func (d *domain) within(root *domain) bool {
	for ; d != nil; d = d.parent {
		if d == root {
			return true
		}
	}
	return false
}

// Role types, as spelled in the API.
const (
	roleAdmin         = "Admin"
	roleResourceAdmin = "ResourceAdmin"
	roleDomainAdmin   = "DomainAdmin"
	roleUser          = "User"
)

// accountTypes maps role types to account types. A project's hidden account has type 5.
var accountTypes = map[string]int{roleUser: 0, roleAdmin: 1, roleDomainAdmin: 2, roleResourceAdmin: 3}

const projectAccountType = 5

// role defines which commands an account may call.
type role struct {
	entity
	name, kind, description string
	public, builtin         bool
	disabled                bool
	rules                   []*roleRule
}

// roleRule allows or denies the commands that its pattern matches.
type roleRule struct {
	uuid, pattern, description string
	allow                      bool
}

const (
	stateEnabled  = "enabled"
	stateDisabled = "disabled"
	stateLocked   = "locked"
)

// account owns resources. A project has its own hidden account.
type account struct {
	entity
	tagged
	name          string
	domain        *domain
	role          *role
	state         string
	project       *project // set on the hidden account of a project
	networkDomain string
	limits        map[string]int64
	keyAccess     string // "" (inherit), enabled, disabled
	details       map[string]string
	users         []*user
}

func (a *account) typ() int {
	if a.project != nil {
		return projectAccountType
	}
	return accountTypes[a.role.kind]
}

func (a *account) rootAdmin() bool   { return a.project == nil && a.role.kind == roleAdmin }
func (a *account) domainAdmin() bool { return a.project == nil && a.role.kind == roleDomainAdmin }
func (a *account) normal() bool      { return !a.rootAdmin() && !a.domainAdmin() }

// user is a login of an account, with at most one pair of API keys.
type user struct {
	entity
	tagged
	username, password         string
	firstName, lastName, email string
	timezone                   string
	account                    *account
	state                      string
	apiKey, secretKey          string
	keyAccess                  string // inherit, enabled, disabled
	failures                   int    // failed logins in a row
	builtin                    bool
	printKeys                  bool // the keys were generated at start, not specified in the world
}

// project is a group of accounts with one hidden account that owns the project's resources.
type project struct {
	entity
	tagged
	name, display string
	domain        *domain
	account       *account
	members       []projectMember
	state         string
}

// projectMember is a member of a project: an account, or one user of an account.
type projectMember struct {
	account *account
	user    *user // nil: all users of the account
	admin   bool
	role    *projectRole // nil: everything that the role of the account allows
}

// membership returns the caller's membership in the project: that of the user, or else that of the account.
func (p *project) membership(c caller) *projectMember {
	var found *projectMember
	for i := range p.members {
		m := &p.members[i]
		if m.account != c.account {
			continue
		}
		if m.user == c.user && m.user != nil {
			return m
		}
		if m.user == nil {
			found = m
		}
	}
	return found
}

func (p *project) admits(c caller) bool { return p.membership(c) != nil }

// owner returns the first admin, or nil if the project has no admin any more.
func (p *project) owner() *account {
	for _, m := range p.members {
		if m.admin {
			return m.account
		}
	}
	return nil
}

// projectRole restricts what members may do in their project.
type projectRole struct {
	entity
	project           *project
	name, description string
	rules             []*roleRule
}

// accountIn finds an account of a domain by name (case-insensitive), without hidden accounts of projects.
func (st *state) accountIn(d *domain, name string) (*account, bool) {
	return st.accounts.find(func(a *account) bool {
		return a.project == nil && a.domain == d && strings.EqualFold(a.name, name)
	})
}

// userIn finds a user of a domain by login name.
func (st *state) userIn(d *domain, name string) (*user, bool) {
	return st.users.find(func(u *user) bool { return u.account.domain == d && strings.EqualFold(u.username, name) })
}

// domainByPath finds a domain by "/a/b", "ROOT/a/b", "a/b", "/" or "".
func (st *state) domainByPath(path string) (*domain, bool) {
	path = strings.Trim(path, "/")
	if strings.EqualFold(path, "ROOT") {
		path = ""
	} else if len(path) > 5 && strings.EqualFold(path[:5], "ROOT/") {
		path = path[5:]
	}
	want := "/"
	if path != "" {
		want = "/" + path + "/"
	}
	return st.domains.find(func(d *domain) bool { return strings.EqualFold(d.path(), want) })
}

// root returns the domain ROOT.
func (st *state) root() *domain { return st.domains.rows[0] }

// accountUsers returns the users of the account that are not removed.
func (a *account) accountUsers() []*user {
	var out []*user
	for _, u := range a.users {
		if !u.removed {
			out = append(out, u)
		}
	}
	return out
}
