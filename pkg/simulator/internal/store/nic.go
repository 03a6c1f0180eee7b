// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// AddNIC adds a NIC to a VM. A new NIC is stored first.
func (st *State) AddNIC(v *VM, n *NIC) {
	if n.ID == 0 {
		st.NICs.Add(n)
	}
	n.VM = v
	v.NICs = append(v.NICs, n)
	if !slices.Contains(n.Network.Used, n) {
		n.Network.Used = append(n.Network.Used, n)
	}
}

// AddSecondary adds an address to a NIC.
func (st *State) AddSecondary(n *NIC, ip string) *SecondaryIP {
	s := st.Secondary.Add(&SecondaryIP{Entity: Entity{Created: n.Created}, NIC: n, IP: ip})
	n.Secondary = append(n.Secondary, s)
	return s
}

// DeleteNIC removes a NIC from its VM and frees its addresses.
func (st *State) DeleteNIC(n *NIC) {
	n.Network.Used = slices.DeleteFunc(n.Network.Used, func(o *NIC) bool { return o == n })
	n.VM.NICs = slices.DeleteFunc(n.VM.NICs, func(o *NIC) bool { return o == n })
	st.freeNIC(n)
}

// freeNIC marks the NIC and its secondary addresses as removed, and ends its static NAT.
func (st *State) freeNIC(n *NIC) {
	n.Removed = true
	for _, s := range n.Secondary {
		s.Removed = true
	}
	if n.StaticNAT != nil {
		st.EndStaticNAT(n.StaticNAT)
		n.StaticNAT = nil
	}
}

// Addresses returns all IPv4 addresses of the NIC.
func (n *NIC) Addresses() []string {
	out := []string{n.IP}
	for _, s := range n.Secondary {
		out = append(out, s.IP)
	}
	return out
}

// newMAC returns the next free MAC address of a network, made of the network's internal id and a counter.
func (n *Network) newMAC() string {
	for {
		n.macs++
		mac := fmt.Sprintf("02:01:%02x:%02x:%02x:%02x", n.ID>>8&0xff, n.ID&0xff, n.macs>>8&0xff, n.macs&0xff)
		if !slices.ContainsFunc(n.Used, func(o *NIC) bool { return o.MAC == mac }) {
			return mac
		}
	}
}

// NICRequest holds the requested attributes of a new NIC; empty fields are chosen automatically.
type NICRequest struct {
	Network *Network
	IP, IP6 string
	MAC     string
}

// GuestIP returns the requested address of a network, or the lowest free one if want is empty. It returns false if the
// requested address cannot be used or none is free. L2 networks have no addresses.
func (st *State) GuestIP(n *Network, want string) (string, bool) {
	if n.Typ == TypeL2 {
		return "", true
	}
	if want == "" {
		ip := st.FreeGuestIP(n)
		return ip, ip != ""
	}
	a, err := netip.ParseAddr(want)
	if err != nil ||
		!n.CIDR.Contains(a) ||
		want == n.Gateway ||
		a == n.CIDR.Masked().Addr() ||
		!n.CIDR.Contains(a.Next()) {
		return "", false
	}
	return want, !n.GuestIPTaken(want)
}

// Connect creates a NIC on a VM. The caller has validated the request.
func (st *State) Connect(v *VM, r NICRequest, now time.Time) (*NIC, bool) {
	ip, ok := st.GuestIP(r.Network, r.IP)
	if !ok {
		return nil, false
	}

	n := &NIC{
		Entity:    Entity{Created: now},
		Network:   r.Network,
		Device:    freeDevice(v),
		IsDefault: len(v.NICs) == 0,
		IP:        ip,
		IP6:       r.IP6,
		MAC:       strings.ToLower(r.MAC),
		Prepared:  r.Network.State != NetAllocated,
	}

	if n.MAC == "" {
		n.MAC = r.Network.newMAC()
	}

	st.AddNIC(v, n)
	return n, true
}

// freeDevice returns the lowest unused device number of the VM.
func freeDevice(v *VM) int {
	for d := 0; ; d++ {
		if !slices.ContainsFunc(v.NICs, func(n *NIC) bool { return n.Device == d }) {
			return d
		}
	}
}

// GuestIPTaken reports whether a NIC or an internal load balancer of the network uses the address.
func (n *Network) GuestIPTaken(ip string) bool {
	return slices.ContainsFunc(n.Used, func(c *NIC) bool { return slices.Contains(c.Addresses(), ip) }) ||
		slices.ContainsFunc(n.LBSources, func(s *PublicIP) bool { return s.Addr.String() == ip })
}
