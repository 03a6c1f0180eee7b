// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
)

// HostFor distributes VMs over the hosts of a zone.
func (st *State) HostFor(z *Zone, n int) *Host {
	var hosts []*Host
	for _, h := range st.Hosts.Rows {
		if h.Zone == z {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return hosts[n%len(hosts)]
}

// routed reports whether a virtual router provides a service of the offering.
func (o *NetworkOffering) routed() bool {
	return slices.ContainsFunc(o.Services, func(s serviceView) bool { return slices.Contains(s.Provider, NameView{"VirtualRouter"}) })
}
