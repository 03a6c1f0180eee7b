// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"
)

// purgeDomain deletes a domain with its subdomains, accounts, projects and networks.
func (st *state) purgeDomain(d *domain, now time.Time) {
	d.inactive = true
	for _, o := range st.children(d) {
		st.purgeDomain(o, now)
	}
	for _, p := range st.projects.rows {
		if !p.removed && p.domain == d {
			st.purgeProject(p, now)
		}
	}
	for _, a := range st.accounts.rows {
		if !a.removed && a.domain == d {
			st.purgeAccount(a, now)
		}
	}
	for _, n := range st.networks.rows {
		if !n.removed && n.owner == nil && n.domain == d {
			st.purgeNetwork(n)
		}
	}
	d.removed, d.limits = true, nil
}

// purgeProject deletes a project with everything that it owns.
func (st *state) purgeProject(p *project, now time.Time) {
	p.state = projectDisabled
	st.purgeAccount(p.account, now)
	p.members, p.tags, p.removed = nil, nil, true
	for _, r := range st.projectRoles.rows {
		if r.project == p {
			r.removed, r.rules = true, nil
		}
	}
}

// purgeAccount deletes an account with its users, its memberships and everything that it owns.
func (st *state) purgeAccount(a *account, now time.Time) {
	a.state, a.removed = "removed", true
	for _, u := range a.accountUsers() {
		st.removeUser(u)
	}
	for _, p := range st.projects.rows {
		p.members = slices.DeleteFunc(p.members, func(m projectMember) bool { return m.account == a })
	}
	for _, k := range st.kubernetesClusters.rows {
		if k.owner == a && !k.removed {
			st.destroyCluster(k, false, false, now)
		}
	}
	for _, v := range st.vms.rows {
		if v.owner == a && !v.removed {
			st.expunge(v)
			v.updated = now
		}
	}
	for _, n := range st.networks.rows {
		if n.owner == a && !n.removed {
			st.purgeNetwork(n)
		}
	}
	for _, v := range st.vpcs.rows {
		if v.owner == a && !v.removed {
			st.purgeVPC(v)
		}
	}
	for _, ip := range st.ips.rows {
		if ip.owner == a {
			st.release(ip)
		}
	}
	purgeOwned(st.affinity, a, func(g *affinityGroup) *account { return g.owner })
	purgeOwned(st.groups, a, func(g *instanceGroup) *account { return g.owner })
	purgeOwned(st.keypairs, a, func(k *sshKeyPair) *account { return k.owner })
	purgeOwned(st.certs, a, func(s *sslCert) *account { return s.owner })
	a.limits = nil
}

// purgeOwned deletes the rows of a kind that the account owns.
func purgeOwned[T row](t *table[T], a *account, owner func(T) *account) {
	for _, v := range slices.Clone(t.rows) {
		if owner(v) == a {
			t.drop(v)
		}
	}
}

// purgeNetwork deletes a network. VMs of other owners that are still in it lose their NIC there.
func (st *state) purgeNetwork(n *network) {
	for _, card := range slices.Clone(n.used) {
		st.leaveNetwork(card)
		st.dropNIC(card)
	}
	st.destroyNetwork(n)
}

// purgeVPC deletes a VPC with its tiers, including those of other owners.
func (st *state) purgeVPC(v *vpc) {
	for _, n := range st.tiers(v) {
		st.purgeNetwork(n)
	}
	st.destroyVPC(v)
}

// removeUser deletes a user; its API keys become invalid immediately.
func (st *state) removeUser(u *user) {
	delete(st.apiKeys, u.apiKey)
	u.removed = true
	for _, p := range st.projects.rows {
		p.members = slices.DeleteFunc(p.members, func(m projectMember) bool { return m.user == u })
	}
}
