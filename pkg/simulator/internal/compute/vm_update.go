// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"encoding/base64"

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
