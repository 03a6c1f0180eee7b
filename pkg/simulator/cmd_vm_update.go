// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/base64"
	"regexp"
	"slices"
	"time"
)

var hostName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]$|^[A-Za-z]$`)

func validHostName(s string) bool { return hostName.MatchString(s) }

// targetVM returns the VM of a command, if the caller has access to it.
func (c *call) targetVM() (*vm, error) {
	v := arg[*vm](c, "id")
	if v == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	if !c.access(v.owner) {
		return nil, denied()
	}
	if v.removed {
		return nil, invalid("Unable to find a virtual machine with id %s", v.uuid)
	}
	return v, nil
}

type vmAnswer struct {
	VM vmView `json:"virtualmachine"`
}

// deniedDetails are details that users cannot see.
var deniedDetails = []string{"rootdisksize", "cpuOvercommitRatio", "memoryOvercommitRatio", reservedFlag}

// readOnlyDetails are details that users cannot change.
var readOnlyDetails = []string{"dataDiskController", "rootDiskController"}

func updateVirtualMachine(c *call) (any, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	if err := c.checkVMUpdate(v); err != nil {
		return nil, err
	}
	userdata, err := c.userDataArg()
	if err != nil {
		return nil, err
	}
	if c.has("userdata") {
		v.userdata = userdata
	}
	if n := c.str("name"); n != "" {
		v.name = n
	}
	if c.has("displayname") {
		v.display = c.str("displayname")
	}
	if b := c.optBool("haenable"); b != nil {
		v.haEnabled = *b
	}
	if b := c.optBool("displayvm"); b != nil {
		v.hidden = !*b
	}
	if b := c.optBool("deleteprotection"); b != nil {
		v.protected = *b
	}
	if o := arg[*osType](c, "ostypeid"); o != nil {
		v.guestOS = o
	}
	if g := c.str("group"); g != "" {
		v.group = c.st.groupNamed(v.owner, g, c.now)
	}
	c.changeDetails(v)
	setCustomID(c, c.st.vms, v)
	return vmAnswer{c.viewVM(v, nil)}, nil
}

// checkVMUpdate makes all checks of updateVirtualMachine, so that nothing changes if one fails.
func (c *call) checkVMUpdate(v *vm) error {
	details := c.detailsArg()
	if !c.boolean("cleanupdetails") {
		if _, bad := details["extraconfig"]; bad {
			return invalid("'extraconfig' should not be included in details as key")
		}
		for k := range details {
			switch {
			case c.caller.rootAdmin():
			case slices.Contains(deniedDetails, k):
				return invalid("You're not allowed to add or edit the restricted setting: %s", k)
			case slices.Contains(readOnlyDetails, k):
				return invalid("You're not allowed to add or edit the read-only setting: %s", k)
			}
		}
		if c.str("extraconfig") != "" {
			return invalid("attempted setting extraconfig but enable.additional.vm.configuration is disabled")
		}
	}
	switch {
	case v.state == vmError || v.state == vmExpunging:
		return invalid("Vm with id %d is not in the right state", v.id)
	case c.boolean("haenable") && !v.offering.offerHA:
		return invalid("Can't enable ha for the vm as it's created from the Service offering having HA disabled")
	case c.boolean("isdynamicallyscalable"):
		return invalid("Dynamic Scaling cannot be enabled for the VM since its template does not have dynamic scaling enabled")
	}
	n, given := c.args["name"]
	if !given {
		return nil
	}
	if !validHostName(n) {
		return invalid("Invalid name. Vm name can contain ASCII letters 'a' through 'z', the digits '0' through '9', " +
			"and the hyphen ('-'), must be between 1 and 63 characters long, and can't start or end with \"-\" and can't start with digit")
	}
	if n == v.name {
		return nil
	}
	var nets []*network
	for _, o := range v.nics {
		nets = append(nets, o.network)
	}
	return c.st.uniqueHostName(n, nets, v)
}

// changeDetails replaces a VM's details. Calls of users keep the denied and read-only details.
func (c *call) changeDetails(v *vm) {
	given := c.detailsArg()
	if len(given) == 0 && !c.boolean("cleanupdetails") {
		return
	}
	if c.boolean("cleanupdetails") {
		clear(given)
	}
	for k, val := range v.details {
		if !c.caller.rootAdmin() && (slices.Contains(deniedDetails, k) || slices.Contains(readOnlyDetails, k)) {
			given[k] = val
		}
	}
	v.details = given
}

// Maximum lengths of user data in base64 for GET and for POST requests.
const (
	maxUserDataGet  = 4096
	maxUserDataPost = 32768
)

// userDataArg reads and validates userdata.
func (c *call) userDataArg() (string, error) {
	v := c.str("userdata")
	if v == "" {
		return "", nil
	}
	raw, err := base64.StdEncoding.DecodeString(v)
	if err != nil {
		raw, err = base64.RawStdEncoding.DecodeString(v)
	}
	switch {
	case err != nil:
		return "", invalid("User data is not base64 encoded")
	case !c.req.post && len(v) >= maxUserDataGet:
		return "", invalid("User data is too long for an http GET request")
	case len(v) >= maxUserDataPost:
		return "", invalid("User data is too long for an http POST request")
	case len(raw) < 1:
		return "", invalid("User data is too short")
	}
	return v, nil
}

// rescale changes the service offering of a VM.
func (c *call) rescale(v *vm) error {
	o := arg[*serviceOffering](c, "serviceofferingid")
	switch {
	case o == nil || o.removed || o.system:
		return invalid("Unable to find service offering: %d", c.refs["serviceofferingid"].id)
	case v.state != vmStopped && v.state != vmRunning:
		return invalid("Unable to upgrade virtual machine %s  in state %s; make sure the virtual machine is stopped/running", v.text(), v.state)
	case v.state == vmRunning && !v.dynScalable:
		return invalid("Unable to scale VM since the VM is not dynamically scalable")
	case o == v.offering:
		return invalid("Not upgrading vm %s since it already has the requested service offering (%s)", v.text(), o.name)
	}
	if more := int64(o.cpuNumber - v.offering.cpuNumber); more > 0 {
		if err := c.checkLimit(v.owner, "cpus", more); err != nil {
			return err
		}
	}
	if more := int64(o.memMB - v.offering.memMB); more > 0 {
		if err := c.checkLimit(v.owner, "memoryMiB", more); err != nil {
			return err
		}
	}
	v.offering = o
	return nil
}

func scaleVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	spec := c.powerJob(v, func(time.Time) (any, error) {
		if err := c.rescale(v); err != nil {
			return nil, err
		}
		return vmAnswer{c.viewVM(v, nil)}, nil
	})
	return spec, nil
}

func changeServiceForVirtualMachine(c *call) (any, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	if err := c.rescale(v); err != nil {
		return nil, err
	}
	return vmAnswer{c.viewVM(v, nil)}, nil
}

func updateVMAffinityGroup(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	return c.powerJob(v, func(time.Time) (any, error) {
		if c.has("affinitygroupids") && c.has("affinitygroupnames") {
			return nil, invalid("affinitygroupids parameter is mutually exclusive with affinitygroupnames parameter")
		}
		if v.state != vmStopped {
			return nil, invalid("Unable update affinity groups of the virtual machine %s in state %s; make sure the virtual machine is stopped and not in an error state before updating.", v.text(), v.state)
		}
		groups, err := c.affinityArg(v.owner)
		if err != nil {
			return nil, err
		}
		v.affinity = groups
		return vmAnswer{c.viewVM(v, nil)}, nil
	}), nil
}

// resetPassword always fails, because no template of the simulator supports passwords.
func resetPassword(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	return c.powerJob(v, func(time.Time) (any, error) {
		switch {
		case v.state == vmError || v.state == vmExpunging:
			return nil, invalid("Vm with id %d is not in the right state", v.id)
		case v.state != vmRunning && v.state != vmStopped:
			return nil, invalid("Vm with id %d is not in the right state", v.id)
		}
		return nil, invalid("Fail to reset password for the virtual machine, the template is not password enabled")
	}), nil
}
