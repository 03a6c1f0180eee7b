// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Removal is the plan to remove what csccm made in CloudStack.
type Removal struct {
	Steps   []RemovalStep
	Stays   []string // what is kept, and why
	APIKeys []string // keys that stop working

	deleted []string // ids of accounts that are deleted
}

// RemovalStep removes one object.
type RemovalStep struct {
	Text string       // what is removed, and from where
	id   string       // "" if CloudStack no longer has it
	made []MadeObject // the object, and those that are deleted with it
}

// PlanRemoval decides what to remove of the objects in the list and of the users with the cluster's mark. It always
// removes users and keys. It removes an account only if that has nothing but csccm's own users, because deleting an
// account deletes all that it owns; a role only if no account uses it.
func PlanRemoval(ctx context.Context, admin *cloudapi.Client, m *Made) (*Removal, error) {
	users, err := admin.ListUsers(ctx, "")
	if err != nil {
		return nil, explain("listing users", err)
	}

	accounts, err := admin.ListAccounts(ctx, "")
	if err != nil {
		return nil, explain("listing accounts", err)
	}

	for _, u := range users { // the list may be lost or outdated
		if u.Cluster() != "" && m.Mine(&u) {
			m.add([]*MadeObject{
				{
					Kind:     MadeUser,
					Name:     u.Username,
					ID:       u.ID,
					Account:  u.Account,
					DomainID: u.DomainID,
					Domain:   u.Domain,
				},
			})
		}
	}

	r := &Removal{}
	for _, kind := range []MadeKind{MadeAccount, MadeUser, MadeKeys, MadeRole} {
		for _, o := range m.Objects {
			var i int
			switch is := func(id string) bool { return o.ID == "" || o.ID == id }; {
			case o.Kind != kind:
				continue
			case kind == MadeAccount:
				i = slices.IndexFunc(accounts,
					func(a cloudapi.Account) bool { return a.Name == o.Name && a.DomainID == o.DomainID && is(a.ID) })
				if i >= 0 {
					r.account(o, &accounts[i], m.Objects, users)
				}

			case kind == MadeRole:
				roles, err := admin.ListRoles(ctx, o.Name)
				if err != nil {
					return nil, explain("listing roles", err)
				}
				i = slices.IndexFunc(roles, func(x cloudapi.Role) bool { return x.Name == o.Name && is(x.ID) })
				if i >= 0 {
					r.role(o, roles[i].ID, accounts)
				}

			default:
				i = slices.IndexFunc(users, func(u cloudapi.User) bool {
					return u.Username == o.Name && u.Account == o.Account && u.DomainID == o.DomainID && is(u.ID)
				})
				switch {
				case i < 0 || slices.Contains(r.deleted, users[i].AccountID):
				case m.Mine(&users[i]) && kind == MadeKeys: // the step of the user removes the keys
				case m.Mine(&users[i]):
					r.step(o.String(), users[i].ID, users[i].APIKey, o)
				default:
					r.Stays = append(r.Stays, o.String()+": "+NotMine(users[i].Username))
				}
			}

			if i < 0 {
				r.Steps = append(r.Steps,
					RemovalStep{o.String() + " from csccm's list: it is no longer in CloudStack", "", []MadeObject{o}})
			}
		}
	}

	return r, nil
}

// step adds a step that removes an object, and an API key with it unless apiKey is "".
func (r *Removal) step(text, id, apiKey string, made ...MadeObject) {
	r.Steps = append(r.Steps, RemovalStep{text + " in CloudStack", id, made})
	if apiKey != "" {
		r.APIKeys = append(r.APIKeys, apiKey)
	}
}

func (r *Removal) account(o MadeObject, a *cloudapi.Account, all []MadeObject, users []cloudapi.User) {
	text, made, keys := o.String(), []MadeObject{o}, []string(nil)
	var others []string
	for _, u := range users {
		if u.Account != o.Name || u.DomainID != o.DomainID {
			continue
		}

		at := slices.IndexFunc(all, func(m MadeObject) bool {
			return m.same(&MadeObject{Kind: MadeUser, Name: u.Username, Account: o.Name, DomainID: o.DomainID})
		})
		if at < 0 {
			others = append(others, fmt.Sprintf("user %q", u.Username))
			continue
		}
		text, made = text+fmt.Sprintf(", with user %q", u.Username), append(made, all[at])
		if u.APIKey != "" {
			keys = append(keys, u.APIKey)
		}
	}

	for _, owned := range []struct {
		n    int
		noun string
	}{
		{a.VMs, "VM"}, {a.IPs, "public address"}, {a.Volumes, "volume"}, {a.Snapshots, "snapshot"},
		{a.Templates, "template"}, {a.Networks, "network"}, {a.VPCs, "VPC"}, {a.Projects, "project"},
	} {
		if owned.n > 0 {
			others = append(others, report.Count(owned.n, owned.noun))
		}
	}

	if len(others) > 0 {
		r.Stays = append(r.Stays, fmt.Sprintf("%s: it also has %s", o, strings.Join(others, ", ")))
		return
	}

	r.deleted, r.APIKeys = append(r.deleted, a.ID), append(r.APIKeys, keys...)
	r.step(text, a.ID, "", made...)
}

func (r *Removal) role(o MadeObject, id string, accounts []cloudapi.Account) {
	for _, a := range accounts {
		if a.RoleID == id && !slices.Contains(r.deleted, a.ID) {
			r.Stays = append(r.Stays, fmt.Sprintf("%s: account %q has it", o, a.Name))
			return
		}
	}
	r.step(o.String(), id, "", o)
}

// Do removes the step's object from CloudStack, and from the list that object and those deleted with it.
func (s *RemovalStep) Do(ctx context.Context, admin *cloudapi.Client, c *cluster.Cluster) error {
	command := map[MadeKind]string{
		MadeAccount: "deleteAccount",
		MadeUser:    "deleteUser",
		MadeRole:    "deleteRole",
	}[s.made[0].Kind]

	if s.id != "" {
		if err := admin.Do(ctx, command, cloudstack.Params{"id": s.id}); err != nil {
			return explain("removing "+s.Text, err)
		}
	}
	return changeMade(ctx, c, func(m *Made) {
		m.Objects = slices.DeleteFunc(m.Objects, func(o MadeObject) bool {
			return slices.ContainsFunc(s.made, func(gone MadeObject) bool { return gone.same(&o) })
		})
	})
}
