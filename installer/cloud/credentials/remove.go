// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
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

	users    []cloudapi.User
	accounts []cloudapi.Account
	deleted  []string // ids of accounts
}

// RemovalStep removes one object.
type RemovalStep struct {
	Text string
	id   string
	made []MadeObject // the object, and those that go with it
}

// PlanRemoval decides what of the list is removed: users and keys always; an account if nothing but csccm's own users
// is in it, because deleting an account deletes all that it owns; a role if no account uses it.
func PlanRemoval(ctx context.Context, admin *cloudapi.Client, m *Made) (*Removal, error) {
	r := &Removal{}
	var err error
	if r.users, err = admin.ListUsers(ctx, "", "", ""); err != nil {
		return nil, explain("listing users", err)
	}
	if r.accounts, err = admin.ListAccounts(ctx, "", ""); err != nil {
		return nil, explain("listing accounts", err)
	}
	for _, kind := range []MadeKind{MadeAccount, MadeUser, MadeKeys, MadeRole} {
		for _, o := range m.Objects {
			switch {
			case o.Kind != kind:
			case kind == MadeAccount:
				r.account(o, m.Objects)
			case kind == MadeRole:
				roles, err := admin.ListRoles(ctx, o.Name)
				if err != nil {
					return nil, explain("listing roles", err)
				}
				r.role(o, roles)
			default:
				r.user(o)
			}
		}
	}
	r.APIKeys = slices.DeleteFunc(r.APIKeys, func(key string) bool { return key == "" })
	return r, nil
}

// is reports whether an object that was found may be this one.
func (o MadeObject) is(id string) bool { return o.ID == "" || o.ID == id }

func (r *Removal) step(text, id string, made ...MadeObject) {
	r.Steps = append(r.Steps, RemovalStep{Text: text, id: id, made: made})
}

func (r *Removal) user(o MadeObject) {
	i := slices.IndexFunc(r.users, func(u cloudapi.User) bool {
		return u.Username == o.Name && u.Account == o.Account && u.DomainID == o.DomainID && o.is(u.ID)
	})
	switch {
	case i < 0:
		r.Gone = append(r.Gone, o)
	case !slices.Contains(r.deleted, r.users[i].AccountID):
		r.APIKeys = append(r.APIKeys, r.users[i].APIKey)
		r.step(o.String(), r.users[i].ID, o)
	}
}

func (r *Removal) account(o MadeObject, all []MadeObject) {
	i := slices.IndexFunc(r.accounts, func(a cloudapi.Account) bool { return a.Name == o.Name && a.DomainID == o.DomainID && o.is(a.ID) })
	if i < 0 {
		r.Gone = append(r.Gone, o)
		return
	}
	text, made, others, keys := o.String(), []MadeObject{o}, []string(nil), []string(nil)
	for _, u := range r.users {
		if u.Account != o.Name || u.DomainID != o.DomainID {
			continue
		}
		at := slices.IndexFunc(all, MadeObject{Kind: MadeUser, Name: u.Username, Account: o.Name, DomainID: o.DomainID}.same)
		if at < 0 {
			others = append(others, fmt.Sprintf("user %q", u.Username))
			continue
		}
		text, made, keys = text+fmt.Sprintf(", with user %q", u.Username), append(made, all[at]), append(keys, u.APIKey)
	}
	resources := r.accounts[i].Resources()
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		others = append(others, english.Plural(resources[name], name, ""))
	}
	if len(others) > 0 {
		r.Stays = append(r.Stays, fmt.Sprintf("%s: it also has %s", o, strings.Join(others, ", ")))
		return
	}
	r.deleted, r.APIKeys = append(r.deleted, r.accounts[i].ID), append(r.APIKeys, keys...)
	r.step(text, r.accounts[i].ID, made...)
}

func (r *Removal) role(o MadeObject, roles []cloudapi.Role) {
	i := slices.IndexFunc(roles, func(x cloudapi.Role) bool { return x.Name == o.Name && o.is(x.ID) })
	if i < 0 {
		r.Gone = append(r.Gone, o)
		return
	}
	var by []string
	for j := range r.accounts {
		if a := &r.accounts[j]; a.RoleID == roles[i].ID && !slices.Contains(r.deleted, a.ID) {
			by = append(by, fmt.Sprintf("account %q", a.Name))
		}
	}
	if len(by) > 0 {
		r.Stays = append(r.Stays, fmt.Sprintf("%s: %s has it", o, some(by)))
		return
	}
	r.step(o.String(), roles[i].ID, o)
}

// Do removes the step's object and returns the entries of the list that are done with.
func (s *RemovalStep) Do(ctx context.Context, admin *cloudapi.Client) ([]MadeObject, error) {
	remove := map[MadeKind]func(context.Context, string) error{
		MadeAccount: admin.DeleteAccount, MadeUser: admin.DeleteUser, MadeRole: admin.DeleteRole,
		// CloudStack cannot take keys away; a pair that nobody reads replaces them.
		MadeKeys: func(ctx context.Context, id string) error {
			_, err := admin.RegisterUserKeys(ctx, id)
			return err
		},
	}
	return s.made, explain("removing "+s.Text, remove[s.made[0].Kind](ctx, s.id))
}
