// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
)

// PlaceVM chooses the host of a VM: the one that an admin specified, or else one that the VM's affinity groups allow.
// The simulator does not check the capacity of hosts, so only affinity can leave a VM without a host.
func (st *State) PlaceVM(v *VM) (*Host, bool) {
	if v.WantHost != nil {
		return v.WantHost, true
	}
	var hosts []*Host
	for _, h := range st.Hosts.Rows {
		if h.Zone == v.Zone && !h.Removed {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil, false
	}
	for i := range hosts {
		h := hosts[(int(v.ID)+i)%len(hosts)]
		if st.affinityAllows(v, h) {
			return h, true
		}
	}
	return nil, false
}

// affinityAllows applies the strict rules of the VM's affinity groups.
func (st *State) affinityAllows(v *VM, h *Host) bool {
	for _, g := range v.Affinity {
		for _, o := range st.VMs.Rows {
			if o == v || o.Host == nil || !slices.Contains(o.Affinity, g) {
				continue
			}
			if g.Typ == AntiAffinity && o.Host == h || g.Typ == HostAffinity && o.Host != h {
				return false
			}
		}
	}
	return true
}

// OtherHost returns a host to which the VM can migrate, or nil if there is none.
func (st *State) OtherHost(v *VM) *Host {
	for _, h := range st.Hosts.Rows {
		if h != v.Host && h.Zone == v.Zone && !h.Removed && st.affinityAllows(v, h) {
			return h
		}
	}
	return nil
}
