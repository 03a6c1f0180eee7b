// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strconv"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
)

// LimitOf returns the limit of an account or of a project's hidden account; -1 is unlimited.
func (st *State) LimitOf(a *Account, k *settings.LimitKind) int64 {
	if a.RootAdmin() {
		return -1
	}
	if n, ok := a.Limits[k.Key]; ok {
		return n
	}
	if a.Project != nil {
		return st.limitSetting("max.project."+k.Setting, k.Project)
	}
	return st.limitSetting("max.account."+k.Setting, k.Account)
}

// DomainLimit returns the limit of a domain and all its subdomains. A domain without a limit inherits that of its
// nearest ancestor with a limit.
func (st *State) DomainLimit(d *Domain, k *settings.LimitKind) int64 {
	if d.Parent == nil {
		return -1
	}
	for at := d; at.Parent != nil; at = at.Parent {
		if n, ok := at.Limits[k.Key]; ok {
			return n
		}
	}
	return st.limitSetting("max.domain."+k.Setting, k.Domain)
}

// limitSetting returns a limit that updateConfiguration can change.
func (st *State) limitSetting(name string, def int64) int64 {
	v, ok := st.Settings[name]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return def
	}
	return max(n, -1)
}

// OverAccountLimit returns the error text if n more exceed the limit, otherwise "". exhausted is an injected fault
// that lowers the limit to the current amount.
func (st *State) OverAccountLimit(a *Account, k *settings.LimitKind, n int64, exhausted bool) string {
	limit := st.LimitOf(a, k)
	used := st.Used(k, func(o *Account) bool { return o == a })
	if exhausted {
		limit = used
	}
	if limit < 0 || used+n <= limit {
		return ""
	}
	who := "Account Name = " + a.Name
	if a.Project != nil {
		who = "Project Name = " + a.Project.Name
	}
	return fmt.Sprintf("Maximum amount of resources of Type = '%s', tag = 'null' for %s in Domain Id = %d is "+
		"exceeded: Account Resource Limit = %s, Current Account Resource Amount = %s, Current Account Resource "+
		"Reservation = %s, Requested Resource Amount = %s.", k.Name, who, a.Domain.ID, k.Text(limit),
		k.Text(used), k.Text(0), k.Text(n))
}

// OverDomainLimit returns the error text if n more exceed the limit of the domain, otherwise "".
func (st *State) OverDomainLimit(d *Domain, k *settings.LimitKind, n int64) string {
	limit := st.DomainLimit(d, k)
	used := st.DomainUsed(d, k)
	if limit < 0 || used+n <= limit {
		return ""
	}
	return fmt.Sprintf("Maximum domain resource limits of Type '%s' for Domain Id = %s is exceeded: Domain Resource "+
		"Limit = %s, Current Domain Resource Amount = %s, Current Resource Reservation = %s, Requested Resource "+
		"Amount = %s.", k.Name, d.UUID, k.Text(limit), k.Text(used), k.Text(0), k.Text(n))
}

// DomainUsed returns the amount that counts against the limit of a domain: that of all accounts in it and its
// subdomains.
func (st *State) DomainUsed(d *Domain, k *settings.LimitKind) int64 {
	return st.Used(k, func(a *Account) bool { return a != nil && a.Domain.Within(d) })
}

// Used returns the amount of a resource that the owners have.
func (st *State) Used(k *settings.LimitKind, owned func(*Account) bool) int64 {
	var n int64
	switch k.Key {
	case "publicIPs":
		for _, ip := range st.IPs.Rows {
			if ip.Owner != nil && owned(ip.Owner) && ip.State != IPAllocating { // counted once it is allocated
				n++
			}
		}

	case "virtualMachines", "volumes", "cpus", "memoryMiB", "primaryStorageGiB":
		for _, v := range st.VMs.Rows {
			if v.Gone() || v.State == VMError || !owned(v.Owner) {
				continue
			}
			switch k.Key {
			case "cpus":
				n += int64(v.Offering.CPUNumber)
			case "memoryMiB":
				n += int64(v.Offering.MemMB)
			case "primaryStorageGiB":
				n += RootGiB(v.Details)
			default:
				n++
			}
		}

	case "networks":
		for _, o := range st.Networks.Rows {
			if o.Owner != nil && !o.Removed && owned(o.Owner) {
				n++
			}
		}

	case "vpcs":
		for _, v := range st.VPCs.Rows {
			if !v.Removed && owned(v.Owner) {
				n++
			}
		}

	case "projects":
		for _, p := range st.Projects.Rows {
			if p.Removed {
				continue
			}
			for _, m := range p.Members {
				if m.Admin && owned(m.Account) {
					n++
				}
			}
		}
	}

	return n
}
