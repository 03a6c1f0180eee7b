// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// serviceUser returns the user whose API keys the cloud provider of the cluster uses: the user <account>-kubeadmin of
// the owner, or of the project's service account.
func serviceUser(st *store.State, owner *store.Account, now time.Time) *store.User {
	if owner.Project != nil {
		owner = projectServiceAccount(st, owner.Project, now)
	}
	name := owner.Name
	if !strings.HasPrefix(name, store.Kubeadmin+"-") {
		name += "-" + store.Kubeadmin
	}
	u, ok := st.UserIn(owner.Domain, name)
	if !ok {
		u = addUser(st, owner,
			&store.User{Username: name, FirstName: owner.Name, LastName: store.Kubeadmin, Email: store.Kubeadmin}, now)
	}
	if u.APIKey == "" {
		u.APIKey, u.SecretKey = store.NewKeys()
		st.APIKeys[u.APIKey] = u
	}
	return u
}

func addUser(st *store.State, a *store.Account, u *store.User, now time.Time) *store.User {
	u.Entity, u.Account, u.State, u.Password = store.Entity{Created: now}, a, store.StateEnabled, uuid.NewString()
	st.Users.Add(u)
	a.Users = append(a.Users, u)
	return u
}

// projectServiceAccount returns the service account for a project's clusters. The first cluster creates it, with the
// role that CKS defines for it.
func projectServiceAccount(st *store.State, p *store.Project, now time.Time) *store.Account {
	name := store.ServiceAccountName(p)
	if a, ok := st.AccountIn(p.Domain, name); ok && p.Find(a, nil) != nil {
		return a
	}
	a := st.Accounts.Add(&store.Account{
		Entity: store.Entity{Created: now},
		Name:   name,
		Domain: p.Domain,
		Role:   projectServiceRole(st, now),
		State:  store.StateEnabled,
	})
	addUser(st, a, &store.User{Username: name, FirstName: "Kubernetes", LastName: "Service User"}, now)
	p.Members = append(p.Members, store.ProjectMember{Account: a})
	return a
}

// projectServiceRole returns the role of the service accounts. It recreates a role that was deleted.
func projectServiceRole(st *store.State, now time.Time) *store.Role {
	if r, ok := st.Roles.Find(func(r *store.Role) bool { return r.Name == store.CKSProjectRole }); ok {
		return r
	}
	r := &store.Role{
		Entity:      store.Entity{Created: now},
		Name:        store.CKSProjectRole,
		Kind:        store.RoleUser,
		Description: store.CKSProjectRole,
	}
	for _, n := range store.CKSProjectRules {
		r.Rules = append(r.Rules,
			&store.RoleRule{UUID: uuid.NewString(), Pattern: n, Description: "Allow " + n, Allow: true})
	}
	r.Rules = append(r.Rules, &store.RoleRule{UUID: uuid.NewString(), Pattern: "*", Description: "Deny all"})
	return st.Roles.Add(r)
}
