// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "slices"

// placeVM chooses the host of a VM: the one that an admin specified, or else one that the VM's affinity groups allow.
// The simulator does not check the capacity of hosts, so only affinity can leave a VM without a host.
func (st *state) placeVM(v *vm) (*host, bool) {
	if v.wantHost != nil {
		return v.wantHost, true
	}
	var hosts []*host
	for _, h := range st.hosts.rows {
		if h.zone == v.zone && !h.removed {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil, false
	}
	for i := range hosts {
		h := hosts[(int(v.id)+i)%len(hosts)]
		if st.affinityAllows(v, h) {
			return h, true
		}
	}
	return nil, false
}

// affinityAllows applies the strict rules of the VM's affinity groups.
func (st *state) affinityAllows(v *vm, h *host) bool {
	for _, g := range v.affinity {
		for _, o := range st.vms.rows {
			if o == v || o.host == nil || !slices.Contains(o.affinity, g) {
				continue
			}
			if g.typ == antiAffinity && o.host == h || g.typ == hostAffinity && o.host != h {
				return false
			}
		}
	}
	return true
}

// otherHost returns a host to which the VM can migrate, or nil if there is none.
func (st *state) otherHost(v *vm) *host {
	for _, h := range st.hosts.rows {
		if h != v.host && h.zone == v.zone && !h.removed && st.affinityAllows(v, h) {
			return h
		}
	}
	return nil
}

// noHost is the error of a start for which affinity leaves no host.
func noHost(v *vm) *apiError {
	text := "Unable to create a deployment for " + v.text()
	if len(v.affinity) > 0 {
		text += ", Please check the affinity groups provided, there may not be sufficient capacity to follow them"
	}
	return errf(codeCapacity, csGeneric, "%s", text)
}
