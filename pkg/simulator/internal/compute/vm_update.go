// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
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
