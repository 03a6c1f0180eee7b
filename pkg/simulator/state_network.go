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

// VLANs of a zone: the range for guest networks, and the VLAN of the public addresses.
const (
	firstGuestVLAN = 100
	lastGuestVLAN  = 200
	publicVLAN     = 50
)

// pfRule is a port forwarding rule from a port range of a public address to a port range of a VM.
type pfRule struct {
	entity
	tagged
	ip                       *publicIP
	network                  *network
	protocol                 string
	publicStart, publicEnd   int
	privateStart, privateEnd int
	vm                       *vm
	guestIP                  string
	cidrs                    []string
	state                    string
	related                  *fwRule // created by openfirewall
	account                  *account
	hidden                   bool
}

// addPFRule stores a rule and adds it to its address.
func (st *state) addPFRule(r *pfRule) {
	st.pfRules.addWithID(r, st.ruleID())
	r.ip.pfRules = append(r.ip.pfRules, r)
}

// removePFRule deletes a rule with its related firewall rule. A VPC address without further rules is unbound from its
// tier.
func (st *state) removePFRule(r *pfRule) {
	if r.removed {
		return
	}
	if r.related != nil {
		st.dropFWRule(r.related)
	}
	st.pfRules.drop(r)
	r.ip.pfRules = slices.DeleteFunc(r.ip.pfRules, func(o *pfRule) bool { return o == r })
	st.unbind(r.ip)
}

// unbind removes a VPC address without rules from its tier.
func (st *state) unbind(ip *publicIP) {
	if ip.vpc != nil && !ip.hasRules() && ip.staticVM == nil {
		ip.network = nil
	}
}

// conflictText formats a rule like CloudStack's exceptions.
func (r *pfRule) conflictText() string {
	return fmt.Sprintf(`FirewallRule {"id":%d,"networkId":%d,"purpose":"PortForwarding","state":"%s","uuid":"%s"}`, r.id, r.network.id, r.state, r.uuid)
}

// vlanID returns the id of the zone's public address range.
func (z *zone) vlanID() string { return stableID("vlan", z.uuid) }

func (z *zone) text() string {
	return fmt.Sprintf(`Zone {"id":%d,"name":"%s","uuid":"%s"}`, z.id, z.name, z.uuid)
}

func (v *vpc) text() string {
	return fmt.Sprintf(`VPC {"id":%d,"name":"%s","uuid":"%s"}`, v.id, v.name, v.uuid)
}

// systemAddresses allocates the public addresses of the zone's system VMs to the account named system.
func (st *state) systemAddresses(z *zone, now time.Time, skip map[string]bool) {
	owner, ok := st.accountIn(st.root(), systemAccount)
	if !ok {
		return
	}
	for _, m := range st.systemVMs.rows {
		if m.zone != z {
			continue
		}
		ip, ok := st.ips.find(func(ip *publicIP) bool { return ip.zone == z && ip.owner == owner && ip.systemVM == nil })
		if !ok {
			ip, ok = st.ips.find(func(ip *publicIP) bool { return ip.zone == z && ip.state == ipFree && !skip[ip.addr.String()] })
		}
		if !ok {
			return
		}
		st.takeIP(ip, owner, now)
		ip.state, ip.system, ip.systemVM = ipAllocated, true, m
	}
}

// networkDomainOf returns the network domain of a new network: that of the account, or one derived from the account's
// id.
func (st *state) networkDomainOf(owner *account, z *zone) string {
	if owner.networkDomain != "" {
		return owner.networkDomain
	}
	return "cs" + fingerprintDomain(owner) + z.networkDomain
}

// systemDomain returns the network domain of networks that the system account owns.
func (z *zone) systemDomain() string { return "cs1" + z.networkDomain }

// freeVLAN returns the lowest unused VLAN of the zone's range.
func (st *state) freeVLAN(z *zone) int {
	used := map[int]bool{}
	for _, n := range st.networks.rows {
		if n.zone == z && !n.removed {
			used[n.vlan] = true
		}
	}
	for v := firstGuestVLAN; v <= lastGuestVLAN; v++ {
		if !used[v] {
			return v
		}
	}
	return lastGuestVLAN + len(st.networks.rows) // more networks than a real zone can have
}

// implement allocates the resources that a network needs for its first running VM: VLAN, router and source NAT
// address.
func (st *state) implement(n *network, now time.Time) {
	if n.typ == typeShared && n.routerID == 0 && n.offering.routed() {
		n.routerID = st.newRouterID()
	}
	if n.state != netAllocated {
		return
	}
	n.state = netImplemented
	if n.vpc == nil && n.offering.routed() {
		n.routerID = st.newRouterID()
	}
	if n.vlan == 0 {
		n.vlan = st.freeVLAN(n.zone)
	}
	switch {
	case n.vpc != nil:
		st.startVPC(n.vpc, now)
	case n.provides("SourceNat") && n.sourceNATIP(st) == nil:
		if ip := st.freeIP(n.zone); ip != nil {
			st.takeIP(ip, n.owner, now)
			ip.state, ip.network, ip.sourceNAT = ipAllocated, n, true
		}
	}
}

// sourceNATIP returns the source NAT address of the network, or nil if it has none yet.
func (n *network) sourceNATIP(st *state) *publicIP {
	return st.sourceNAT(func(ip *publicIP) bool { return ip.network == n && ip.vpc == nil })
}

func (v *vpc) sourceNATIP(st *state) *publicIP {
	return st.sourceNAT(func(ip *publicIP) bool { return ip.vpc == v })
}

func (st *state) sourceNAT(of func(*publicIP) bool) *publicIP {
	for _, ip := range st.ips.rows {
		if ip.sourceNAT && of(ip) {
			return ip
		}
	}
	return nil
}

// startVPC starts the VPC's router. It returns false if the router needs a source NAT address and none is free.
func (st *state) startVPC(v *vpc, now time.Time) bool {
	if !v.started && v.offering.needsSourceNAT() && v.sourceNATIP(st) == nil {
		ip := st.freeIP(v.zone)
		if ip == nil {
			return false
		}
		st.takeIP(ip, v.owner, now)
		ip.state, ip.vpc, ip.sourceNAT = ipAllocated, v, true
	}
	if !v.started {
		v.routerID = st.newRouterID()
	}
	v.started = true
	return true
}

// newRouterID returns the number of a new virtual router. Routers share the internal ids of VMs.
func (st *state) newRouterID() int64 {
	st.vms.next++
	return st.vms.next - 1
}

// guestRange returns the first and the last address that VMs of the network can have.
func (n *network) guestRange() (first, last netip.Addr) {
	if n.first.IsValid() || !n.cidr.IsValid() { // L2 networks have no addresses
		return n.first, n.last
	}
	return n.cidr.Addr().Next(), lastAddr(n.cidr).Prev()
}

// lastAddr returns the broadcast address of an IPv4 CIDR.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// inUse reports whether VMs that are not expunged have NICs in the network.
func (st *state) inUse(n *network) bool {
	return slices.ContainsFunc(st.vms.rows, func(v *vm) bool { return !v.removed && v.nicIn(n) != nil })
}

// destroyNetwork removes a network with its rules. Its addresses are released; addresses of a VPC only leave the
// tier.
func (st *state) destroyNetwork(n *network) {
	for _, ip := range st.ips.rows {
		if ip.network != n {
			continue
		}
		if ip.vpc == nil {
			st.release(ip)
			continue
		}
		st.clearRules(ip)
		ip.network = nil
	}
	for _, r := range slices.Clone(st.lbRules.rows) { // rules on addresses of the network itself
		if r.network == n || r.internal && r.ip.network == n {
			st.dropLBRule(r)
		}
	}
	for _, r := range slices.Clone(st.egress.rows) {
		if r.network == n {
			st.egress.drop(r)
		}
	}
	n.removed, n.state, n.tags = true, netDestroy, nil
}

// clearRules removes all rules of an address, including static NAT.
func (st *state) clearRules(ip *publicIP) {
	for _, r := range slices.Clone(ip.lbRules) {
		st.dropLBRule(r)
	}
	for _, r := range slices.Clone(ip.fwRules) {
		st.dropFWRule(r)
	}
	for _, r := range slices.Clone(ip.pfRules) {
		st.removePFRule(r)
	}
	st.endStaticNAT(ip)
}

// endStaticNAT disables static NAT on an address.
func (st *state) endStaticNAT(ip *publicIP) {
	if ip.staticVM == nil {
		return
	}
	for _, n := range ip.staticVM.nics {
		if n.staticNAT == ip {
			n.staticNAT = nil
		}
	}
	ip.staticVM, ip.staticIP = nil, ""
	st.unbind(ip)
}

// leaveForwards removes the port forwarding rules and static NAT of a VM.
func (st *state) leaveForwards(v *vm) {
	for _, r := range slices.Clone(st.pfRules.rows) {
		if r.vm == v {
			st.removePFRule(r)
		}
	}
	for _, ip := range st.ips.rows {
		if ip.staticVM == v {
			st.endStaticNAT(ip)
		}
	}
}

// leaveNetwork removes a NIC from all rules.
func (st *state) leaveNetwork(n *nic) {
	for _, r := range st.lbRules.rows {
		if r.network == n.network {
			r.members = slices.DeleteFunc(r.members, func(m *lbMember) bool { return m.vm == n.vm })
		}
	}
	for _, r := range slices.Clone(st.pfRules.rows) {
		if r.vm == n.vm && r.network == n.network {
			st.removePFRule(r)
		}
	}
	if n.staticNAT != nil {
		st.endStaticNAT(n.staticNAT)
	}
}

// dropACLList deletes a list with its items.
func (st *state) dropACLList(l *aclList) {
	for _, it := range slices.Clone(st.aclItems.rows) {
		if it.list == l {
			st.aclItems.drop(it)
		}
	}
	st.aclLists.drop(l)
}

// destroyVPC removes a VPC with its addresses and ACL lists.
func (st *state) destroyVPC(v *vpc) {
	for _, ip := range st.ips.rows {
		if ip.vpc == v {
			st.release(ip)
		}
	}
	for _, l := range slices.Clone(st.aclLists.rows) {
		if l.vpc == v {
			st.dropACLList(l)
		}
	}
	v.removed, v.enabled, v.tags = true, false, nil
}

// tiers returns the networks of a VPC.
func (st *state) tiers(v *vpc) []*network {
	var out []*network
	for _, n := range st.networks.rows {
		if n.vpc == v && !n.removed {
			out = append(out, n)
		}
	}
	return out
}

// addressNamed finds a public address of a zone by its text.
func (st *state) addressNamed(z *zone, addr string) (*publicIP, bool) {
	return st.ips.find(func(ip *publicIP) bool {
		return (z == nil || ip.zone == z) && strings.EqualFold(ip.addr.String(), addr)
	})
}
