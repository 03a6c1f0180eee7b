// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
)

// limitKind is a kind of resource that is counted and limited. Its index in limitKinds is its number in the API.
// Storage is counted in GiB.
type limitKind struct {
	key     string // in world files, and the argument of checkLimit
	name    string // in the API
	setting string // max.account.<setting>, max.project.<setting>, max.domain.<setting>

	account, project, domain int64 // defaults; -1 is unlimited
	storage                  bool
}

var limitKinds = []limitKind{
	{key: "virtualMachines", name: "user_vm", setting: "user.vms", account: 20, project: 20, domain: 40},
	{key: "publicIPs", name: "public_ip", setting: "public.ips", account: 20, project: 20, domain: 40},
	{key: "volumes", name: "volume", setting: "volumes", account: 20, project: 20, domain: 40},
	{key: "snapshots", name: "snapshot", setting: "snapshots", account: 20, project: 20, domain: 40},
	{key: "templates", name: "template", setting: "templates", account: 20, project: 20, domain: 40},
	{key: "projects", name: "project", setting: "projects", account: 10, project: -1, domain: 50},
	{key: "networks", name: "network", setting: "networks", account: 20, project: 20, domain: 40},
	{key: "vpcs", name: "vpc", setting: "vpcs", account: 20, project: 20, domain: 40},
	{key: "cpus", name: "cpu", setting: "cpus", account: 40, project: 40, domain: 80},
	{key: "memoryMiB", name: "memory", setting: "memory", account: 40960, project: 40960, domain: 81920},
	{key: "primaryStorageGiB", name: "primary_storage", setting: "primary.storage", account: 200, project: 200, domain: 400, storage: true},
	{key: "secondaryStorageGiB", name: "secondary_storage", setting: "secondary.storage", account: 400, project: 400, domain: 800, storage: true},
	{key: "backups", name: "backup", setting: "backups", account: 20, project: 20, domain: 40},
	{key: "backupStorageGiB", name: "backup_storage", setting: "backup.storage", account: 400, project: 400, domain: 800, storage: true},
	{key: "buckets", name: "bucket", setting: "buckets", account: 20, project: 20, domain: 40},
	{key: "objectStorageGiB", name: "object_storage", setting: "object.storage", account: 400, project: 400, domain: 800, storage: true},
	{key: "gpus", name: "gpu", setting: "gpus", account: 20, project: 20, domain: 40},
}

const gib = 1 << 30

// limitKindOf finds a kind by its key.
func limitKindOf(key string) *limitKind {
	for i := range limitKinds {
		if limitKinds[i].key == key {
			return &limitKinds[i]
		}
	}
	panic("simulator: no resource limit is called " + key) // a bug in this package
}

// limitKeys returns the keys that world files may use.
func limitKeys() map[string]bool {
	m := make(map[string]bool, len(limitKinds))
	for _, k := range limitKinds {
		m[k.key] = true
	}
	return m
}

// limitOf returns the limit of an account or of a project's hidden account; -1 is unlimited.
func (st *state) limitOf(a *account, k *limitKind) int64 {
	if a.rootAdmin() {
		return -1
	}
	if n, ok := a.limits[k.key]; ok {
		return n
	}
	if a.project != nil {
		return st.limitSetting("max.project."+k.setting, k.project)
	}
	return st.limitSetting("max.account."+k.setting, k.account)
}

// domainLimit returns the limit of a domain and everything below it. A domain without a limit inherits that of the
// nearest ancestor that has one.
func (st *state) domainLimit(d *domain, k *limitKind) int64 {
	if d.parent == nil {
		return -1
	}
	for at := d; at.parent != nil; at = at.parent {
		if n, ok := at.limits[k.key]; ok {
			return n
		}
	}
	return st.limitSetting("max.domain."+k.setting, k.domain)
}

// limitSetting returns a limit that updateConfiguration can change.
func (st *state) limitSetting(name string, def int64) int64 {
	v, ok := st.configs[name]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return def
	}
	return max(n, -1)
}

// checkLimit refuses n more of a resource if they exceed the limits of the owner or of the domains above it. resource
// is a key of limitKinds; storage is in GiB.
func (c *call) checkLimit(owner *account, resource string, n int64) error {
	if owner.rootAdmin() {
		return nil
	}
	k := limitKindOf(resource)
	text := c.st.overAccountLimit(owner, k, n, pick(c.faults, FaultQuota) != nil)
	for d := owner.domain; text == "" && d.parent != nil; d = d.parent {
		text = c.st.overDomainLimit(d, k, n)
	}
	switch {
	case text == "":
		return nil
	case resource == "publicIPs":
		return errf(codeAccountLimit, csAccountLimit, "Maximum number of public IP addresses for account: %s has been exceeded.", owner.name)
	case c.api.Name == "deployVirtualMachine": // this command wraps the error
		return errf(codeAlloc, csGeneric, "%s", text)
	}
	return errf(codeAlloc, csResourceAlloc, "%s", text)
}

// demand is the amount of resources that a command adds to an owner.
type demand struct{ vms, cpus, memMiB, volumes, diskGiB int64 }

// vmDemand returns the demand of one VM of an offering, without volumes.
func vmDemand(o *serviceOffering) demand {
	return demand{vms: 1, cpus: int64(o.cpuNumber), memMiB: int64(o.memMB)}
}

// checkDemand is checkLimit for all resources of one or several VMs.
func (c *call) checkDemand(owner *account, d demand) error {
	for _, r := range []struct {
		resource string
		n        int64
	}{{"virtualMachines", d.vms}, {"cpus", d.cpus}, {"memoryMiB", d.memMiB}, {"volumes", d.volumes}, {"primaryStorageGiB", d.diskGiB}} {
		if r.n == 0 {
			continue
		}
		if err := c.checkLimit(owner, r.resource, r.n); err != nil {
			return err
		}
	}
	return nil
}

// overAccountLimit returns the error text if n more exceed the limit, or else "". exhausted is an injected fault: it
// lowers the limit to the current amount.
func (st *state) overAccountLimit(a *account, k *limitKind, n int64, exhausted bool) string {
	limit := st.limitOf(a, k)
	used := st.used(k, func(o *account) bool { return o == a })
	if exhausted {
		limit = used
	}
	if limit < 0 || used+n <= limit {
		return ""
	}
	who := "Account Name = " + a.name
	if a.project != nil {
		who = "Project Name = " + a.project.name
	}
	return fmt.Sprintf("Maximum amount of resources of Type = '%s', tag = 'null' for %s in Domain Id = %d is exceeded: Account Resource Limit = %s, "+
		"Current Account Resource Amount = %s, Current Account Resource Reservation = %s, Requested Resource Amount = %s.",
		k.name, who, a.domain.id, k.text(limit), k.text(used), k.text(0), k.text(n))
}

func (st *state) overDomainLimit(d *domain, k *limitKind, n int64) string {
	limit := st.domainLimit(d, k)
	used := st.domainUsed(d, k)
	if limit < 0 || used+n <= limit {
		return ""
	}
	return fmt.Sprintf("Maximum domain resource limits of Type '%s' for Domain Id = %s is exceeded: Domain Resource Limit = %s, "+
		"Current Domain Resource Amount = %s, Current Resource Reservation = %s, Requested Resource Amount = %s.",
		k.name, d.uuid, k.text(limit), k.text(used), k.text(0), k.text(n))
}

// text formats an amount like CloudStack's limit errors.
func (k *limitKind) text(n int64) string {
	if !k.storage {
		return strconv.FormatInt(n, 10)
	}
	switch {
	case n <= 0:
		return fmt.Sprintf("%d (%d bytes)", n, n)
	case n < 1024:
		return fmt.Sprintf("%d (%.2f GB)", n*gib, float64(n))
	}
	return fmt.Sprintf("%d (%.4f TB)", n*gib, float64(n)/1024)
}

// domainUsed returns the amount that counts against the limit of a domain: that of all accounts in and below it.
func (st *state) domainUsed(d *domain, k *limitKind) int64 {
	return st.used(k, func(a *account) bool { return a != nil && a.domain.within(d) })
}

// used returns the amount of a resource that the owners have.
func (st *state) used(k *limitKind, owned func(*account) bool) int64 {
	var n int64
	switch k.key {
	case "publicIPs":
		for _, ip := range st.ips.rows {
			if ip.owner != nil && owned(ip.owner) && ip.state != ipAllocating { // counted once it is allocated
				n++
			}
		}
	case "virtualMachines", "volumes", "cpus", "memoryMiB", "primaryStorageGiB":
		for _, v := range st.vms.rows {
			if v.gone() || v.state == vmError || !owned(v.owner) {
				continue
			}
			switch k.key {
			case "cpus":
				n += int64(v.offering.cpuNumber)
			case "memoryMiB":
				n += int64(v.offering.memMB)
			case "volumes":
				n += int64(len(v.volumes))
			case "primaryStorageGiB":
				for _, d := range v.volumes {
					n += d.size / gib
				}
			default:
				n++
			}
		}
	case "networks":
		for _, o := range st.networks.rows {
			if o.owner != nil && !o.removed && owned(o.owner) {
				n++
			}
		}
	case "vpcs":
		for _, v := range st.vpcs.rows {
			if !v.removed && owned(v.owner) {
				n++
			}
		}
	case "projects":
		for _, p := range st.projects.rows {
			if p.removed {
				continue
			}
			for _, m := range p.members {
				if m.admin && owned(m.account) {
					n++
				}
			}
		}
	}
	return n
}
