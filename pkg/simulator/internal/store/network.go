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

// OwnerKey returns a key of an account, or of a domain for objects without an account.
func OwnerKey(a *Account, d *Domain) string {
	if a != nil {
		return a.UUID
	}
	return d.UUID
}

// FreeGuestIP returns the lowest address of the guest range that no NIC uses, or "" if there is none.
func (st *State) FreeGuestIP(n *Network) string {
	taken := map[string]bool{n.Gateway: true}
	for _, s := range n.LBSources {
		taken[s.Addr.String()] = true
	}
	for _, c := range n.Used {
		taken[c.IP] = true
		for _, s := range c.Secondary {
			taken[s.IP] = true
		}
	}
	first, last := n.GuestRange()
	for a := first; a.IsValid() && a.Compare(last) <= 0; a = a.Next() {
		if !taken[a.String()] {
			return a.String()
		}
	}
	return ""
}

// IsDefault reports whether the list is default_deny or default_allow, the first two lists of every installation.
func (l *ACLList) IsDefault() bool { return l.VPC == nil && l.ID <= 2 }

// FreeIP returns the lowest free address of the zone.
func (st *State) FreeIP(z *Zone) *PublicIP {
	var best *PublicIP
	for _, ip := range st.IPs.Rows {
		if ip.Zone == z && ip.State == IPFree && (best == nil || ip.Addr.Less(best.Addr)) {
			best = ip
		}
	}
	return best
}

// TakeIP allocates a free address to an owner, in state Allocating.
func (st *State) TakeIP(ip *PublicIP, owner *Account, now time.Time) {
	ip.State, ip.Owner, ip.Allocated = IPAllocating, owner, now
}

// Release frees an address and deletes its rules and tags.
func (st *State) Release(ip *PublicIP) {
	st.clearRules(ip)
	ip.Tags, ip.Owner, ip.Network, ip.VPC, ip.SystemVM, ip.System = nil, nil, nil, nil, nil, false
	ip.SourceNAT, ip.Hidden, ip.State, ip.Allocated = false, false, IPFree, time.Time{}
}

// Text formats the address like CloudStack's error texts.
func (ip *PublicIP) Text() string {
	return fmt.Sprintf(`IPAddress {"address":"%s","dataCenterId":%d,"id":%d,"uuid":"%s"}`, ip.Addr, ip.Zone.ID, ip.ID,
		ip.UUID)
}

// Text formats the network like CloudStack's error texts.
func (n *Network) Text() string {
	return fmt.Sprintf(`Network {"id": %d, "name": "%s", "uuid": "%s", "networkofferingid": %d}`, n.ID, n.Name, n.UUID,
		n.Offering.ID)
}

// Bind assigns a VPC address to the tier of its first rule. A source NAT address thereby loses its role permanently.
func (ip *PublicIP) Bind(n *Network) {
	if ip.Network == nil && ip.VPC != nil {
		ip.Network, ip.SourceNAT = n, false
	}
}

// VLANs of a zone: the range for guest networks, and the VLAN of the public addresses.
const (
	FirstGuestVLAN = 100
	LastGuestVLAN  = 200
	PublicVLAN     = 50
)

// VLANID returns the id of the zone's public address range.
func (z *Zone) VLANID() string { return StableID("vlan", z.UUID) }

// Text formats the zone like CloudStack's error texts.
func (z *Zone) Text() string {
	return fmt.Sprintf(`Zone {"id":%d,"name":"%s","uuid":"%s"}`, z.ID, z.Name, z.UUID)
}

// Text formats the VPC like CloudStack's error texts.
func (v *VPC) Text() string {
	return fmt.Sprintf(`VPC {"id":%d,"name":"%s","uuid":"%s"}`, v.ID, v.Name, v.UUID)
}

// SystemAddresses allocates the public addresses of the zone's system VMs to the account named system.
func (st *State) SystemAddresses(z *Zone, now time.Time, skip map[string]bool) {
	owner, ok := st.AccountIn(st.Root(), SystemAccount)
	if !ok {
		return
	}

	for _, m := range st.SystemVMs {
		if m.Zone != z {
			continue
		}
		ip, ok := st.IPs.Find(func(ip *PublicIP) bool {
			return ip.Zone == z && ip.Owner == owner && ip.SystemVM == nil
		})
		if !ok {
			ip, ok = st.IPs.Find(func(ip *PublicIP) bool {
				return ip.Zone == z && ip.State == IPFree && !skip[ip.Addr.String()]
			})
		}
		if !ok {
			return
		}
		st.TakeIP(ip, owner, now)
		ip.State, ip.System, ip.SystemVM = IPAllocated, true, m
	}
}

// NetworkDomainOf returns the network domain of a new network, which is derived from the id of the account.
func (st *State) NetworkDomainOf(owner *Account, z *Zone) string {
	return "cs" + fingerprintDomain(owner) + z.NetworkDomain
}

// SystemDomain returns the network domain of networks that the system account owns.
func (z *Zone) SystemDomain() string { return "cs1" + z.NetworkDomain }

// FreeVLAN returns the lowest unused VLAN of the zone's range.
func (st *State) FreeVLAN(z *Zone) int {
	used := map[int]bool{}
	for _, n := range st.Networks.Rows {
		if n.Zone == z && !n.Removed {
			used[n.VLAN] = true
		}
	}
	for v := FirstGuestVLAN; v <= LastGuestVLAN; v++ {
		if !used[v] {
			return v
		}
	}
	return LastGuestVLAN + len(st.Networks.Rows) // a real zone cannot have this many networks
}

// Implement allocates the resources that a network needs for its first running VM: VLAN, router and source NAT
// address.
func (st *State) Implement(n *Network, now time.Time) {
	if n.Typ == TypeShared && !n.routed && n.Offering.routed() {
		n.routed = true
		st.VMs.Next++ // the router takes an internal id of a VM
	}

	if n.State != NetAllocated {
		return
	}

	n.State = NetImplemented
	if n.VPC == nil && n.Offering.routed() {
		st.VMs.Next++ // routers share the internal ids of VMs
	}

	if n.VLAN == 0 {
		n.VLAN = st.FreeVLAN(n.Zone)
	}

	switch {
	case n.VPC != nil:
		st.StartVPC(n.VPC, now)
	case n.Provides("SourceNat") && n.SourceNATIP(st) == nil:
		if ip := st.FreeIP(n.Zone); ip != nil {
			st.TakeIP(ip, n.Owner, now)
			ip.State, ip.Network, ip.SourceNAT = IPAllocated, n, true
		}
	}
}

// SourceNATIP returns the source NAT address of the network, or nil if it has none yet.
func (n *Network) SourceNATIP(st *State) *PublicIP {
	return st.sourceNAT(func(ip *PublicIP) bool { return ip.Network == n && ip.VPC == nil })
}

// SourceNATIP returns the source NAT address of the VPC, or nil.
func (v *VPC) SourceNATIP(st *State) *PublicIP {
	return st.sourceNAT(func(ip *PublicIP) bool { return ip.VPC == v })
}

func (st *State) sourceNAT(of func(*PublicIP) bool) *PublicIP {
	for _, ip := range st.IPs.Rows {
		if ip.SourceNAT && of(ip) {
			return ip
		}
	}
	return nil
}

// StartVPC starts the VPC's router. It returns false if the router needs a source NAT address and none is free.
func (st *State) StartVPC(v *VPC, now time.Time) bool {
	if !v.Started && v.Offering.NeedsSourceNAT() && v.SourceNATIP(st) == nil {
		ip := st.FreeIP(v.Zone)
		if ip == nil {
			return false
		}
		st.TakeIP(ip, v.Owner, now)
		ip.State, ip.VPC, ip.SourceNAT = IPAllocated, v, true
	}
	if !v.Started {
		st.VMs.Next++ // the router takes an internal id of a VM
	}
	v.Started = true
	return true
}

// GuestRange returns the first and the last address that VMs of the network can have.
func (n *Network) GuestRange() (first, last netip.Addr) {
	if n.First.IsValid() || !n.CIDR.IsValid() { // L2 networks have no addresses
		return n.First, n.Last
	}
	return n.CIDR.Addr().Next(), LastAddr(n.CIDR).Prev()
}

// LastAddr returns the broadcast address of an IPv4 CIDR.
func LastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// InUse reports whether VMs that are not expunged have NICs in the network.
func (st *State) InUse(n *Network) bool {
	return slices.ContainsFunc(st.VMs.Rows, func(v *VM) bool { return !v.Removed && v.NICIn(n) != nil })
}

// DestroyNetwork removes a network with its rules, and releases its addresses. Addresses of a VPC stay with the VPC.
func (st *State) DestroyNetwork(n *Network) {
	for _, ip := range st.IPs.Rows {
		if ip.Network != n {
			continue
		}
		if ip.VPC == nil {
			st.Release(ip)
			continue
		}
		st.clearRules(ip)
		ip.Network = nil
	}
	for _, r := range slices.Clone(st.LBRules.Rows) { // rules on addresses of the network itself
		if r.Network == n || r.Internal && r.IP.Network == n {
			st.DeleteLBRule(r)
		}
	}
	n.Removed, n.State, n.Tags = true, netDestroy, nil
}

// EndStaticNAT disables static NAT on an address.
func (st *State) EndStaticNAT(ip *PublicIP) {
	if ip.StaticVM == nil {
		return
	}
	for _, n := range ip.StaticVM.NICs {
		if n.StaticNAT == ip {
			n.StaticNAT = nil
		}
	}
	ip.StaticVM, ip.StaticIP = nil, ""
	st.unbind(ip)
}

// DeleteACLList deletes a list with its items.
func (st *State) DeleteACLList(l *ACLList) {
	for _, it := range slices.Clone(st.ACLItems.Rows) {
		if it.List == l {
			st.ACLItems.Delete(it)
		}
	}
	st.ACLLists.Delete(l)
}

// DestroyVPC removes a VPC with its addresses and ACL lists.
func (st *State) DestroyVPC(v *VPC) {
	for _, ip := range st.IPs.Rows {
		if ip.VPC == v {
			st.Release(ip)
		}
	}
	for _, l := range slices.Clone(st.ACLLists.Rows) {
		if l.VPC == v {
			st.DeleteACLList(l)
		}
	}
	v.Removed, v.Enabled, v.Tags = true, false, nil
}

// Tiers returns the networks of a VPC.
func (st *State) Tiers(v *VPC) []*Network {
	var out []*Network
	for _, n := range st.Networks.Rows {
		if n.VPC == v && !n.Removed {
			out = append(out, n)
		}
	}
	return out
}

// AddressNamed finds a public address of a zone by its text.
func (st *State) AddressNamed(z *Zone, addr string) (*PublicIP, bool) {
	return st.IPs.Find(func(ip *PublicIP) bool {
		return (z == nil || ip.Zone == z) && strings.EqualFold(ip.Addr.String(), addr)
	})
}
