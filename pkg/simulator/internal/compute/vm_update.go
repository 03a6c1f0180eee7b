// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"encoding/base64"
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// targetVM returns the VM of a command, if the caller has access to it.
func targetVM(c *wire.Call) (*store.VM, error) {
	v := wire.Arg[*store.VM](c, "id")
	if v == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	if !c.Access(v.Owner) {
		return nil, wire.Denied()
	}
	if v.Removed {
		return nil, wire.Invalid("Unable to find a virtual machine with id %s", v.UUID)
	}
	return v, nil
}

type vmAnswer struct {
	VM view.VMView `json:"virtualmachine"`
}

// readOnlyDetails are details that users cannot change.
var readOnlyDetails = []string{"dataDiskController", "rootDiskController"}

func updateVirtualMachine(c *wire.Call) (any, error) {
	v, err := targetVM(c)
	if err != nil {
		return nil, err
	}
	if err := checkVMUpdate(c, v); err != nil {
		return nil, err
	}
	userdata, err := userDataArg(c)
	if err != nil {
		return nil, err
	}
	if c.Has("userdata") {
		v.Userdata = userdata
	}
	if n := c.Str("name"); n != "" {
		v.Name = n
	}
	if c.Has("displayname") {
		v.Display = c.Str("displayname")
	}
	if b := c.OptBool("haenable"); b != nil {
		v.HaEnabled = *b
	}
	if b := c.OptBool("displayvm"); b != nil {
		v.Hidden = !*b
	}
	if b := c.OptBool("deleteprotection"); b != nil {
		v.Protected = *b
	}
	changeDetails(c, v)
	wire.SetCustomID(c, c.St.VMs, v)
	return vmAnswer{view.ViewVM(c, v, nil)}, nil
}

// checkVMUpdate makes all checks of updateVirtualMachine, so that nothing changes if one fails.
func checkVMUpdate(c *wire.Call, v *store.VM) error {
	details := detailsArg(c)
	if !c.Boolean("cleanupdetails") {
		if _, bad := details["extraconfig"]; bad {
			return wire.Invalid("'extraconfig' should not be included in details as key")
		}
		for k := range details {
			switch {
			case c.Caller.RootAdmin():
			case slices.Contains(view.DeniedDetails, k):
				return wire.Invalid("You're not allowed to add or edit the restricted setting: %s", k)
			case slices.Contains(readOnlyDetails, k):
				return wire.Invalid("You're not allowed to add or edit the read-only setting: %s", k)
			}
		}
		if c.Str("extraconfig") != "" {
			return wire.Invalid("attempted setting extraconfig but enable.additional.vm.configuration is disabled")
		}
	}
	switch {
	case v.State == store.VMError || v.State == store.VMExpunging:
		return wire.Invalid("Vm with id %d is not in the right state", v.ID)
	case c.Boolean("haenable") && !v.Offering.OfferHA:
		return wire.Invalid("Can't enable ha for the vm as it's created from the Service offering having HA disabled")
	case c.Boolean("isdynamicallyscalable"):
		return wire.Invalid("Dynamic Scaling cannot be enabled for the VM since its template does not have dynamic scaling enabled")
	}
	n, given := c.Args["name"]
	if !given {
		return nil
	}
	if !wire.ValidHostName(n) {
		return wire.Invalid("Invalid name. Vm name can contain ASCII letters 'a' through 'z', the digits '0' through '9', " +
			"and the hyphen ('-'), must be between 1 and 63 characters long, and can't start or end with \"-\" and can't start with digit")
	}
	if n == v.Name {
		return nil
	}
	var nets []*store.Network
	for _, o := range v.NICs {
		nets = append(nets, o.Network)
	}
	return uniqueHostName(c.St, n, nets, v)
}

// changeDetails replaces a VM's details. Calls of users keep the denied and read-only details.
func changeDetails(c *wire.Call, v *store.VM) {
	given := detailsArg(c)
	if len(given) == 0 && !c.Boolean("cleanupdetails") {
		return
	}
	if c.Boolean("cleanupdetails") {
		clear(given)
	}
	for k, val := range v.Details {
		if !c.Caller.RootAdmin() && (slices.Contains(view.DeniedDetails, k) || slices.Contains(readOnlyDetails, k)) {
			given[k] = val
		}
	}
	v.Details = given
}

// Maximum lengths of user data in base64 for GET and for POST requests.
const (
	maxUserDataGet  = 4096
	maxUserDataPost = 32768
)

// userDataArg reads and validates userdata.
func userDataArg(c *wire.Call) (string, error) {
	v := c.Str("userdata")
	if v == "" {
		return "", nil
	}
	raw, err := base64.StdEncoding.DecodeString(v)
	if err != nil {
		raw, err = base64.RawStdEncoding.DecodeString(v)
	}
	switch {
	case err != nil:
		return "", wire.Invalid("User data is not base64 encoded")
	case !c.Req.Post && len(v) >= maxUserDataGet:
		return "", wire.Invalid("User data is too long for an http GET request")
	case len(v) >= maxUserDataPost:
		return "", wire.Invalid("User data is too long for an http POST request")
	case len(raw) < 1:
		return "", wire.Invalid("User data is too short")
	}
	return v, nil
}
