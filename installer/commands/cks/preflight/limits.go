// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// demand is what an operation uses in addition.
type demand struct{ VMs, CPUs, MemoryMiB, Volumes, StorageGiB, PublicIPs, Networks int }

// nodes adds n nodes of an offering; nil counts without CPUs and memory.
func (d *demand) nodes(n int, o *cloudstack.ServiceOffering, diskGiB int) {
	d.VMs, d.Volumes, d.StorageGiB = d.VMs+n, d.Volumes+n, d.StorageGiB+n*diskGiB
	if o != nil {
		d.CPUs, d.MemoryMiB = d.CPUs+n*o.CPUs, d.MemoryMiB+n*o.MemoryMiB
	}
}

// limits compares a demand with what is left of the owner's limits.
func (c *check) limits(s Severity, d demand) {
	if d == (demand{}) || !c.read("limit", SubjectQuota) || c.Quota == nil {
		return
	}
	q := c.Quota
	for _, r := range []struct {
		noun string
		need int
		cloudstack.Usage
	}{
		{"VMs", d.VMs, q.VMs}, {"CPUs", d.CPUs, q.CPUs}, {"MiB of memory", d.MemoryMiB, q.MemoryMiB}, {"volumes", d.Volumes, q.Volumes},
		{"GiB of primary storage", d.StorageGiB, q.StorageGiB}, {"public addresses", d.PublicIPs, q.PublicIPs}, {"networks", d.Networks, q.Networks},
	} {
		if left, unlimited := r.Free(); !unlimited && r.need > left {
			c.add(s, "limit", q.Owner, fmt.Sprintf("%d %s are needed, and %d of %d are left", r.need, r.noun, left, r.Max),
				"free some, ask for less, or ask an administrator to raise the limit", references["limit"])
		}
	}
}

// addresses compares the public addresses that are needed with those that the zone has.
func (c *check) addresses(d demand, zoneID string) {
	if d.PublicIPs > 0 && c.read("no-free-address", SubjectFree) && c.FreeAddresses < d.PublicIPs {
		c.fail("no-free-address", "zone "+zoneID, "release an address that nobody needs, or ask an administrator to add a range of public addresses",
			"the cluster needs a public address, and the zone has no free one")
	}
}

// maxSize says that the largest allowed cluster is not known.
func (c *check) maxSize(nodes int) {
	c.add(NotChecked, "cluster-max-size", "the setting cloud.kubernetes.cluster.max.size",
		fmt.Sprintf("only administrators can read it (CloudStack's default is 10 nodes); the cluster would have %d", nodes), "", "")
}
