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

// Removal is the plan to remove what csccm created in CloudStack.
type Removal struct {
	Steps     []RemovalStep
	Remaining []string // what is kept, and why
	APIKeys   []string // keys that stop working

	deleted []string // ids of accounts that are deleted
}

// RemovalStep removes one object.
type RemovalStep struct {
	Text    string          // what is removed, and from where
	id      string          // "" if CloudStack no longer has it
	objects []CreatedObject // the object, and those that are deleted with it
}

// PlanRemoval decides what to remove of the objects in the list and of the users with the cluster's mark. It always
// removes users and keys. It removes an account only if the account has nothing but csccm's own users, because deleting
// an account deletes everything that it owns. It removes a role only if no account uses the role.
func PlanRemoval(ctx context.Context, admin *cloudapi.Client, m *Created) (*Removal, error) {
	users, err := admin.ListUsers(ctx, "")
	if err != nil {
		return nil, explain("listing users", err)
	}

	accounts, err := admin.ListAccounts(ctx, "")
	if err != nil {
		return nil, explain("listing accounts", err)
	}

	r := &Removal{}
	m.add(m.Marked(users))
	for _, kind := range []CreatedKind{CreatedAccount, CreatedUser, CreatedKeys, CreatedRole} {
		for _, o := range m.Objects {
			var i int
			switch is := func(id string) bool { return o.ID == "" || o.ID == id }; {
			case o.Kind != kind:
				continue
			case kind == CreatedAccount:
				i = slices.IndexFunc(accounts,
					func(a cloudapi.Account) bool { return a.Name == o.Name && a.DomainID == o.DomainID && is(a.ID) })
				if i >= 0 {
					r.account(o, &accounts[i], m.Objects, users)
				}

			case kind == CreatedRole:
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
				case m.Mine(&users[i]) && kind == CreatedKeys: // the step of the user removes the keys
				case m.Mine(&users[i]):
					r.step(o.String(), users[i].ID, users[i].APIKey, o)
				default:
					r.Remaining = append(r.Remaining, o.String()+": "+NotMine(users[i].Username))
				}
			}

			if i < 0 {
				r.Steps = append(r.Steps,
					RemovalStep{
						o.String() + " from csccm's list: it is no longer in CloudStack", "", []CreatedObject{o},
					})
			}
		}
	}

	return r, nil
}

// step adds a step that removes an object, and an API key with it unless apiKey is "".
func (r *Removal) step(text, id, apiKey string, objects ...CreatedObject) {
	r.Steps = append(r.Steps, RemovalStep{text + " in CloudStack", id, objects})
	if apiKey != "" {
		r.APIKeys = append(r.APIKeys, apiKey)
	}
}

func (r *Removal) account(o CreatedObject, a *cloudapi.Account, all []CreatedObject, users []cloudapi.User) {
	text, objects, keys := o.String(), []CreatedObject{o}, []string(nil)
	var others []string
	for _, u := range users {
		if u.Account != o.Name || u.DomainID != o.DomainID {
			continue
		}

		at := slices.IndexFunc(all, func(m CreatedObject) bool { return m.same(createdUser(&u)) })
		if at < 0 {
			others = append(others, fmt.Sprintf("user %q", u.Username))
			continue
		}
		text, objects = text+fmt.Sprintf(", with user %q", u.Username), append(objects, all[at])
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
		r.Remaining = append(r.Remaining, fmt.Sprintf("%s: it also has %s", o, strings.Join(others, ", ")))
		return
	}

	r.deleted, r.APIKeys = append(r.deleted, a.ID), append(r.APIKeys, keys...)
	r.step(text, a.ID, "", objects...)
}

func (r *Removal) role(o CreatedObject, id string, accounts []cloudapi.Account) {
	for _, a := range accounts {
		if a.RoleID == id && !slices.Contains(r.deleted, a.ID) {
			r.Remaining = append(r.Remaining, fmt.Sprintf("%s: account %q has it", o, a.Name))
			return
		}
	}
	r.step(o.String(), id, "", o)
}

// Do removes the step's object from CloudStack, and from the list that object and those deleted with it.
func (s *RemovalStep) Do(ctx context.Context, admin *cloudapi.Client, c *cluster.Cluster) error {
	command := map[CreatedKind]string{
		CreatedAccount: "deleteAccount",
		CreatedUser:    "deleteUser",
		CreatedRole:    "deleteRole",
	}[s.objects[0].Kind]

	if s.id != "" {
		if err := admin.Do(ctx, command, cloudstack.Params{"id": s.id}); err != nil {
			return explain("removing "+s.Text, err)
		}
	}
	return changeCreated(ctx, c, func(m *Created) {
		m.Objects = slices.DeleteFunc(m.Objects, func(o CreatedObject) bool {
			return slices.ContainsFunc(s.objects, func(deleted CreatedObject) bool { return deleted.same(&o) })
		})
	})
}
