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

	made     []MadeObject
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
	r := &Removal{made: m.Objects}
	var err error
	if r.users, err = admin.ListUsers(ctx, "", "", ""); err != nil {
		return nil, explain("listing users", err)
	}
	if r.accounts, err = admin.ListAccounts(ctx, "", ""); err != nil {
		return nil, explain("listing accounts", err)
	}
	for _, o := range m.of(MadeAccount) {
		r.account(o)
	}
	for _, o := range m.of(MadeUser, MadeKeys) {
		i := slices.IndexFunc(r.users, func(u cloudapi.User) bool {
			return u.Username == o.Name && u.Account == o.Account && u.DomainID == o.DomainID && o.is(u.ID)
		})
		if i >= 0 && slices.Contains(r.deleted, r.users[i].AccountID) {
			continue
		}
		if i < 0 {
			r.Gone = append(r.Gone, o)
			continue
		}
		r.key(&r.users[i])
		r.step(o.String(), r.users[i].ID, o)
	}
	for _, o := range m.of(MadeRole) {
		roles, err := admin.ListRoles(ctx, o.Name)
		if err != nil {
			return nil, explain("listing roles", err)
		}
		r.role(o, roles)
	}
	return r, nil
}

func (m *Made) of(kinds ...MadeKind) []MadeObject {
	return slices.DeleteFunc(slices.Clone(m.Objects), func(o MadeObject) bool { return !slices.Contains(kinds, o.Kind) })
}

// is reports whether an object that was found may be this one.
func (o MadeObject) is(id string) bool { return o.ID == "" || o.ID == id }

func (r *Removal) step(text, id string, made ...MadeObject) {
	r.Steps = append(r.Steps, RemovalStep{Text: text, id: id, made: made})
}

func (r *Removal) key(u *cloudapi.User) {
	if u.APIKey != "" {
		r.APIKeys = append(r.APIKeys, u.APIKey)
	}
}

func (r *Removal) account(o MadeObject) {
	i := slices.IndexFunc(r.accounts, func(a cloudapi.Account) bool { return a.Name == o.Name && a.DomainID == o.DomainID && o.is(a.ID) })
	if i < 0 {
		r.Gone = append(r.Gone, o)
		return
	}
	text, made, others := o.String(), []MadeObject{o}, []string(nil)
	for j := range r.users {
		u := &r.users[j]
		if u.Account != o.Name || u.DomainID != o.DomainID {
			continue
		}
		at := slices.IndexFunc(r.made, MadeObject{Kind: MadeUser, Name: u.Username, Account: o.Name, DomainID: o.DomainID}.same)
		if at < 0 {
			others = append(others, fmt.Sprintf("user %q", u.Username))
			continue
		}
		r.key(u)
		made = append(made, r.made[at])
		text += fmt.Sprintf(", with user %q", u.Username)
	}
	resources := r.accounts[i].Resources()
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		others = append(others, english.Plural(resources[name], name, ""))
	}
	if len(others) > 0 {
		r.Stays = append(r.Stays, fmt.Sprintf("%s: it also has %s", o, strings.Join(others, ", ")))
		return
	}
	r.deleted = append(r.deleted, r.accounts[i].ID)
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
	var err error
	switch s.made[0].Kind {
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
	return s.made, explain("removing "+s.Text, err)
}
