// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strconv"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// counters are the resource counters of an account, a project or a domain, in the order of CloudStack's answers.
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
	VMStopped          *int64  `json:"vmstopped,omitempty"` // not shown for domains
	VMRunning          *int64  `json:"vmrunning,omitempty"`
	ProjectLimit       string  `json:"projectlimit,omitempty"` // not shown for projects
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

// count returns the counters of an account or of a project's hidden account.
func count(st *store.State, a *store.Account) counters {
	own := func(o *store.Account) bool { return o == a }
	c := countersOf(st, func(k *settings.LimitKind) (int64, int64) { return st.LimitOf(a, k), st.Used(k, own) })
	c.VMStopped, c.VMRunning = new(int64), new(int64)
	for _, v := range st.VMs.Rows {
		switch {
		case v.Owner != a || v.Gone():
		case v.State == store.VMRunning:
			*c.VMRunning++
		case v.State == store.VMStopped:
			*c.VMStopped++
		}
	}
	if a.Project != nil {
		c.ProjectLimit, c.ProjectTotal, c.ProjectLeft = "", nil, ""
	}
	return c
}

// countDomain returns the counters of a domain and everything below it.
func countDomain(st *store.State, d *store.Domain) counters {
	return countersOf(st, func(k *settings.LimitKind) (int64, int64) { return st.DomainLimit(d, k), st.DomainUsed(d, k) })
}

// countersOf returns the counters with the limits and totals that of returns.
func countersOf(st *store.State, of func(*settings.LimitKind) (limit, total int64)) counters {
	var c counters
	set := func(key string, limit *string, total *int64, left *string) {
		n, used := of(settings.LimitKindOf(key))
		*limit, *total, *left = "Unlimited", used, "Unlimited"
		if n >= 0 {
			*limit, *left = strconv.FormatInt(n, 10), strconv.FormatInt(n-used, 10)
		}
	}
	c.ProjectTotal = new(int64)
	var secondary int64
	set("virtualMachines", &c.VMLimit, &c.VMTotal, &c.VMLeft)
	set("publicIPs", &c.IPLimit, &c.IPTotal, &c.IPLeft)
	set("volumes", &c.VolumeLimit, &c.VolumeTotal, &c.VolumeLeft)
	set("snapshots", &c.SnapshotLimit, &c.SnapshotTotal, &c.SnapshotLeft)
	set("backups", &c.BackupLimit, &c.BackupTotal, &c.BackupLeft)
	set("backupStorageGiB", &c.BackupStoreLimit, &c.BackupStoreTotal, &c.BackupStoreLeft)
	set("templates", &c.TemplateLimit, &c.TemplateTotal, &c.TemplateLeft)
	set("projects", &c.ProjectLimit, c.ProjectTotal, &c.ProjectLeft)
	set("networks", &c.NetworkLimit, &c.NetworkTotal, &c.NetworkLeft)
	set("vpcs", &c.VPCLimit, &c.VPCTotal, &c.VPCLeft)
	set("cpus", &c.CPULimit, &c.CPUTotal, &c.CPULeft)
	set("memoryMiB", &c.MemoryLimit, &c.MemoryTotal, &c.MemoryLeft)
	set("gpus", &c.GPULimit, &c.GPUTotal, &c.GPULeft)
	set("primaryStorageGiB", &c.PrimaryLimit, &c.PrimaryTotal, &c.PrimaryLeft)
	set("secondaryStorageGiB", &c.SecondaryLimit, &secondary, &c.SecondaryLeft)
	c.SecondaryTotal = float64(secondary)
	if c.SecondaryLimit != "Unlimited" {
		c.SecondaryLeft += ".0" // CloudStack calculates with fractions here
	}
	set("buckets", &c.BucketLimit, &c.BucketTotal, &c.BucketLeft)
	set("objectStorageGiB", &c.ObjectStorageLimit, &c.ObjectStorageTotal, &c.ObjectStorageLeft)
	return c
}
