// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Namespace is the UUID namespace of the ids that are derived from names.
var Namespace = uuid.MustParse("6f1f8a3e-5d0b-5f2e-9b44-0c8f8a3f7c11")

// StableID derives an id from kind and name, so that it is the same in every run of the same world.
func StableID(kind, name string) string {
	return uuid.NewSHA1(Namespace, []byte(kind+"\x00"+name)).String()
}

// NewKeys returns a random API key and secret key, long and URL-safe like CloudStack's.
func NewKeys() (apiKey, secretKey string) { return RandomKey(64), RandomKey(64) }

// Accounts that every installation has in addition to admin: the owner of CloudStack's own objects, and the account
// of the baremetal plugin.
const (
	SystemAccount    = "system"
	BaremetalAccount = "baremetal-system-account"
)

// System reports whether the account owns CloudStack's own objects. No list of accounts shows it.
func (a *Account) System() bool {
	return a.Project == nil && a.Domain.Parent == nil && a.Name == SystemAccount
}

// States of projects.
const (
	ProjectActive    = "Active"
	ProjectSuspended = "Suspended"
	ProjectDisabled  = "Disabled"
)

// NewProject stores a project with its hidden account.
func (st *State) NewProject(name, display string, owner *Account, e Entity) *Project {
	if display == "" {
		display = name
	}

	p := &Project{
		Entity:  e,
		Name:    name,
		Display: display,
		Domain:  owner.Domain,
		State:   ProjectActive,
		Members: []ProjectMember{{Account: owner, Admin: true}},
	}

	st.Projects.Add(p)
	p.Account = &Account{
		Entity: Entity{UUID: StableID("projectaccount", p.UUID), Created: e.Created},
		Name:   fmt.Sprintf("PrjAcct-%s-%d", name, owner.Domain.ID),
		Domain: owner.Domain, Role: owner.Role, State: StateEnabled, Project: p,
	}

	st.Accounts.Add(p.Account)
	return p
}

// fingerprintDomain returns the part of the network domain that CloudStack derives from the account.
func fingerprintDomain(a *Account) string { return fmt.Sprintf("%x", a.ID) }

// Caller is the authenticated sender of a request.
type Caller struct {
	User    *User
	Account *Account
	ByKey   bool // authenticated with an API key
}

// RootAdmin reports whether the caller belongs to a root admin account.
func (c Caller) RootAdmin() bool { return c.Account.RootAdmin() }

// Text formats a domain like CloudStack's exceptions.
func (d *Domain) Text() string {
	return fmt.Sprintf(`Domain {"id":%d,"name":"%s","path":"%s","uuid":"%s"}`, d.ID, d.Name,
		strings.ReplaceAll(d.Path(), "/", `\/`), d.UUID)
}

// Admin reports whether the account has an administrator role of any type.
func (a *Account) Admin() bool { return a.Project == nil && a.Role.Kind != RoleUser }

// Children returns the direct subdomains.
func (st *State) Children(d *Domain) []*Domain {
	var out []*Domain
	for _, o := range st.Domains.Rows {
		if o.Parent == d && !o.Removed {
			out = append(out, o)
		}
	}
	return out
}

// Find returns the membership of an account, or of one of its users.
func (p *Project) Find(a *Account, u *User) *ProjectMember {
	for i := range p.Members {
		if m := &p.Members[i]; m.Account == a && m.User == u {
			return m
		}
	}
	return nil
}

// Text formats a user like CloudStack's exceptions.
func (u *User) Text() string { return `User {"username":"` + u.Username + `","uuid":"` + u.UUID + `"}` }

// AccountText formats an account like CloudStack's exceptions.
func AccountText(a *Account) string {
	return fmt.Sprintf(`Account [{"accountName":"%s","id":%d,"uuid":"%s"}]`, a.Name, a.ID, a.UUID)
}

// RandomKey returns n random bytes as URL-safe text.
func RandomKey(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Domain is a node of the domain tree.
type Domain struct {
	Entity
	Name     string
	Parent   *Domain
	Limits   map[string]int64
	Inactive bool // being deleted
}

// Path returns the internal path: "/" for ROOT, "/k8s/" for a child.
func (d *Domain) Path() string {
	if d.Parent == nil {
		return "/"
	}
	return d.Parent.Path() + d.Name + "/"
}

// Display returns the path as answers show it: "ROOT", "ROOT/k8s".
func (d *Domain) Display() string {
	if d.Parent == nil {
		return "ROOT"
	}
	return d.Parent.Display() + "/" + d.Name
}

// Within reports whether d is root or a descendant of it.
func (d *Domain) Within(root *Domain) bool {
	for ; d != nil; d = d.Parent {
		if d == root {
			return true
		}
	}
	return false
}

// Role types, as spelled in the API.
const (
	RoleAdmin         = "Admin"
	RoleResourceAdmin = "ResourceAdmin"
	RoleDomainAdmin   = "DomainAdmin"
	RoleUser          = "User"
)

// AccountTypes maps role types to account types. A project's hidden account has type 5.
var AccountTypes = map[string]int{RoleUser: 0, RoleAdmin: 1, RoleDomainAdmin: 2, RoleResourceAdmin: 3}

const projectAccountType = 5

// Role defines which commands an account may call.
type Role struct {
	Entity
	Name, Kind, Description string
	Public, Builtin         bool
	Disabled                bool
	Rules                   []*RoleRule
}

// RoleRule allows or denies the commands that its pattern matches.
type RoleRule struct {
	UUID, Pattern, Description string
	Allow                      bool
}

// States of accounts and users.
const (
	StateEnabled  = "enabled"
	StateDisabled = "disabled"
	StateLocked   = "locked"
)

// Account owns resources. A project has its own hidden account.
type Account struct {
	Entity
	Tagged
	Name    string
	Domain  *Domain
	Role    *Role
	State   string
	Project *Project // set on the hidden account of a project
	Limits  map[string]int64
	Users   []*User
}

// Typ returns the account type as a number.
func (a *Account) Typ() int {
	if a.Project != nil {
		return projectAccountType
	}
	return AccountTypes[a.Role.Kind]
}

// RootAdmin reports whether the account is a root admin account.
func (a *Account) RootAdmin() bool { return a.Project == nil && a.Role.Kind == RoleAdmin }

// DomainAdmin reports whether the account is a domain admin account.
func (a *Account) DomainAdmin() bool { return a.Project == nil && a.Role.Kind == RoleDomainAdmin }

// Normal reports whether the account is neither a root admin nor a domain admin account.
func (a *Account) Normal() bool { return !a.RootAdmin() && !a.DomainAdmin() }

// User is a login of an account, with at most one pair of API keys.
type User struct {
	Entity
	Tagged
	Username, Password         string
	FirstName, LastName, Email string
	Timezone                   string
	Account                    *Account
	State                      string
	APIKey, SecretKey          string
	Failures                   int // failed logins in a row
	Builtin                    bool
	PrintKeys                  bool // the keys were generated at start, not specified in the world
}

// Project is a group of accounts with one hidden account that owns the project's resources.
type Project struct {
	Entity
	Tagged
	Name, Display string
	Domain        *Domain
	Account       *Account
	Members       []ProjectMember
	State         string
}

// ProjectMember is a member of a project: an account, or one user of an account.
type ProjectMember struct {
	Account *Account
	User    *User // nil: all users of the account
	Admin   bool
}

// Membership returns the caller's membership in the project: that of the user, or otherwise that of the account.
func (p *Project) Membership(c Caller) *ProjectMember {
	var found *ProjectMember
	for i := range p.Members {
		m := &p.Members[i]
		if m.Account != c.Account {
			continue
		}
		if m.User == c.User && m.User != nil {
			return m
		}
		if m.User == nil {
			found = m
		}
	}
	return found
}

// Admits reports whether the caller is a member of the project.
func (p *Project) Admits(c Caller) bool { return p.Membership(c) != nil }

// Owner returns the first admin, or nil if the project has no admin any more.
func (p *Project) Owner() *Account {
	for _, m := range p.Members {
		if m.Admin {
			return m.Account
		}
	}
	return nil
}

// AccountIn finds an account of a domain by name (case-insensitive), without hidden accounts of projects.
func (st *State) AccountIn(d *Domain, name string) (*Account, bool) {
	return st.Accounts.Find(func(a *Account) bool {
		return a.Project == nil && a.Domain == d && strings.EqualFold(a.Name, name)
	})
}

// UserIn finds a user of a domain by login name.
func (st *State) UserIn(d *Domain, name string) (*User, bool) {
	return st.Users.Find(func(u *User) bool { return u.Account.Domain == d && strings.EqualFold(u.Username, name) })
}

// DomainByPath finds a domain by "/a/b", "ROOT/a/b", "a/b", "/" or "".
func (st *State) DomainByPath(path string) (*Domain, bool) {
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
	return st.Domains.Find(func(d *Domain) bool { return strings.EqualFold(d.Path(), want) })
}

// Root returns the domain ROOT.
func (st *State) Root() *Domain { return st.Domains.Rows[0] }

// AccountUsers returns the users of the account that are not removed.
func (a *Account) AccountUsers() []*User {
	var out []*User
	for _, u := range a.Users {
		if !u.Removed {
			out = append(out, u)
		}
	}
	return out
}
