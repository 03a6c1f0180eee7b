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

	owner        *store.Account
	zone         *store.Zone
	offering     *store.ServiceOffering
	template     *store.Template
	diskOffering *store.DiskOffering
	diskGiB      int
	host         *store.Host
	nics         []store.NICRequest
	name         string
	uuid         string
	details      map[string]string
	userdata     string
	keypairs     []string
	affinity     []*store.AffinityGroup
}

func deployVirtualMachine(c *wire.Call, create NetworkCreator) (*wire.JobSpec, error) {
	d, err := readDeployment(c, create)
	if err != nil {
		return nil, err
	}
	v := &store.VM{
		Entity: store.Entity{UUID: d.uuid, Created: c.Now}, Name: d.name, Display: cmp.Or(c.Str("displayname"), d.name), Owner: d.owner,
		User: ownersUser(c, d.owner), Zone: d.zone, Offering: d.offering, Template: d.template, State: store.VMStopped, Hypervisor: "Simulator",
		Details: d.details, Userdata: d.userdata, Keypairs: d.keypairs, Affinity: d.affinity, WantHost: d.host,
		Hidden: c.Has("displayvm") && !c.Boolean("displayvm"), BootKnown: true,
	}
	if full, ok := c.St.Enter(v, d.nics, c.Now); !ok {
		return nil, noGuestIP(c, full)
	}
	if d.diskOffering != nil {
		c.St.AddDataVolume(v, d.diskOffering, d.diskGiB, c.Now)
	}
	if name := c.Str("group"); name != "" {
		v.Group = groupNamed(c.St, d.owner, name, c.Now)
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
	deployDetails, deployParts, deployDisk, deployUserData, deployHost, deployNetworks, deployOwner, deployLimits, deployAffinity, deployKeys,
	deployAddresses, deployName,
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
	if v, given := d.details["rootdisksize"]; given && store.Gibibytes(v) <= 0 {
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

func deployDisk(c *wire.Call, d *deployment) error {
	if !c.Given("diskofferingid") {
		return nil
	}
	d.diskOffering = wire.Arg[*store.DiskOffering](c, "diskofferingid")
	switch {
	case d.diskOffering == nil || d.diskOffering.Removed:
		return wire.Invalid("Unable to find disk offering %d", c.Refs["diskofferingid"].ID)
	case d.diskOffering.Compute:
		return wire.Invalid("The disk offering id %d provided is directly mapped to a service offering, please provide an individual disk offering", d.diskOffering.ID)
	case d.diskOffering.Gib == 0 && !c.Has("size"):
		return wire.Invalid("This disk offering requires a custom size specified")
	}
	d.diskGiB = d.diskOffering.Gib
	if d.diskGiB == 0 {
		d.diskGiB = c.Integer("size")
	}
	return nil
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
	need.Volumes, need.DiskGiB = 1, store.RootBytes(d.details)/settings.Gib+int64(d.diskGiB)
	if d.diskOffering != nil {
		need.Volumes = 2
	}
	if err := c.CheckDemand(d.owner, need); err != nil {
		return wire.Errf(wire.CodeAlloc, wire.CSGeneric, "%s", wire.AsAPIError(err).Text)
	}
	return nil
}
