// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// accounts adds the world's accounts. The built-in accounts come first, so that they get the lowest internal ids.
func (b *builder) accounts() error {
	root := b.st.Root()
	admin, ok := b.st.Roles.Find(func(r *store.Role) bool { return r.Name == "Root Admin" })
	if !ok {
		return fmt.Errorf("roles: there is no Root Admin")
	}
	list := slices.Clone(b.w.Accounts)
	for i, own := range []Account{
		{Name: store.SystemAccount, Role: admin.Name},
		{Name: "admin", Role: admin.Name, Users: []User{{Name: "admin", Password: "password", FirstName: "Admin", LastName: "User"}}},
		{Name: store.BaremetalAccount},
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

func (b *builder) account(root *store.Domain, a *Account) error {
	dom := root
	if a.Domain != "" {
		d, ok := b.st.DomainByPath(a.Domain)
		if !ok {
			return fmt.Errorf("account %q: domain %q is not among the world's domains", a.Name, a.Domain)
		}
		dom = d
	}
	roleName := a.Role
	if roleName == "" {
		roleName = store.RoleUser
	}
	r, ok := b.st.Roles.Find(func(r *store.Role) bool { return r.Name == roleName })
	if !ok {
		return fmt.Errorf("account %q: role %q is not there; use Root Admin, Domain Admin, User or one of the world's roles", a.Name, roleName)
	}
	if a.Name == "" {
		return fmt.Errorf("accounts: an account has no name")
	}
	if _, dup := b.st.AccountIn(dom, a.Name); dup {
		return fmt.Errorf("account %q: the name is used twice in domain %s", a.Name, dom.Display())
	}
	if err := checkID(b.st.Accounts, "account", a.Name, a.ID); err != nil {
		return err
	}
	if err := checkState("account", a.Name, a.State); err != nil {
		return err
	}
	if err := checkLimits("account "+a.Name, a.Limits); err != nil {
		return err
	}
	row := b.st.Accounts.Add(&store.Account{
		Entity: b.entity("account", a.ID, dom.Path()+a.Name), Name: a.Name, Domain: dom, Role: r, State: stateOr(a.State), Limits: maps.Clone(a.Limits),
	})
	for i := range a.Users {
		if err := b.user(row, &a.Users[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) user(a *store.Account, u *User) error {
	if u.Name == "" {
		return fmt.Errorf("account %q: a user has no name", a.Name)
	}
	if _, dup := b.st.UserIn(a.Domain, u.Name); dup {
		return fmt.Errorf("user %q: the name is used twice in domain %s", u.Name, a.Domain.Display())
	}
	if err := checkID(b.st.Users, "user", u.Name, u.ID); err != nil {
		return err
	}
	if err := checkState("user", u.Name, u.State); err != nil {
		return err
	}
	if (u.APIKey == "") != (u.SecretKey == "") || u.APIKey != "" && u.NoKeys {
		return fmt.Errorf("user %q: give apiKey and secretKey together, or neither, or noKeys alone", u.Name)
	}
	row := &store.User{
		Entity: b.entity("user", u.ID, a.Domain.Path()+u.Name), Username: u.Name, Password: u.Password,
		FirstName: cmp.Or(u.FirstName, u.Name), LastName: cmp.Or(u.LastName, u.Name), Email: u.Email, Account: a, State: stateOr(u.State),
		APIKey: u.APIKey, SecretKey: u.SecretKey, Timezone: "UTC", Builtin: a.Domain.Parent == nil && u.Name == "admin",
	}
	if row.APIKey == "" && !u.NoKeys {
		row.APIKey, row.SecretKey = store.NewKeys()
		row.PrintKeys = true
	}
	if row.APIKey != "" {
		if other := b.st.APIKeys[row.APIKey]; other != nil {
			return fmt.Errorf("user %q: its apiKey is that of user %q", u.Name, other.Username)
		}
		b.st.APIKeys[row.APIKey] = row
	}
	b.st.Users.Add(row)
	a.Users = append(a.Users, row)
	return nil
}

func stateOr(s string) string {
	if s == "" {
		return store.StateEnabled
	}
	return s
}

func checkState(kind, name, s string) error {
	switch s {
	case "", store.StateEnabled, store.StateDisabled, store.StateLocked:
		return nil
	}
	return fmt.Errorf("%s %q: state %q must be enabled, disabled or locked", kind, name, s)
}

func checkLimits(what string, limits map[string]int64) error {
	known := settings.LimitKeys()
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
		if err := checkID(b.st.Projects, "project", p.Name, p.ID); err != nil {
			return err
		}
		if err := checkLimits("project "+p.Name, p.Limits); err != nil {
			return err
		}
		switch p.State {
		case "", store.ProjectActive, store.ProjectSuspended, store.ProjectDisabled:
		default:
			return fmt.Errorf("project %q: state %q must be Active, Suspended or Disabled", p.Name, p.State)
		}
		row := b.st.NewProject(p.Name, p.DisplayText, owner, b.entity("project", p.ID, owner.Domain.Path()+p.Name))
		row.State = cmp.Or(p.State, store.ProjectActive)
		row.Account.Limits = maps.Clone(p.Limits)
		for _, m := range p.Members {
			a, err := b.accountNamed("project "+p.Name, m)
			if err != nil {
				return err
			}
			row.Members = append(row.Members, store.ProjectMember{Account: a})
		}
	}
	return nil
}

// raiseDomainLimits raises the limits of domains where the world gives accounts or projects higher ones.
func (b *builder) raiseDomainLimits() error {
	for _, a := range b.st.Accounts.Rows {
		for key, n := range a.Limits {
			k := settings.LimitKindOf(key)
			for d := a.Domain; d.Parent != nil; d = d.Parent {
				if most := b.st.DomainLimit(d, k); most < 0 || n >= 0 && n <= most {
					continue
				}
				if d.Limits == nil {
					d.Limits = map[string]int64{}
				}
				d.Limits[key] = n
			}
		}
	}
	return nil
}

// accountNamed finds an account by name. The name may be "domain/account" if several domains have an account of that
// name.
func (b *builder) accountNamed(what, name string) (*store.Account, error) {
	if name == "" {
		return nil, fmt.Errorf("%s: give the account or project that owns it", what)
	}
	dom, short := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dom, short = name[:i], name[i+1:]
	}
	var hits []*store.Account
	for _, a := range b.st.Accounts.Rows {
		if a.Project != nil || !strings.EqualFold(a.Name, short) {
			continue
		}
		if dom != "" {
			if d, ok := b.st.DomainByPath(dom); !ok || d != a.Domain {
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
func (b *builder) owner(what, accountName, projectName string) (*store.Account, error) {
	switch {
	case accountName != "" && projectName != "":
		return nil, fmt.Errorf("%s: it belongs to an account or to a project, not to both", what)
	case projectName != "":
		p, ok := b.st.Projects.Find(func(p *store.Project) bool { return strings.EqualFold(p.Name, projectName) })
		if !ok {
			return nil, fmt.Errorf("%s: project %q is not among the world's projects", what, projectName)
		}
		return p.Account, nil
	}
	return b.accountNamed(what, accountName)
}
