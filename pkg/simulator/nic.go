// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// addNIC adds a NIC to a VM. A new NIC is stored first.
func (st *state) addNIC(v *vm, n *nic) {
	if n.id == 0 {
		st.nics.add(n)
	}
	n.vm = v
	v.nics = append(v.nics, n)
	if !slices.Contains(n.network.used, n) {
		n.network.used = append(n.network.used, n)
	}
}

// addSecondary adds an address to a NIC. A new address is stored first.
func (st *state) addSecondary(n *nic, s *secondaryIP) {
	if old, ok := st.secondary.get(s.uuid); ok {
		s = old
	} else {
		st.secondary.add(s)
	}
	s.nic = n
	n.secondary = append(n.secondary, s)
}

// dropNIC removes a NIC from its VM and frees its addresses.
func (st *state) dropNIC(n *nic) {
	n.network.used = slices.DeleteFunc(n.network.used, func(o *nic) bool { return o == n })
	n.vm.nics = slices.DeleteFunc(n.vm.nics, func(o *nic) bool { return o == n })
	st.freeNIC(n)
}

// freeNIC marks the NIC and its secondary addresses as removed, and ends its static NAT.
func (st *state) freeNIC(n *nic) {
	n.removed = true
	for _, s := range n.secondary {
		s.removed = true
	}
	if n.staticNAT != nil {
		st.endStaticNAT(n.staticNAT)
		n.staticNAT = nil
	}
}

// addresses returns all IPv4 addresses of the NIC.
func (n *nic) addresses() []string {
	out := []string{n.ip}
	for _, s := range n.secondary {
		out = append(out, s.ip)
	}
	return out
}

// newMAC returns the next free MAC address of a network, made of the network's internal id and a counter.
func (n *network) newMAC() string {
	for {
		n.macs++
		mac := fmt.Sprintf("02:01:%02x:%02x:%02x:%02x", n.id>>8&0xff, n.id&0xff, n.macs>>8&0xff, n.macs&0xff)
		if !slices.ContainsFunc(n.used, func(o *nic) bool { return o.mac == mac }) {
			return mac
		}
	}
}

// nicRequest holds the requested attributes of a new NIC; empty fields are chosen.
type nicRequest struct {
	network *network
	ip, ip6 string
	mac     string
}

// guestIP returns the requested address of a network, or the first free one. It returns false if the requested
// address is not usable or none is free. L2 networks have no addresses.
func (st *state) guestIP(n *network, want string) (string, bool) {
	if n.typ == typeL2 {
		return "", true
	}
	if want == "" {
		ip := st.freeGuestIP(n)
		return ip, ip != ""
	}
	a, err := netip.ParseAddr(want)
	if err != nil || !n.cidr.Contains(a) || want == n.gateway || a == n.cidr.Masked().Addr() || !n.cidr.Contains(a.Next()) {
		return "", false
	}
	return want, !n.guestIPTaken(want)
}

// connect creates a NIC on a VM. The caller has validated the request.
func (st *state) connect(v *vm, r nicRequest, now time.Time) (*nic, bool) {
	ip, ok := st.guestIP(r.network, r.ip)
	if !ok {
		return nil, false
	}
	n := &nic{
		entity: entity{created: now}, network: r.network, device: freeDevice(v), isDefault: len(v.nics) == 0, ip: ip, ip6: r.ip6,
		mac: strings.ToLower(r.mac), prepared: r.network.state != netAllocated,
	}
	if n.mac == "" {
		n.mac = r.network.newMAC()
	}
	st.addNIC(v, n)
	return n, true
}

// freeDevice returns the lowest unused device number of the VM.
func freeDevice(v *vm) int {
	for d := 0; ; d++ {
		if !slices.ContainsFunc(v.nics, func(n *nic) bool { return n.device == d }) {
			return d
		}
	}
}

// guestIPTaken reports whether a NIC or an internal load balancer of the network uses the address.
func (n *network) guestIPTaken(ip string) bool {
	return slices.ContainsFunc(n.used, func(c *nic) bool { return slices.Contains(c.addresses(), ip) }) ||
		slices.ContainsFunc(n.lbSources, func(s *publicIP) bool { return s.addr.String() == ip })
}
