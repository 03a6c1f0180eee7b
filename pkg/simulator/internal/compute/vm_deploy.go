// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// deployment holds the validated parameters of deployVirtualMachine.
type deployment struct {
	createNetwork NetworkCreator

	owner    *store.Account
	zone     *store.Zone
	offering *store.ServiceOffering
	template *store.Template
	host     *store.Host
	nics     []store.NICRequest
	name     string
	uuid     string
	details  map[string]string
	userdata string
}

func deployVirtualMachine(c *wire.Call, create NetworkCreator) (*wire.JobSpec, error) {
	d, err := readDeployment(c, create)
	if err != nil {
		return nil, err
	}
	v := &store.VM{
		Entity: store.Entity{UUID: d.uuid, Created: c.Now}, Name: d.name, Display: cmp.Or(c.Str("displayname"), d.name), Owner: d.owner,
		User: ownersUser(c, d.owner), Zone: d.zone, Offering: d.offering, Template: d.template, State: store.VMStopped, Hypervisor: "Simulator",
		Details: d.details, Userdata: d.userdata, WantHost: d.host,
		Hidden: c.Has("displayvm") && !c.Boolean("displayvm"), BootKnown: true,
	}
	if full, ok := c.St.Enter(v, d.nics, c.Now); !ok {
		return nil, noGuestIP(c, full)
	}
	if c.Boolean("copyimagetags") {
		v.Tags = slices.Clone(d.template.Tags)
	}
	spec := powerJob(c, v, func(now time.Time) (any, error) {
		if !c.BoolOr("startvm", true) {
			return vmAnswer{view.ViewVM(c, v, nil)}, nil
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

// ownersUser returns the user that a new VM shows: the caller, or the first user of the account on whose behalf it
// acts.
func ownersUser(c *wire.Call, owner *store.Account) *store.User {
	if owner != c.Caller.Account {
		if users := owner.AccountUsers(); len(users) > 0 {
			return users[0]
		}
	}
	return c.Caller.User
}

// noGuestIP is the exception for a network without a free address; only admins see its text.
func noGuestIP(c *wire.Call, n *store.Network) *wire.Error {
	return c.Internal(wire.CSRuntime, "com.cloud.exception.InsufficientVirtualNetworkCapacityException: Unable to acquire Guest IP address for network %s"+
		"Scope=interface com.cloud.dc.DataCenter; id=%d", n.Text(), n.Zone.ID)
}

// readDeployment checks the call in CloudStack's order.
func readDeployment(c *wire.Call, create NetworkCreator) (*deployment, error) {
	if n, given := c.Args["name"]; given && !wire.ValidHostName(n) {
		return nil, wire.ParamError("Unable to execute API command %s due to invalid value. Invalid value provided for API arg: name - it can contain "+
			"ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-'), must be between 1 and 63 characters long, "+
			"and can't start or end with \"-\" and can't start with digit", c.API.Lower)
	}
	if c.Given("templateid") == (c.Given("snapshotid") || c.Given("volumeid")) {
		return nil, c.Internal(wire.CSRuntime, "Please provide only one of the following parameters - template ID, volume ID or snapshot ID")
	}
	owner, err := c.OwnerOrCaller()
	if err != nil {
		return nil, err
	}
	d := &deployment{
		createNetwork: create, owner: owner, zone: wire.Arg[*store.Zone](c, "zoneid"),
		offering: wire.Arg[*store.ServiceOffering](c, "serviceofferingid"), template: wire.Arg[*store.Template](c, "templateid"),
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
	deployDetails, deployParts, deployUserData, deployHost, deployNetworks, deployOwner, deployLimits,
	deployKeys, deployAddresses, deployName,
}

// deployParts checks zone, offering and template.
func deployParts(c *wire.Call, d *deployment) error {
	switch {
	case d.zone == nil || d.zone.Removed:
		return wire.Invalid("Unable to find zone by id=%s", c.Str("zoneid"))
	case d.offering == nil || d.offering.Removed || d.offering.System:
		return wire.Invalid("Unable to find service offering: %d", c.Refs["serviceofferingid"].ID)
	case d.template == nil || d.template.Removed:
		return wire.Invalid("Unable to use template %d", c.Refs["templateid"].ID)
	}
	for k := range d.details {
		if slices.ContainsFunc([]string{"cpuNumber", "cpuSpeed", "memory"}, func(s string) bool { return strings.EqualFold(s, k) }) {
			return wire.Invalid("cpuNumber or cpuSpeed or memory should not be specified for static service offering")
		}
	}
	if h := c.Str("hypervisor"); h != "" && !strings.EqualFold(h, "Simulator") && knownHypervisor(h) {
		return wire.Invalid("Hypervisor passed to the deployVm call, is different from the hypervisor type of the template")
	}
	return nil
}

// deployDetails reads the details map and the parameters that are stored in it.
func deployDetails(c *wire.Call, d *deployment) error {
	d.details = detailsArg(c)
	if _, bad := d.details["extraconfig"]; bad {
		return wire.Invalid("'extraconfig' should not be included in details as key")
	}
	if v := c.Str("rootdisksize"); v != "" && d.details["rootdisksize"] == "" {
		d.details["rootdisksize"] = v
	}
	if v, given := d.details["rootdisksize"]; given && settings.Atoi(v) <= 0 {
		return wire.Invalid("Root disk size should be a positive number.")
	}
	if v := c.Str("keyboard"); v != "" {
		d.details["keyboard"] = v
	}
	if err := bootDetail(c, d.details); err != nil {
		return err
	}
	if c.Str("extraconfig") != "" {
		return wire.Invalid("attempted setting extraconfig but enable.additional.vm.configuration is disabled")
	}
	return nil
}

// bootDetail converts boottype and bootmode to a detail such as UEFI=SECURE.
func bootDetail(c *wire.Call, details map[string]string) error {
	typ, mode := strings.ToUpper(strings.TrimSpace(c.Str("boottype"))), strings.ToUpper(strings.TrimSpace(c.Str("bootmode")))
	switch {
	case typ != "" && typ != "UEFI" && typ != "BIOS":
		return wire.Invalid("Invalid bootType %sSpecified for vm %s Valid values are: [UEFI, BIOS]", c.Str("boottype"), c.Str("name"))
	case mode != "" && mode != "LEGACY" && mode != "SECURE":
		return wire.Invalid("Invalid bootmode: %s specified for VM: %s. Valid values are: [LEGACY, SECURE]", c.Str("bootmode"), c.Str("name"))
	case typ == "UEFI" && mode == "":
		return wire.Invalid("bootmode must be specified for the VM with boot type: UEFI. Valid values are: [LEGACY, SECURE]")
	case typ == "UEFI":
		details[typ] = mode
	}
	return nil
}

// detailsArg reads details[i].key=value. The result is never nil.
func detailsArg(c *wire.Call) map[string]string {
	out := map[string]string{}
	for _, e := range c.Maps["details"] {
		for k, v := range e {
			out[k] = v
		}
	}
	return out
}

func deployUserData(c *wire.Call, d *deployment) error {
	var err error
	d.userdata, err = userDataArg(c)
	return err
}

func deployHost(c *wire.Call, d *deployment) error {
	for _, p := range []string{"hostid", "podid", "clusterid"} {
		if c.Given(p) && !c.Caller.RootAdmin() {
			return wire.Errf(wire.CodeAccount, wire.CSPermission, "Parameter %s can only be specified by a Root Admin, permission denied", p)
		}
	}
	d.host = wire.Arg[*store.Host](c, "hostid")
	return nil
}

func deployOwner(c *wire.Call, d *deployment) error {
	switch {
	case d.owner.State == store.StateDisabled:
		return wire.Errf(wire.CodeAccount, wire.CSPermission, "The owner of vm to deploy is disabled: %s", store.AccountText(d.owner))
	case !d.zone.Enabled && !c.Caller.RootAdmin():
		return wire.Errf(wire.CodeAccount, wire.CSPermission, "Cannot perform this operation, Zone is currently disabled: %d", d.zone.ID)
	}
	return nil
}

func deployLimits(c *wire.Call, d *deployment) error {
	need := wire.VMDemand(d.offering)
	need.Volumes, need.DiskGiB = 1, store.RootGiB(d.details)
	if err := c.CheckDemand(d.owner, need); err != nil {
		return wire.Errf(wire.CodeAlloc, wire.CSGeneric, "%s", wire.AsAPIError(err).Text)
	}
	return nil
}

// deployKeys refuses key pairs: the simulator has none.
func deployKeys(c *wire.Call, _ *deployment) error {
	if c.Str("keypair") != "" || len(c.List("keypairs")) > 0 {
		return wire.Invalid("Not all specified keyparis exist")
	}
	return nil
}

// listSSHKeyPairs answers an empty list: the simulator has no key pairs.
func listSSHKeyPairs(c *wire.Call) (any, error) {
	if _, err := c.OwnerScope(false); err != nil {
		return nil, err
	}
	return wire.Page(c, "sshkeypair", []struct{}(nil), func(v struct{}) struct{} { return v })
}
