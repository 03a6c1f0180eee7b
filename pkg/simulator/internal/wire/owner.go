// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// AddressOwner returns the account that will own a new address.
func (c *Call) AddressOwner() (*store.Account, error) {
	if c.Str("account") != "" && c.Given("domainid") { // CloudStack ignores one without the other
		return c.NewOwner()
	}

	if c.Given("projectid") {
		p := Arg[*store.Project](c, "projectid")
		if p == nil || p.Removed {
			return nil, Invalid("Unable to find project by id %s", c.ProjectRef())
		}
		if p.State != store.ProjectActive {
			return nil, Errf(CodeAccount, CSPermission,
				"Can't add resources to the project with specified projectId in state=%s as it's no longer active",
				p.State)
		}
		return p.Account, nil
	}

	if n := Arg[*store.Network](c, "networkid"); n != nil {
		if n.Owner == nil { // a domain's network is owned by the system account
			return nil, Denied()
		}
		return n.Owner, nil
	}

	if v := Arg[*store.VPC](c, "vpcid"); v != nil {
		return v.Owner, nil
	}

	return c.Caller.Account, nil
}

// OnlyNetwork returns the owner's only isolated network in the zone.
func (c *Call) OnlyNetwork(owner *store.Account, z *store.Zone) (*store.Network, error) {
	var hits []*store.Network
	for _, n := range c.St.Networks.Rows {
		if n.Owner == owner && n.Zone == z && n.Typ == store.TypeIsolated && !n.Removed && n.Provides("SourceNat") {
			hits = append(hits, n)
		}
	}
	switch len(hits) {
	case 0:
		return nil, Invalid("Account %s doesn't have virtual networks in zone=%s", store.AccountText(owner), z.UUID)
	case 1:
		return hits[0], nil
	}
	return nil, Invalid("Account has more than one isolated network in the zone")
}

// OwnerArg returns the account that account with domainid, or projectid, specifies as the owner of a new object, or
// nil if the call specifies none. If active is set, the account or project must be able to own new resources.
func (c *Call) OwnerArg(active bool) (*store.Account, error) {
	if name := c.Str("account"); name != "" {
		if !c.Given("domainid") {
			return nil, Invalid("Account must be specified with domainId parameter")
		}
		d := Arg[*store.Domain](c, "domainid")
		if d == nil || d.Removed {
			return nil, Invalid("Unable to find domain by id")
		}
		a, ok := c.St.AccountIn(d, name)
		switch {
		case !ok:
			return nil, Invalid("Unable to find account by name %s in domain with specified id", name)
		case active && a.State != store.StateEnabled:
			return nil, Errf(CodeAccount, CSPermission,
				"Can't add resources to the account %s in state=%s as it's no longer active", store.AccountText(a),
				a.State)
		}
		return a, nil
	}

	if c.Given("projectid") {
		p := Arg[*store.Project](c, "projectid")
		switch {
		case p == nil || p.Removed:
			return nil, Invalid("Unable to find project by id")
		case active && p.State != store.ProjectActive:
			return nil, Errf(CodeAccount, CSPermission,
				"Can't add resources to the project with specified projectId in state=%s as it's no longer active",
				p.State)
		}
		return p.Account, nil
	}

	return nil, nil
}

// NewOwner returns the owner of a new object for commands that ignore the state of the account or project: the
// specified owner, or otherwise the caller.
func (c *Call) NewOwner() (*store.Account, error) {
	me, name := c.Caller.Account, c.Str("account")
	d, p := Arg[*store.Domain](c, "domainid"), Arg[*store.Project](c, "projectid")
	named := name != "" && c.Given("domainid")
	switch {
	case named && c.Given("projectid"):
		return nil, Invalid("ProjectId and account/domainId can't be specified together")
	case c.Given("projectid") && (p == nil || p.Removed):
		return nil, Invalid("Unable to find project by id=%s", c.ProjectRef())
	case c.Given("projectid") && !c.Access(p.Account):
		return nil, Errf(CodeAccount, CSPermission, "Account %s is unauthorised to use project id=%d",
			store.AccountText(me), p.ID)
	case c.Given("projectid"):
		return p.Account, nil
	case name != "" && !named:
		return nil, Invalid("AccountName and domainId must be specified together")
	case !named:
		return me, nil
	case !me.Admin() && (name != me.Name || d != me.Domain):
		return nil, Errf(CodeAccount, CSPermission,
			"Can't create/list resources for account %s in domain %d, permission denied", name, c.Refs["domainid"].ID)
	case !me.Admin():
		return me, nil
	case d == nil || d.Removed:
		return nil, Invalid("Unable to find the domain by id=%d", c.Refs["domainid"].ID)
	}

	a, ok := c.St.AccountIn(d, name)
	switch {
	case !ok:
		return nil, Invalid("Unable to find account %s in domain %s", name, d.Text())
	case !c.DomainAccess(d):
		return nil, Denied()
	}

	return a, nil
}

// OwnerOrCaller is like OwnerArg(true), with the caller as default.
func (c *Call) OwnerOrCaller() (*store.Account, error) {
	a, err := c.OwnerArg(true)
	if a == nil && err == nil {
		return c.Caller.Account, nil
	}
	return a, err
}

// OwnerToUse is like OwnerOrCaller, and checks that the caller has access to the owner.
func (c *Call) OwnerToUse() (*store.Account, error) {
	a, err := c.OwnerOrCaller()
	if err == nil && !c.Access(a) {
		return nil, Denied()
	}
	return a, err
}

// CheckLimit returns an error if n more of a resource exceed the limits of the owner or of the domains above it.
// resource is a key of settings.LimitKinds; storage is in GiB.
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
		return Errf(CodeAccountLimit, CSAccountLimit,
			"Maximum number of public IP addresses for account: %s has been exceeded.", owner.Name)
	case c.API.Name == "deployVirtualMachine": // CloudStack wraps the error in this command
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

// CheckDemand is like CheckLimit, for all resources of one or several VMs.
func (c *Call) CheckDemand(owner *store.Account, d Demand) error {
	for _, r := range []struct {
		resource string
		n        int64
	}{{"virtualMachines", d.VMs}, {"cpus", d.CPUs}, {"memoryMiB", d.MemMiB}, {"volumes", d.Volumes},
		{"primaryStorageGiB", d.DiskGiB}} {
		if r.n == 0 {
			continue
		}
		if err := c.CheckLimit(owner, r.resource, r.n); err != nil {
			return err
		}
	}
	return nil
}
