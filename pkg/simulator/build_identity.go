// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Accounts that every installation has in addition to admin: the owner of CloudStack's own objects, and the account
// of the baremetal plugin.
const (
	systemAccount    = "system"
	baremetalAccount = "baremetal-system-account"
)

// system reports whether the account owns CloudStack's own objects. No list of accounts shows it.
func (a *account) system() bool {
	return a.project == nil && a.domain.parent == nil && a.name == systemAccount
}

// accounts adds the world's accounts. The built-in accounts come first, so that they get the lowest internal ids.
func (b *builder) accounts() error {
	root := b.st.root()
	admin, ok := b.st.roles.find(func(r *role) bool { return r.name == "Root Admin" })
	if !ok {
		return fmt.Errorf("roles: there is no Root Admin")
	}
	list := slices.Clone(b.w.Accounts)
	for i, own := range []Account{
		{Name: systemAccount, Role: admin.name},
		{Name: "admin", Role: admin.name, Users: []User{{Name: "admin", Password: "password", FirstName: "Admin", LastName: "User"}}},
		{Name: baremetalAccount},
	} {
		at := slices.IndexFunc(list, func(a Account) bool {
			return strings.EqualFold(a.Name, own.Name) && (a.Domain == "" || a.Domain == "ROOT")
		})
		if at >= 0 {
			own = list[at]
			list = slices.Delete(list, at, at+1)
		}
		if own.Name != "admin" && len(own.Users) == 0 {
			own.Users = []User{{Name: own.Name, Password: uuid.NewString(), NoKeys: true}}
		}
		list = slices.Insert(list, i, own)
	}
	for i := range list {
		if err := b.account(root, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) account(root *domain, a *Account) error {
	dom := root
	if a.Domain != "" {
		d, ok := b.st.domainByPath(a.Domain)
		if !ok {
			return fmt.Errorf("account %q: domain %q is not among the world's domains", a.Name, a.Domain)
		}
		dom = d
	}
	roleName := a.Role
	if roleName == "" {
		roleName = roleUser
	}
	r, ok := b.st.roles.find(func(r *role) bool { return r.name == roleName })
	if !ok {
		return fmt.Errorf("account %q: role %q is not there; use Root Admin, Domain Admin, User or one of the world's roles", a.Name, roleName)
	}
	if a.Name == "" {
		return fmt.Errorf("accounts: an account has no name")
	}
	if _, dup := b.st.accountIn(dom, a.Name); dup {
		return fmt.Errorf("account %q: the name is used twice in domain %s", a.Name, dom.display())
	}
	if err := checkID(b.st.accounts, "account", a.Name, a.ID); err != nil {
		return err
	}
	if err := checkState("account", a.Name, a.State); err != nil {
		return err
	}
	if err := checkLimits("account "+a.Name, a.Limits); err != nil {
		return err
	}
	row := b.st.accounts.add(&account{
		entity: b.entity("account", a.ID, dom.path()+a.Name), name: a.Name, domain: dom, role: r, state: stateOr(a.State), limits: maps.Clone(a.Limits),
	})
	for i := range a.Users {
		if err := b.user(row, &a.Users[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) user(a *account, u *User) error {
	if u.Name == "" {
		return fmt.Errorf("account %q: a user has no name", a.name)
	}
	if _, dup := b.st.userIn(a.domain, u.Name); dup {
		return fmt.Errorf("user %q: the name is used twice in domain %s", u.Name, a.domain.display())
	}
	if err := checkID(b.st.users, "user", u.Name, u.ID); err != nil {
		return err
	}
	if err := checkState("user", u.Name, u.State); err != nil {
		return err
	}
	if (u.APIKey == "") != (u.SecretKey == "") || u.APIKey != "" && u.NoKeys {
		return fmt.Errorf("user %q: give apiKey and secretKey together, or neither, or noKeys alone", u.Name)
	}
	row := &user{
		entity: b.entity("user", u.ID, a.domain.path()+u.Name), username: u.Name, password: u.Password,
		firstName: cmp.Or(u.FirstName, u.Name), lastName: cmp.Or(u.LastName, u.Name), email: u.Email, account: a, state: stateOr(u.State),
		apiKey: u.APIKey, secretKey: u.SecretKey, timezone: "UTC", builtin: a.domain.parent == nil && u.Name == "admin",
	}
	if row.apiKey == "" && !u.NoKeys {
		row.apiKey, row.secretKey = newKeys()
		row.printKeys = true
	}
	if row.apiKey != "" {
		if other := b.st.apiKeys[row.apiKey]; other != nil {
			return fmt.Errorf("user %q: its apiKey is that of user %q", u.Name, other.username)
		}
		b.st.apiKeys[row.apiKey] = row
	}
	b.st.users.add(row)
	a.users = append(a.users, row)
	return nil
}

func stateOr(s string) string {
	if s == "" {
		return stateEnabled
	}
	return s
}

func checkState(kind, name, s string) error {
	switch s {
	case "", stateEnabled, stateDisabled, stateLocked:
		return nil
	}
	return fmt.Errorf("%s %q: state %q must be enabled, disabled or locked", kind, name, s)
}

func checkLimits(what string, limits map[string]int64) error {
	known := limitKeys()
	for k := range limits {
		if !known[k] {
			return fmt.Errorf("%s: limit %q is not known; use one of %s", what, k, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}

func (b *builder) projects() error {
	for i := range b.w.Projects {
		p := &b.w.Projects[i]
		if p.Name == "" {
			return fmt.Errorf("projects: a project has no name")
		}
		owner, err := b.accountNamed("project "+p.Name, p.Owner)
		if err != nil {
			return err
		}
		if err := checkID(b.st.projects, "project", p.Name, p.ID); err != nil {
			return err
		}
		if err := checkLimits("project "+p.Name, p.Limits); err != nil {
			return err
		}
		switch p.State {
		case "", projectActive, projectSuspended, projectDisabled:
		default:
			return fmt.Errorf("project %q: state %q must be Active, Suspended or Disabled", p.Name, p.State)
		}
		row := b.st.newProject(p.Name, p.DisplayText, owner, b.entity("project", p.ID, owner.domain.path()+p.Name))
		row.state = cmp.Or(p.State, projectActive)
		row.account.limits = maps.Clone(p.Limits)
		for _, m := range p.Members {
			a, err := b.accountNamed("project "+p.Name, m)
			if err != nil {
				return err
			}
			row.members = append(row.members, projectMember{account: a})
		}
	}
	return nil
}

// raiseDomainLimits raises the limits of domains where the world gives accounts or projects higher ones.
func (b *builder) raiseDomainLimits() error {
	for _, a := range b.st.accounts.rows {
		for key, n := range a.limits {
			k := limitKindOf(key)
			for d := a.domain; d.parent != nil; d = d.parent {
				if most := b.st.domainLimit(d, k); most < 0 || n >= 0 && n <= most {
					continue
				}
				if d.limits == nil {
					d.limits = map[string]int64{}
				}
				d.limits[key] = n
			}
		}
	}
	return nil
}

const (
	projectActive    = "Active"
	projectSuspended = "Suspended"
	projectDisabled  = "Disabled"
)

// newProject stores a project with its hidden account.
func (st *state) newProject(name, display string, owner *account, e entity) *project {
	if display == "" {
		display = name
	}
	p := &project{entity: e, name: name, display: display, domain: owner.domain, state: projectActive, members: []projectMember{{account: owner, admin: true}}}
	st.projects.add(p)
	p.account = &account{
		entity: entity{uuid: stableID("projectaccount", p.uuid), created: e.created}, name: fmt.Sprintf("PrjAcct-%s-%d", name, owner.domain.id),
		domain: owner.domain, role: owner.role, state: stateEnabled, project: p,
	}
	st.accounts.add(p.account)
	return p
}

// accountNamed finds an account by name. The name may be "domain/account" if several domains have an account of that
// name.
func (b *builder) accountNamed(what, name string) (*account, error) {
	if name == "" {
		return nil, fmt.Errorf("%s: give the account or project that owns it", what)
	}
	dom, short := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dom, short = name[:i], name[i+1:]
	}
	var hits []*account
	for _, a := range b.st.accounts.rows {
		if a.project != nil || !strings.EqualFold(a.name, short) {
			continue
		}
		if dom != "" {
			if d, ok := b.st.domainByPath(dom); !ok || d != a.domain {
				continue
			}
		}
		hits = append(hits, a)
	}
	switch len(hits) {
	case 0:
		return nil, fmt.Errorf("%s: account %q is not among the world's accounts", what, name)
	case 1:
		return hits[0], nil
	}
	return nil, fmt.Errorf("%s: several domains have an account %q; write it as DOMAIN/ACCOUNT", what, name)
}

// owner returns the account that an object's account or project field names.
func (b *builder) owner(what, accountName, projectName string) (*account, error) {
	switch {
	case accountName != "" && projectName != "":
		return nil, fmt.Errorf("%s: it belongs to an account or to a project, not to both", what)
	case projectName != "":
		p, ok := b.st.projects.find(func(p *project) bool { return strings.EqualFold(p.name, projectName) })
		if !ok {
			return nil, fmt.Errorf("%s: project %q is not among the world's projects", what, projectName)
		}
		return p.account, nil
	}
	return b.accountNamed(what, accountName)
}

// orInt returns n, or def if n is 0.
