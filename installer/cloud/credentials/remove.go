// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Removal is the plan that removes what csccm made.
type Removal struct {
	Steps []RemovalStep
	// Stays says what is not removed, and why.
	Stays []string
	// APIKeys are those that end.
	APIKeys []string
	// Gone are objects of the list that CloudStack does not have any more.
	Gone []MadeObject
}

// RemovalStep removes one object.
type RemovalStep struct {
	Text   string
	object MadeObject
	with   []MadeObject // objects that go with it
	id     string
}

// PlanRemoval decides what of the list is removed: users and keys always; an account if nothing but csccm's own users
// is in it, because deleting an account deletes all that it owns; a role if no account uses it.
func PlanRemoval(ctx context.Context, admin *cloudapi.Client, m *Made) (*Removal, error) {
	r := &Removal{}
	users, err := admin.ListUsers(ctx, "", "", "")
	if err != nil {
		return nil, explain("listing users", err)
	}
	accounts, err := admin.ListAccounts(ctx, "", "")
	if err != nil {
		return nil, explain("listing accounts", err)
	}
	deleted := r.accounts(m, users, accounts)
	for _, o := range m.Objects {
		if o.Kind == MadeUser || o.Kind == MadeKeys {
			r.user(o, users, deleted)
		}
	}
	for _, o := range m.Objects {
		if o.Kind != MadeRole {
			continue
		}
		roles, err := admin.ListRoles(ctx, o.Name)
		if err != nil {
			return nil, explain("listing roles", err)
		}
		r.role(o, roles, accounts, deleted)
	}
	return r, nil
}

// accounts plans the accounts, and returns the ids of those that are deleted.
func (r *Removal) accounts(m *Made, users []cloudapi.User, accounts []cloudapi.Account) map[string]bool {
	deleted := map[string]bool{}
	for _, o := range m.Objects {
		if o.Kind != MadeAccount {
			continue
		}
		i := slices.IndexFunc(accounts, func(a cloudapi.Account) bool {
			return a.Name == o.Name && a.DomainID == o.DomainID && (o.ID == "" || a.ID == o.ID)
		})
		if i < 0 {
			r.Gone = append(r.Gone, o)
			continue
		}
		var with []MadeObject
		var others []string
		for _, u := range users {
			if u.Account != o.Name || u.DomainID != o.DomainID {
				continue
			}
			at := slices.IndexFunc(m.Objects, func(x MadeObject) bool {
				return x.Kind == MadeUser && x.Name == u.Username && x.Account == o.Name && x.DomainID == o.DomainID
			})
			if at < 0 {
				others = append(others, fmt.Sprintf("user %q", u.Username))
				continue
			}
			with = append(with, m.Objects[at])
			r.key(u)
		}
		for _, name := range slices.Sorted(maps.Keys(accounts[i].Resources)) {
			others = append(others, counted(accounts[i].Resources[name], name))
		}
		if len(others) > 0 {
			r.Stays = append(r.Stays, fmt.Sprintf("%s: it also has %s", o, strings.Join(others, ", ")))
			continue
		}
		deleted[accounts[i].ID] = true
		text := o.String()
		for _, u := range with {
			text += fmt.Sprintf(", with user %q", u.Name)
		}
		r.Steps = append(r.Steps, RemovalStep{Text: text, object: o, with: with, id: accounts[i].ID})
	}
	return deleted
}

func (r *Removal) user(o MadeObject, users []cloudapi.User, deleted map[string]bool) {
	i := slices.IndexFunc(users, func(u cloudapi.User) bool {
		return u.Username == o.Name && u.Account == o.Account && u.DomainID == o.DomainID && (o.ID == "" || u.ID == o.ID)
	})
	switch {
	case i < 0:
		r.Gone = append(r.Gone, o)
	case deleted[users[i].AccountID]:
	default:
		r.key(users[i])
		r.Steps = append(r.Steps, RemovalStep{Text: o.String(), object: o, id: users[i].ID})
	}
}

func (r *Removal) key(u cloudapi.User) {
	if u.APIKey != "" {
		r.APIKeys = append(r.APIKeys, u.APIKey)
	}
}

func (r *Removal) role(o MadeObject, roles []cloudapi.Role, accounts []cloudapi.Account, deleted map[string]bool) {
	i := slices.IndexFunc(roles, func(x cloudapi.Role) bool { return x.Name == o.Name && (o.ID == "" || x.ID == o.ID) })
	if i < 0 {
		r.Gone = append(r.Gone, o)
		return
	}
	var by []string
	for _, a := range accounts {
		if a.RoleID == roles[i].ID && !deleted[a.ID] {
			by = append(by, fmt.Sprintf("account %q", a.Name))
		}
	}
	if len(by) > 0 {
		r.Stays = append(r.Stays, fmt.Sprintf("%s: %s has it", o, some(by)))
		return
	}
	r.Steps = append(r.Steps, RemovalStep{Text: o.String(), object: o, id: roles[i].ID})
}

// Do removes the step's object and returns the entries of the list that are done with.
func (s *RemovalStep) Do(ctx context.Context, admin *cloudapi.Client) ([]MadeObject, error) {
	var err error
	switch s.object.Kind {
	case MadeAccount:
		var job cloudstack.Submitted
		if job, err = admin.DeleteAccount(ctx, s.id); err == nil {
			_, err = admin.Jobs().Wait(ctx, "deleteAccount", job.JobID)
		}
	case MadeUser:
		err = admin.DeleteUser(ctx, s.id)
	case MadeKeys:
		// CloudStack cannot take keys away; a pair that nobody reads replaces them.
		_, err = admin.RegisterUserKeys(ctx, s.id)
	case MadeRole:
		err = admin.DeleteRole(ctx, s.id)
	}
	if err != nil {
		return nil, explain("removing "+s.Text, err)
	}
	return append([]MadeObject{s.object}, s.with...), nil
}

func counted(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
