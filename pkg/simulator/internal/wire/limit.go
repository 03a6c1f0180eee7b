// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// CheckLimit refuses n more of a resource if they exceed the limits of the owner or of the domains above it. resource
// is a key of limitKinds; storage is in GiB.
func (c *Call) CheckLimit(owner *store.Account, resource string, n int64) error {
	if owner.RootAdmin() {
		return nil
	}
	k := settings.LimitKindOf(resource)
	text := c.St.OverAccountLimit(owner, k, n, fault.Pick(c.Faults, fault.Quota) != nil)
	for d := owner.Domain; text == "" && d.Parent != nil; d = d.Parent {
		text = c.St.OverDomainLimit(d, k, n)
	}
	switch {
	case text == "":
		return nil
	case resource == "publicIPs":
		return Errf(CodeAccountLimit, CSAccountLimit, "Maximum number of public IP addresses for account: %s has been exceeded.", owner.Name)
	case c.API.Name == "deployVirtualMachine": // this command wraps the error
		return Errf(CodeAlloc, CSGeneric, "%s", text)
	}
	return Errf(CodeAlloc, CSResourceAlloc, "%s", text)
}

// Demand is the amount of resources that a command adds to an owner.
type Demand struct{ VMs, CPUs, MemMiB, Volumes, DiskGiB int64 }

// VMDemand returns the demand of one VM of an offering, without volumes.
func VMDemand(o *store.ServiceOffering) Demand {
	return Demand{VMs: 1, CPUs: int64(o.CPUNumber), MemMiB: int64(o.MemMB)}
}

// CheckDemand is checkLimit for all resources of one or several VMs.
func (c *Call) CheckDemand(owner *store.Account, d Demand) error {
	for _, r := range []struct {
		resource string
		n        int64
	}{{"virtualMachines", d.VMs}, {"cpus", d.CPUs}, {"memoryMiB", d.MemMiB}, {"volumes", d.Volumes}, {"primaryStorageGiB", d.DiskGiB}} {
		if r.n == 0 {
			continue
		}
		if err := c.CheckLimit(owner, r.resource, r.n); err != nil {
			return err
		}
	}
	return nil
}
