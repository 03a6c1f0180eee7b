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

// addNIC connects a VM; a NIC that is new gets its row.
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

// addSecondary gives a NIC one more address; one that is new gets its row.
func (st *state) addSecondary(n *nic, s *secondaryIP) {
	if old, ok := st.secondary.get(s.uuid); ok {
		s = old
	} else {
		st.secondary.add(s)
	}
	s.nic = n
	n.secondary = append(n.secondary, s)
}

// dropNIC takes a NIC from its VM and frees its addresses.
func (st *state) dropNIC(n *nic) {
	n.network.used = slices.DeleteFunc(n.network.used, func(o *nic) bool { return o == n })
	n.vm.nics = slices.DeleteFunc(n.vm.nics, func(o *nic) bool { return o == n })
	st.freeNIC(n)
}

// freeNIC marks a NIC's rows as removed.
func (st *state) freeNIC(n *nic) {
	n.removed = true
	for _, s := range n.secondary {
		s.removed = true
	}
	if n.staticNAT != nil {
		n.staticNAT.staticVM, n.staticNAT.staticIP = nil, ""
		n.staticNAT = nil
	}
}

// addresses are all IPv4 addresses of the NIC.
func (n *nic) addresses() []string {
	out := []string{n.ip}
	for _, s := range n.secondary {
		out = append(out, s.ip)
	}
	return out
}

// newMAC is the next address of a network: it carries the network's internal id and a count.
func (n *network) newMAC() string {
	for {
		n.macs++
		mac := fmt.Sprintf("02:01:%02x:%02x:%02x:%02x", n.id>>8&0xff, n.id&0xff, n.macs>>8&0xff, n.macs&0xff)
		if !slices.ContainsFunc(n.used, func(o *nic) bool { return o.mac == mac }) {
			return mac
		}
	}
}

// nicRequest is what a command asks of a new NIC; empty fields are chosen.
type nicRequest struct {
	network *network
	ip, ip6 string
	mac     string
}

// guestIP takes the asked address of a network, or the first free one; false
// when the asked one is taken or none is left. L2 networks have no addresses.
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

// connect makes a NIC on a VM. The caller has checked the request.
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

// freeDevice is the lowest device number that no NIC of the VM has.
func freeDevice(v *vm) int {
	for d := 0; ; d++ {
		if !slices.ContainsFunc(v.nics, func(n *nic) bool { return n.device == d }) {
			return d
		}
	}
}

// networkText and vmText are how exceptions print these objects.
func networkText(n *network) string {
	return fmt.Sprintf(`Network {"id": %d, "name": "%s", "uuid": "%s", "networkofferingid": %d}`, n.id, n.name, n.uuid, n.offering.id)
}

func vmText(v *vm) string {
	return fmt.Sprintf(`VM instance {"id":%d,"instanceName":"%s","state":"%s","type":"User","uuid":"%s"}`, v.id, v.instanceName(), v.state, v.uuid)
}

// guestIPTaken tells whether a NIC or an internal load balancer of the network has the address.
func (n *network) guestIPTaken(ip string) bool {
	return slices.ContainsFunc(n.used, func(c *nic) bool { return slices.Contains(c.addresses(), ip) }) ||
		slices.ContainsFunc(n.lbSources, func(s *publicIP) bool { return s.addr.String() == ip })
}
