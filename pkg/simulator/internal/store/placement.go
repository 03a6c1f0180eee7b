// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

// PlaceVM chooses the host of a VM in its zone. The simulator does not check the capacity of hosts.
func (st *State) PlaceVM(v *VM) (*Host, bool) {
	h := st.HostFor(v.Zone, int(v.ID))
	return h, h != nil
}
