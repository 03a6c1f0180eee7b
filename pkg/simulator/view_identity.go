// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"
)

// userView is the object user.
type userView struct {
	ID          string     `json:"id"`
	Username    string     `json:"username"`
	FirstName   string     `json:"firstname"`
	LastName    string     `json:"lastname"`
	Email       string     `json:"email,omitempty"`
	Created     *timestamp `json:"created"`
	State       string     `json:"state"`
	Account     string     `json:"account"`
	AccountType int        `json:"accounttype"`
	Source      string     `json:"usersource"`
	RoleID      string     `json:"roleid"`
	RoleType    string     `json:"roletype"`
	RoleName    string     `json:"rolename"`
	DomainID    string     `json:"domainid"`
	Domain      string     `json:"domain"`
	Timezone    string     `json:"timezone,omitempty"`
	APIKey      string     `json:"apikey,omitempty"`
	AccountID   string     `json:"accountid"`
	ChildDomain bool       `json:"iscallerchilddomain"`
	IsDefault   bool       `json:"isdefault"`
	Is2FA       bool       `json:"is2faenabled"`
	Must2FA     bool       `json:"is2famandated"`
	KeyAccess   string     `json:"apikeyaccess,omitempty"`
}

func (c *call) viewUser(u *user) userView {
	a := u.account
	v := userView{
		ID: u.uuid, Username: u.username, FirstName: u.firstName, LastName: u.lastName, Email: u.email, Created: stamp(u.created), State: u.state,
		Account: a.name, AccountType: a.typ(), Source: "native", RoleID: a.role.uuid, RoleType: a.role.kind, RoleName: a.role.name,
		DomainID: a.domain.uuid, Domain: a.domain.name, APIKey: u.apiKey, AccountID: a.uuid, IsDefault: u.builtin, KeyAccess: "",
	}
	return v
}

// withAdminView adds what lists show to admins.
func (c *call) withAdminView(v userView, u *user) userView {
	mine := c.caller.account.domain
	v.ChildDomain = u.account.domain != mine && u.account.domain.within(mine)
	v.KeyAccess = c.keyAccess(u.keyAccess)
	return v
}

// keyAccess shows root admins whether API keys may be used.
func (c *call) keyAccess(s string) string {
	switch {
	case !c.caller.rootAdmin():
		return ""
	case s == "":
		return "INHERIT"
	}
	return strings.ToUpper(s)
}

// counter is a resource with limit, total and what is left, all but the total as text.
type counter struct {
	limit, total int64
}

func (n counter) limitText() string {
	if n.limit < 0 {
		return "Unlimited"
	}
	return strconv.FormatInt(n.limit, 10)
}

func (n counter) left() string {
	if n.limit < 0 {
		return "Unlimited"
	}
	return strconv.FormatInt(n.limit-n.total, 10)
}

// counters are the resource counters of an account or project, in the server's order.
type counters struct {
	VMLimit            string  `json:"vmlimit"`
	VMTotal            int64   `json:"vmtotal"`
	VMLeft             string  `json:"vmavailable"`
	IPLimit            string  `json:"iplimit"`
	IPTotal            int64   `json:"iptotal"`
	IPLeft             string  `json:"ipavailable"`
	VolumeLimit        string  `json:"volumelimit"`
	VolumeTotal        int64   `json:"volumetotal"`
	VolumeLeft         string  `json:"volumeavailable"`
	SnapshotLimit      string  `json:"snapshotlimit"`
	SnapshotTotal      int64   `json:"snapshottotal"`
	SnapshotLeft       string  `json:"snapshotavailable"`
	BackupLimit        string  `json:"backuplimit"`
	BackupTotal        int64   `json:"backuptotal"`
	BackupLeft         string  `json:"backupavailable"`
	BackupStoreLimit   string  `json:"backupstoragelimit"`
	BackupStoreTotal   int64   `json:"backupstoragetotal"`
	BackupStoreLeft    string  `json:"backupstorageavailable"`
	TemplateLimit      string  `json:"templatelimit"`
	TemplateTotal      int64   `json:"templatetotal"`
	TemplateLeft       string  `json:"templateavailable"`
	VMStopped          int64   `json:"vmstopped"`
	VMRunning          int64   `json:"vmrunning"`
	ProjectLimit       string  `json:"projectlimit,omitempty"`
	ProjectTotal       *int64  `json:"projecttotal,omitempty"`
	ProjectLeft        string  `json:"projectavailable,omitempty"`
	NetworkLimit       string  `json:"networklimit"`
	NetworkTotal       int64   `json:"networktotal"`
	NetworkLeft        string  `json:"networkavailable"`
	VPCLimit           string  `json:"vpclimit"`
	VPCTotal           int64   `json:"vpctotal"`
	VPCLeft            string  `json:"vpcavailable"`
	CPULimit           string  `json:"cpulimit"`
	CPUTotal           int64   `json:"cputotal"`
	CPULeft            string  `json:"cpuavailable"`
	MemoryLimit        string  `json:"memorylimit"`
	MemoryTotal        int64   `json:"memorytotal"`
	MemoryLeft         string  `json:"memoryavailable"`
	GPULimit           string  `json:"gpulimit"`
	GPUTotal           int64   `json:"gputotal"`
	GPULeft            string  `json:"gpuavailable"`
	PrimaryLimit       string  `json:"primarystoragelimit"`
	PrimaryTotal       int64   `json:"primarystoragetotal"`
	PrimaryLeft        string  `json:"primarystorageavailable"`
	SecondaryLimit     string  `json:"secondarystoragelimit"`
	SecondaryTotal     float64 `json:"secondarystoragetotal"`
	SecondaryLeft      string  `json:"secondarystorageavailable"`
	BucketLimit        string  `json:"bucketlimit"`
	BucketTotal        int64   `json:"buckettotal"`
	BucketLeft         string  `json:"bucketavailable"`
	ObjectStorageLimit string  `json:"objectstoragelimit"`
	ObjectStorageTotal int64   `json:"objectstoragetotal"`
	ObjectStorageLeft  string  `json:"objectstorageavailable"`
}

// diskGiB is the root disk that a VM of the built-in template counts for.
const diskGiB = 2

// count fills the counters of an owner.
func (st *state) count(a *account) counters {
	var vms, running, stopped, cpus, memory, nets, vpcs, projects int64
	for _, v := range st.vms.rows {
		if v.owner != a || v.gone() {
			continue
		}
		vms++
		cpus += int64(v.offering.cpuNumber)
		memory += int64(v.offering.memMB)
		switch v.state {
		case vmRunning:
			running++
		case vmStopped:
			stopped++
		}
	}
	for _, n := range st.networks.rows {
		if n.owner == a && !n.removed {
			nets++
		}
	}
	for _, v := range st.vpcs.rows {
		if v.owner == a && !v.removed {
			vpcs++
		}
	}
	for _, p := range st.projects.rows {
		if !p.removed && p.members[0].account == a {
			projects++
		}
	}
	of := func(resource string, total int64) counter { return counter{a.limit(resource), total} }
	fixed := func(limit, total int64) counter {
		if a.rootAdmin() {
			limit = -1
		}
		return counter{limit, total}
	}
	var c counters
	set := func(n counter, limit *string, total *int64, left *string) {
		*limit, *total, *left = n.limitText(), n.total, n.left()
	}
	set(of("virtualMachines", vms), &c.VMLimit, &c.VMTotal, &c.VMLeft)
	set(of("publicIPs", st.countIPs(a)), &c.IPLimit, &c.IPTotal, &c.IPLeft)
	set(of("volumes", vms), &c.VolumeLimit, &c.VolumeTotal, &c.VolumeLeft)
	set(of("snapshots", 0), &c.SnapshotLimit, &c.SnapshotTotal, &c.SnapshotLeft)
	set(fixed(20, 0), &c.BackupLimit, &c.BackupTotal, &c.BackupLeft)
	set(fixed(400, 0), &c.BackupStoreLimit, &c.BackupStoreTotal, &c.BackupStoreLeft)
	set(of("templates", 0), &c.TemplateLimit, &c.TemplateTotal, &c.TemplateLeft)
	c.VMStopped, c.VMRunning = stopped, running
	if a.project == nil {
		c.ProjectTotal = new(int64)
		set(of("projects", projects), &c.ProjectLimit, c.ProjectTotal, &c.ProjectLeft)
	}
	set(of("networks", nets), &c.NetworkLimit, &c.NetworkTotal, &c.NetworkLeft)
	set(of("vpcs", vpcs), &c.VPCLimit, &c.VPCTotal, &c.VPCLeft)
	set(of("cpus", cpus), &c.CPULimit, &c.CPUTotal, &c.CPULeft)
	set(of("memoryMiB", memory), &c.MemoryLimit, &c.MemoryTotal, &c.MemoryLeft)
	set(fixed(20, 0), &c.GPULimit, &c.GPUTotal, &c.GPULeft)
	set(fixed(200, vms*diskGiB), &c.PrimaryLimit, &c.PrimaryTotal, &c.PrimaryLeft)
	sec := fixed(400, 0)
	c.SecondaryLimit, c.SecondaryLeft = sec.limitText(), sec.left()
	if sec.limit >= 0 {
		c.SecondaryLeft += ".0"
	}
	set(fixed(20, 0), &c.BucketLimit, &c.BucketTotal, &c.BucketLeft)
	set(fixed(400, 0), &c.ObjectStorageLimit, &c.ObjectStorageTotal, &c.ObjectStorageLeft)
	return c
}
