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

// purgeProject deletes a project with all that it owns.
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

// purgeAccount deletes an account with its users, memberships, VMs, networks, VPCs and addresses.
func (st *state) purgeAccount(a *account, now time.Time) {
	a.state, a.removed = "removed", true
	for _, u := range a.accountUsers() {
		st.removeUser(u)
	}
	for _, p := range st.projects.rows {
		p.members = slices.DeleteFunc(p.members, func(m projectMember) bool { return m.account == a })
	}
	for _, v := range st.vms.rows {
		if v.owner == a && !v.removed {
			st.expunge(v)
			v.updated = now
		}
	}
	for _, tiers := range []bool{false, true} {
		for _, n := range st.networks.rows {
			if n.owner == a && !n.removed && (n.vpc != nil) == tiers {
				st.purgeNetwork(n)
			}
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
	a.limits = nil
}

// purgeNetwork deletes a network whose VMs have gone, with its addresses.
func (st *state) purgeNetwork(n *network) {
	for _, ip := range st.ips.rows {
		switch {
		case ip.network != n:
		case ip.vpc == nil:
			st.release(ip)
		default: // a tier's address stays with its VPC
			for _, r := range slices.Clone(ip.lbRules) {
				st.dropLBRule(r)
			}
			ip.network = nil
		}
	}
	n.removed, n.tags, n.used = true, nil, nil
}

// purgeVPC deletes a VPC without tiers, with its ACL lists and addresses.
func (st *state) purgeVPC(v *vpc) {
	for _, it := range slices.Clone(st.aclItems.rows) {
		if it.list.vpc == v {
			st.aclItems.drop(it)
		}
	}
	for _, l := range slices.Clone(st.aclLists.rows) {
		if l.vpc == v {
			st.aclLists.drop(l)
		}
	}
	for _, ip := range st.ips.rows {
		if ip.vpc == v {
			st.release(ip)
		}
	}
	v.removed, v.tags = true, nil
}

// removeUser deletes a user; its keys are dead at once.
func (st *state) removeUser(u *user) {
	delete(st.apiKeys, u.apiKey)
	u.removed = true
	for _, p := range st.projects.rows {
		p.members = slices.DeleteFunc(p.members, func(m projectMember) bool { return m.user == u })
	}
}
