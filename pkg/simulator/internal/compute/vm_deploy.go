// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// deployment holds the validated parameters of deployVirtualMachine.
type deployment struct {
	owner    *store.Account
	zone     *store.Zone
	offering *store.ServiceOffering
	template *store.Template
	nics     []store.NICRequest
	name     string
	uuid     string
}

func deployVirtualMachine(c *wire.Call) (*wire.JobSpec, error) {
	d, err := readDeployment(c)
	if err != nil {
		return nil, err
	}

	v := &store.VM{
		Entity:     store.Entity{UUID: d.uuid, Created: c.Now},
		Name:       d.name,
		Display:    cmp.Or(c.Str("displayname"), d.name),
		Owner:      d.owner,
		User:       ownersUser(c, d.owner),
		Zone:       d.zone,
		Offering:   d.offering,
		Template:   d.template,
		State:      store.VMStopped,
		Hypervisor: "Simulator",
		Details:    map[string]string{},
		BootKnown:  true,
	}

	if full, ok := c.St.Enter(v, d.nics, c.Now); !ok {
		return nil, noGuestIP(c, full)
	}

	spec := powerJob(c, v, func(now time.Time) (any, error) {
		if !c.BoolOr("startvm", true) {
			return wire.Object("virtualmachine", view.ViewVM(c, v, nil)), nil
		}
		return finishStart(c, v, now)
	})

	if c.BoolOr("startvm", true) {
		spec.Begin = starting(c.St, v)
		spec.Undo = func() { v.FailStart(store.VMError, c.Server.Clock.Now()) }
	}

	spec.ObjectID = v.UUID
	return spec, nil
}

// ownersUser returns the user that a new VM shows: the caller, or the first user of the account for which the caller
// acts.
func ownersUser(c *wire.Call, owner *store.Account) *store.User {
	if owner != c.Caller.Account {
		if users := owner.AccountUsers(); len(users) > 0 {
			return users[0]
		}
	}
	return c.Caller.User
}

// noGuestIP returns the exception for a network without a free address; only admins see its text.
func noGuestIP(c *wire.Call, n *store.Network) *wire.Error {
	return c.Internal(wire.CSRuntime, "com.cloud.exception.InsufficientVirtualNetworkCapacityException: Unable to "+
		"acquire Guest IP address for network %sScope=interface com.cloud.dc.DataCenter; id=%d", n.Text(),
		n.Zone.ID)
}

// readDeployment checks the call in CloudStack's order.
func readDeployment(c *wire.Call) (*deployment, error) {
	if n, given := c.Args["name"]; given && !wire.ValidHostName(n) {
		return nil, wire.ParamError("Unable to execute API command %s due to invalid value. Invalid value provided "+
			"for API arg: name - it can contain ASCII letters 'a' through 'z', the digits '0' through '9', and "+
			"the hyphen ('-'), must be between 1 and 63 characters long, and can't start or end with \"-\" and "+
			"can't start with digit", c.API.Lower)
	}

	if !c.Given("templateid") {
		return nil, c.Internal(wire.CSRuntime,
			"Please provide only one of the following parameters - template ID, volume ID or snapshot ID")
	}

	owner, err := c.OwnerOrCaller()
	if err != nil {
		return nil, err
	}

	d := &deployment{
		owner:    owner,
		zone:     wire.Arg[*store.Zone](c, "zoneid"),
		offering: wire.Arg[*store.ServiceOffering](c, "serviceofferingid"),
		template: wire.Arg[*store.Template](c, "templateid"),
	}

	for _, check := range deployChecks {
		if err := check(c, d); err != nil {
			return nil, err
		}
	}

	return d, nil
}

// deployChecks are the checks of deployVirtualMachine in CloudStack's order.
var deployChecks = []func(*wire.Call, *deployment) error{
	deployParts, deployNetworks, deployOwner, deployLimits, deployAddresses, deployName,
}

// deployParts checks zone, offering and template.
func deployParts(c *wire.Call, d *deployment) error {
	switch {
	case d.zone == nil || d.zone.Removed:
		return wire.Invalid("Unable to find zone by id=%s", c.Str("zoneid"))
	case d.offering == nil || d.offering.Removed:
		return wire.Invalid("Unable to find service offering: %d", c.Refs["serviceofferingid"].ID)
	case d.template == nil || d.template.Removed:
		return wire.Invalid("Unable to use template %d", c.Refs["templateid"].ID)
	}
	return nil
}

func deployOwner(c *wire.Call, d *deployment) error {
	switch {
	case d.owner.State == store.StateDisabled:
		return wire.Errf(wire.CodeAccount, wire.CSPermission, "The owner of vm to deploy is disabled: %s",
			store.AccountText(d.owner))
	case !d.zone.Enabled && !c.Caller.RootAdmin():
		return wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Cannot perform this operation, Zone is currently disabled: %d", d.zone.ID)
	}
	return nil
}

func deployLimits(c *wire.Call, d *deployment) error {
	need := wire.VMDemand(d.offering)
	need.Volumes, need.DiskGiB = 1, store.TemplateGiB
	if err := c.CheckDemand(d.owner, need); err != nil {
		return wire.Errf(wire.CodeAlloc, wire.CSGeneric, "%s", wire.AsAPIError(err).Text)
	}
	return nil
}

// listSSHKeyPairs returns an empty list: the simulator has no key pairs.
func listSSHKeyPairs(c *wire.Call) (any, error) {
	if _, err := c.OwnerScope(false); err != nil {
		return nil, err
	}
	return wire.Page(c, "sshkeypair", []struct{}(nil), func(v struct{}) struct{} { return v })
}
