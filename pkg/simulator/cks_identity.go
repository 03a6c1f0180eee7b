// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// kubeadmin is part of the names that CloudStack gives the users whose API keys clusters use.
const kubeadmin = "kubeadmin"

// serviceUser returns the user whose API keys the cloud provider of the cluster uses: the user <account>-kubeadmin of
// the owner, or of the project's service account.
func (st *state) serviceUser(owner *account, now time.Time) *user {
	if owner.project != nil {
		owner = st.projectServiceAccount(owner.project, now)
	}
	name := owner.name
	if !strings.HasPrefix(name, kubeadmin+"-") {
		name += "-" + kubeadmin
	}
	u, ok := st.userIn(owner.domain, name)
	if !ok {
		u = st.addUser(owner, &user{username: name, firstName: owner.name, lastName: kubeadmin, email: kubeadmin}, now)
	}
	if u.apiKey == "" {
		u.apiKey, u.secretKey = newKeys()
		st.apiKeys[u.apiKey] = u
	}
	return u
}

func (st *state) addUser(a *account, u *user, now time.Time) *user {
	u.entity, u.account, u.state, u.password = entity{created: now}, a, stateEnabled, uuid.NewString()
	st.users.add(u)
	a.users = append(a.users, u)
	return u
}

// serviceAccountName returns the name of the service account for a project's clusters.
func serviceAccountName(p *project) string {
	first, _, _ := strings.Cut(p.uuid, "-")
	return kubeadmin + "-" + first
}

// projectServiceAccount returns the service account for a project's clusters. The first cluster creates it, with the
// role that CKS defines for it.
func (st *state) projectServiceAccount(p *project, now time.Time) *account {
	name := serviceAccountName(p)
	if a, ok := st.accountIn(p.domain, name); ok && p.find(a, nil) != nil {
		return a
	}
	a := st.accounts.add(&account{entity: entity{created: now}, name: name, domain: p.domain, role: st.projectServiceRole(now), state: stateEnabled})
	st.addUser(a, &user{username: name, firstName: "Kubernetes", lastName: "Service User"}, now)
	p.members = append(p.members, projectMember{account: a})
	return a
}

// projectServiceRole returns the role of such accounts. It recreates a role that was deleted.
func (st *state) projectServiceRole(now time.Time) *role {
	if r, ok := st.roles.find(func(r *role) bool { return r.name == cksProjectRole }); ok {
		return r
	}
	r := &role{entity: entity{created: now}, name: cksProjectRole, kind: roleUser, description: cksProjectRole}
	for _, n := range cksProjectRules {
		r.rules = append(r.rules, &roleRule{uuid: uuid.NewString(), pattern: n, description: "Allow " + n, allow: true})
	}
	r.rules = append(r.rules, &roleRule{uuid: uuid.NewString(), pattern: "*", description: "Deny all"})
	return st.roles.add(r)
}

// dropServiceAccount removes a project's service account when the project has no clusters left.
func (st *state) dropServiceAccount(owner *account) {
	p := owner.project
	if p == nil {
		return
	}
	if _, more := st.kubernetesClusters.find(func(k *kubernetesCluster) bool { return k.owner == owner }); more {
		return
	}
	a, ok := st.accountIn(p.domain, serviceAccountName(p))
	if !ok || p.find(a, nil) == nil {
		return
	}
	for i, m := range p.members {
		if m.account == a {
			p.members = append(p.members[:i:i], p.members[i+1:]...)
			break
		}
	}
	for _, u := range a.users {
		delete(st.apiKeys, u.apiKey)
		u.removed = true
	}
	a.removed = true
}
