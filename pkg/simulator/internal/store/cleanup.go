// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"time"
)

// PurgeDomain deletes a domain with its subdomains, accounts, projects and networks.
func (st *State) PurgeDomain(d *Domain, now time.Time) {
	d.Inactive = true
	for _, o := range st.Children(d) {
		st.PurgeDomain(o, now)
	}

	for _, p := range st.Projects.Rows {
		if !p.Removed && p.Domain == d {
			st.PurgeProject(p, now)
		}
	}

	for _, a := range st.Accounts.Rows {
		if !a.Removed && a.Domain == d {
			st.PurgeAccount(a, now)
		}
	}

	for _, n := range st.Networks.Rows {
		if !n.Removed && n.Owner == nil && n.Domain == d {
			st.purgeNetwork(n)
		}
	}

	d.Removed, d.Limits = true, nil
}

// PurgeProject deletes a project with everything that it owns.
func (st *State) PurgeProject(p *Project, now time.Time) {
	p.State = ProjectDisabled
	st.PurgeAccount(p.Account, now)
	p.Members, p.Tags, p.Removed = nil, nil, true
}

// PurgeAccount deletes an account with its users, its memberships and everything that it owns. Its addresses become
// free but keep their tags, which the next owner sees (observed).
func (st *State) PurgeAccount(a *Account, now time.Time) {
	tags := map[*PublicIP][]Tag{}
	for _, ip := range st.IPs.Rows {
		if ip.Owner == a {
			tags[ip] = ip.Tags
		}
	}
	defer func() {
		for ip, targets := range tags {
			ip.Tags = targets
		}
	}()

	a.State, a.Removed = "removed", true
	for _, u := range a.AccountUsers() {
		st.RemoveUser(u)
	}

	for _, p := range st.Projects.Rows {
		p.Members = slices.DeleteFunc(p.Members, func(m ProjectMember) bool { return m.Account == a })
	}

	for _, k := range st.KubernetesClusters.Rows {
		if k.Owner == a && !k.Removed {
			st.DestroyCluster(k, false, false, now)
		}
	}

	for _, v := range st.VMs.Rows {
		if v.Owner == a && !v.Removed {
			st.Expunge(v)
			v.Updated = now
		}
	}

	for _, n := range st.Networks.Rows {
		if n.Owner == a && !n.Removed {
			st.purgeNetwork(n)
		}
	}

	for _, v := range st.VPCs.Rows {
		if v.Owner == a && !v.Removed {
			st.purgeVPC(v)
		}
	}

	for _, ip := range st.IPs.Rows {
		if ip.Owner == a {
			st.Release(ip)
		}
	}

	for _, cert := range slices.Clone(st.Certs.Rows) {
		if cert.Owner == a {
			st.Certs.Delete(cert)
		}
	}

	for _, cni := range slices.Clone(st.CNIConfigs.Rows) {
		if cni.Owner == a {
			st.CNIConfigs.Delete(cni)
		}
	}

	a.Limits = nil
}

// purgeNetwork deletes a network. VMs of other owners that are still in it lose their NIC there.
func (st *State) purgeNetwork(n *Network) {
	for _, card := range slices.Clone(n.Used) {
		st.leaveNetwork(card)
		st.DeleteNIC(card)
	}
	st.DestroyNetwork(n)
}

// purgeVPC deletes a VPC with its tiers, including those of other owners.
func (st *State) purgeVPC(v *VPC) {
	for _, n := range st.Tiers(v) {
		st.purgeNetwork(n)
	}
	st.DestroyVPC(v)
}

// RemoveUser deletes a user; its API keys become invalid immediately.
func (st *State) RemoveUser(u *User) {
	delete(st.APIKeys, u.APIKey)
	u.Removed = true
	for _, p := range st.Projects.Rows {
		p.Members = slices.DeleteFunc(p.Members, func(m ProjectMember) bool { return m.User == u })
	}
}
