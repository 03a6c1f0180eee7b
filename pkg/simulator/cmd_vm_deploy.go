// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// deployFlag is a detail of VMs that have never been started.
const deployFlag = "deployvm"

// deployment holds the validated parameters of deployVirtualMachine.
type deployment struct {
	createNetwork networkCreator

	owner        *account
	zone         *zone
	offering     *serviceOffering
	template     *template
	diskOffering *diskOffering
	diskGiB      int
	host         *host
	nics         []nicRequest
	name         string
	uuid         string
	details      map[string]string
	userdata     string
	keypairs     []string
	affinity     []*affinityGroup
}

func deployVirtualMachine(c *call, create networkCreator) (*jobSpec, error) {
	d, err := c.readDeployment(create)
	if err != nil {
		return nil, err
	}
	v := &vm{
		entity: entity{uuid: d.uuid, created: c.now}, name: d.name, display: cmp.Or(c.str("displayname"), d.name), owner: d.owner,
		user: c.ownersUser(d.owner), zone: d.zone, offering: d.offering, template: d.template, state: vmStopped, hypervisor: "Simulator",
		details: d.details, userdata: d.userdata, keypairs: d.keypairs, affinity: d.affinity, wantHost: d.host,
		hidden: c.has("displayvm") && !c.boolean("displayvm"), bootKnown: true,
	}
	if full, ok := c.st.enter(v, d.nics, c.now); !ok {
		return nil, c.noGuestIP(full)
	}
	if d.diskOffering != nil {
		c.st.addDataVolume(v, d.diskOffering, d.diskGiB, c.now)
	}
	if name := c.str("group"); name != "" {
		v.group = c.st.groupNamed(d.owner, name, c.now)
	}
	if c.boolean("copyimagetags") {
		v.tags = slices.Clone(d.template.tags)
	}
	spec := c.powerJob(v, func(now time.Time) (any, error) {
		if !c.boolOr("startvm", true) {
			return vmAnswer{c.viewVM(v, nil)}, nil
		}
		return c.finishStart(v, now)
	})
	if c.boolOr("startvm", true) {
		spec.begin = c.st.starting(v)
		spec.undo = func() { v.failStart(vmError, c.server.clock.Now()) }
	}
	spec.objectID = v.uuid
	return spec, nil
}

// enter stores a new, never started VM with its NICs and its root volume. If a network has no free address, enter
// returns that network and false.
func (st *state) enter(v *vm, nics []nicRequest, now time.Time) (full *network, ok bool) {
	for _, r := range nics {
		if _, ok := st.connect(v, r, now); !ok {
			for _, n := range slices.Clone(v.nics) {
				st.dropNIC(n)
			}
			return r.network, false
		}
	}
	v.unplaced = true
	v.setDetail(deployFlag, "true")
	st.vms.add(v)
	st.addRootVolume(v, entity{created: now}).size = rootBytes(v.details)
	return nil, true
}

// ownersUser returns the user that a new VM shows: the caller, or the first user of the account on whose behalf it
// acts.
func (c *call) ownersUser(owner *account) *user {
	if owner != c.caller.account {
		if users := owner.accountUsers(); len(users) > 0 {
			return users[0]
		}
	}
	return c.caller.user
}

// noGuestIP is the exception for a network without a free address; only admins see its text.
func (c *call) noGuestIP(n *network) *apiError {
	return c.internal(csRuntime, "com.cloud.exception.InsufficientVirtualNetworkCapacityException: Unable to acquire Guest IP address for network %s"+
		"Scope=interface com.cloud.dc.DataCenter; id=%d", n.text(), n.zone.id)
}

// readDeployment checks the call in CloudStack's order.
func (c *call) readDeployment(create networkCreator) (*deployment, error) {
	if n, given := c.args["name"]; given && !validHostName(n) {
		return nil, paramError("Unable to execute API command %s due to invalid value. Invalid value provided for API arg: name - it can contain "+
			"ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-'), must be between 1 and 63 characters long, "+
			"and can't start or end with \"-\" and can't start with digit", c.api.lower)
	}
	if c.given("templateid") == (c.given("snapshotid") || c.given("volumeid")) {
		return nil, c.internal(csRuntime, "Please provide only one of the following parameters - template ID, volume ID or snapshot ID")
	}
	owner, err := c.ownerOrCaller()
	if err != nil {
		return nil, err
	}
	d := &deployment{createNetwork: create, owner: owner, zone: arg[*zone](c, "zoneid"), offering: arg[*serviceOffering](c, "serviceofferingid"), template: arg[*template](c, "templateid")}
	for _, check := range []func(*deployment) error{
		c.deployDetails, c.deployParts, c.deployDisk, c.deployUserData, c.deployHost, c.deployNetworks, c.deployOwner, c.deployLimits,
		c.deployAffinity, c.deployKeys, c.deployAddresses, c.deployName,
	} {
		if err := check(d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// deployParts checks zone, offering and template.
func (c *call) deployParts(d *deployment) error {
	switch {
	case d.zone == nil || d.zone.removed:
		return invalid("Unable to find zone by id=%s", c.str("zoneid"))
	case d.offering == nil || d.offering.removed || d.offering.system:
		return invalid("Unable to find service offering: %d", c.refs["serviceofferingid"].id)
	case d.template == nil || d.template.removed:
		return invalid("Unable to use template %d", c.refs["templateid"].id)
	}
	for k := range d.details {
		if slices.ContainsFunc([]string{"cpuNumber", "cpuSpeed", "memory"}, func(s string) bool { return strings.EqualFold(s, k) }) {
			return invalid("cpuNumber or cpuSpeed or memory should not be specified for static service offering")
		}
	}
	if h := c.str("hypervisor"); h != "" && !strings.EqualFold(h, "Simulator") && knownHypervisor(h) {
		return invalid("Hypervisor passed to the deployVm call, is different from the hypervisor type of the template")
	}
	return nil
}

// deployDetails reads the details map and the parameters that are stored in it.
func (c *call) deployDetails(d *deployment) error {
	d.details = c.detailsArg()
	if _, bad := d.details["extraconfig"]; bad {
		return invalid("'extraconfig' should not be included in details as key")
	}
	if v := c.str("rootdisksize"); v != "" && d.details["rootdisksize"] == "" {
		d.details["rootdisksize"] = v
	}
	if v, given := d.details["rootdisksize"]; given && gibibytes(v) <= 0 {
		return invalid("Root disk size should be a positive number.")
	}
	if v := c.str("keyboard"); v != "" {
		d.details["keyboard"] = v
	}
	if err := c.bootDetail(d.details); err != nil {
		return err
	}
	if c.str("extraconfig") != "" {
		return invalid("attempted setting extraconfig but enable.additional.vm.configuration is disabled")
	}
	return nil
}

// bootDetail converts boottype and bootmode to a detail such as UEFI=SECURE.
func (c *call) bootDetail(details map[string]string) error {
	typ, mode := strings.ToUpper(strings.TrimSpace(c.str("boottype"))), strings.ToUpper(strings.TrimSpace(c.str("bootmode")))
	switch {
	case typ != "" && typ != "UEFI" && typ != "BIOS":
		return invalid("Invalid bootType %sSpecified for vm %s Valid values are: [UEFI, BIOS]", c.str("boottype"), c.str("name"))
	case mode != "" && mode != "LEGACY" && mode != "SECURE":
		return invalid("Invalid bootmode: %s specified for VM: %s. Valid values are: [LEGACY, SECURE]", c.str("bootmode"), c.str("name"))
	case typ == "UEFI" && mode == "":
		return invalid("bootmode must be specified for the VM with boot type: UEFI. Valid values are: [LEGACY, SECURE]")
	case typ == "UEFI":
		details[typ] = mode
	}
	return nil
}

// detailsArg reads details[i].key=value. The result is never nil.
func (c *call) detailsArg() map[string]string {
	out := map[string]string{}
	for _, e := range c.maps["details"] {
		for k, v := range e {
			out[k] = v
		}
	}
	return out
}

func (c *call) deployDisk(d *deployment) error {
	if !c.given("diskofferingid") {
		return nil
	}
	d.diskOffering = arg[*diskOffering](c, "diskofferingid")
	switch {
	case d.diskOffering == nil || d.diskOffering.removed:
		return invalid("Unable to find disk offering %d", c.refs["diskofferingid"].id)
	case d.diskOffering.compute:
		return invalid("The disk offering id %d provided is directly mapped to a service offering, please provide an individual disk offering", d.diskOffering.id)
	case d.diskOffering.gib == 0 && !c.has("size"):
		return invalid("This disk offering requires a custom size specified")
	}
	d.diskGiB = d.diskOffering.gib
	if d.diskGiB == 0 {
		d.diskGiB = c.integer("size")
	}
	return nil
}

func (c *call) deployUserData(d *deployment) error {
	var err error
	d.userdata, err = c.userDataArg()
	return err
}

func (c *call) deployHost(d *deployment) error {
	for _, p := range []string{"hostid", "podid", "clusterid"} {
		if c.given(p) && !c.caller.rootAdmin() {
			return errf(codeAccount, csPermission, "Parameter %s can only be specified by a Root Admin, permission denied", p)
		}
	}
	d.host = arg[*host](c, "hostid")
	return nil
}

func (c *call) deployOwner(d *deployment) error {
	switch {
	case d.owner.state == stateDisabled:
		return errf(codeAccount, csPermission, "The owner of vm to deploy is disabled: %s", accountText(d.owner))
	case !d.zone.enabled && !c.caller.rootAdmin():
		return errf(codeAccount, csPermission, "Cannot perform this operation, Zone is currently disabled: %d", d.zone.id)
	}
	return nil
}

func (c *call) deployLimits(d *deployment) error {
	need := vmDemand(d.offering)
	need.volumes, need.diskGiB = 1, rootBytes(d.details)/gib+int64(d.diskGiB)
	if d.diskOffering != nil {
		need.volumes = 2
	}
	if err := c.checkDemand(d.owner, need); err != nil {
		return errf(codeAlloc, csGeneric, "%s", asAPIError(err).text)
	}
	return nil
}
