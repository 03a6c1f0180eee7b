// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// vmStates are the valid states of a VM in a world.
var vmStates = setOf(vmRunning, vmStopped, vmDestroyed, vmExpunging, vmError, vmStarting, vmStopping, "Migrating", "Unknown", "Shutdown")

func (b *builder) machines() error {
	for i := range b.w.VirtualMachines {
		if err := b.machine(&b.w.VirtualMachines[i]); err != nil {
			return fmt.Errorf("virtual machine %q: %w", b.w.VirtualMachines[i].Name, err)
		}
	}
	return nil
}

func (b *builder) machine(v *VirtualMachine) error {
	owner, err := b.owner("it", v.Account, v.Project)
	if err != nil {
		return err
	}
	z, err := b.zoneNamed("it", v.Zone)
	if err != nil {
		return err
	}
	if !validHostName(v.Name) {
		return fmt.Errorf("the name must be letters, digits and hyphens, at most 63, and start with a letter")
	}
	if err := checkID(b.st.vms, "virtual machine", v.Name, v.ID); err != nil {
		return err
	}
	if len(v.NICs) == 0 {
		return errors.New("it has no nics; give at least one with a network")
	}
	offering := b.st.offerings.rows[0]
	if v.Offering != "" {
		o, ok := b.st.offerings.find(func(o *serviceOffering) bool { return strings.EqualFold(o.name, v.Offering) })
		if !ok {
			return fmt.Errorf("service offering %q is not among the world's", v.Offering)
		}
		offering = o
	}
	tmpl := b.st.templates.rows[0]
	if v.Template != "" {
		t, ok := b.st.templates.find(func(t *template) bool { return strings.EqualFold(t.name, v.Template) })
		if !ok {
			return fmt.Errorf("template %q is not among the world's", v.Template)
		}
		tmpl = t
	}
	st := cmp.Or(v.State, vmRunning)
	if !vmStates[st] {
		return fmt.Errorf("state %q must be one of %s", v.State, strings.Join(slices.Sorted(maps.Keys(vmStates)), ", "))
	}
	row := &vm{
		entity: b.entity("vm", v.ID, owner.uuid+v.Name), tagged: tagsOf(v.Tags), name: v.Name, display: cmp.Or(v.DisplayName, v.Name), owner: owner,
		user: b.userOf(owner), zone: z, offering: offering, template: tmpl, state: st, updated: b.now.Add(-statsInterval), hypervisor: "Simulator", bootKnown: st == vmRunning,
	}
	if row.user == nil {
		return fmt.Errorf("its owner %q has no user", owner.name)
	}
	if st == vmRunning {
		row.host = b.st.hostFor(z, len(b.st.vms.rows))
	}
	for i := range v.NICs {
		if err := b.nic(row, &v.NICs[i], i); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(row.nics, func(c *nic) bool { return c.isDefault }) {
		row.nics[0].isDefault = true
	}
	if st == vmStopped || st == vmDestroyed {
		row.markStopped()
	}
	b.st.vms.add(row)
	b.st.addRootVolume(row, b.entity("volume", "", row.uuid))
	return nil
}

// userOf returns the user that resources of the account show: for a project, a user of its first member.
func (b *builder) userOf(a *account) *user {
	if a.project != nil {
		a = a.project.members[0].account
	}
	if len(a.users) == 0 {
		return nil
	}
	return a.users[0]
}

// hostFor distributes VMs over the hosts of a zone.
func (st *state) hostFor(z *zone, n int) *host {
	var hosts []*host
	for _, h := range st.hosts.rows {
		if h.zone == z {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return hosts[n%len(hosts)]
}

func (b *builder) nic(v *vm, c *NIC, device int) error {
	n, err := b.networkNamed(c.Network, v.owner)
	if err != nil {
		return err
	}
	if n.zone != v.zone {
		return fmt.Errorf("network %q is in zone %s, the virtual machine in %s", n.name, n.zone.name, v.zone.name)
	}
	seq := len(b.st.vms.rows)*8 + device + 1
	row := &nic{
		entity: entity{uuid: cmp.Or(c.ID, stableID("nic", fmt.Sprintf("%s/%d", v.uuid, device))), created: b.now}, network: n, device: device, isDefault: c.Default, ip: c.IP, ip6: c.IPv6,
		mac: cmp.Or(c.MAC, fmt.Sprintf("02:01:00:%02x:%02x:%02x", seq>>16&0xff, seq>>8&0xff, seq&0xff)),
	}
	if n.typ != typeL2 {
		if row.ip == "" {
			row.ip = b.st.freeGuestIP(n)
		}
		a, err := netip.ParseAddr(row.ip)
		if err != nil || !n.cidr.Contains(a) || row.ip == n.gateway {
			return fmt.Errorf("ip %q is no address of network %q (%s) that a virtual machine can have", row.ip, n.name, n.cidr)
		}
	}
	for _, s := range c.Secondary {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("secondary address %q is not an address", s)
		}
		b.st.addSecondary(row, &secondaryIP{entity: entity{uuid: stableID("secondary", row.uuid+s), created: b.now}, ip: s})
	}
	b.st.addNIC(v, row)
	return nil
}

// freeGuestIP returns the lowest address of the guest range that no NIC uses, or "" if there is none.
func (st *state) freeGuestIP(n *network) string {
	taken := map[string]bool{n.gateway: true}
	for _, s := range n.lbSources {
		taken[s.addr.String()] = true
	}
	for _, c := range n.used {
		taken[c.ip] = true
		for _, s := range c.secondary {
			taken[s.ip] = true
		}
	}
	first, last := n.guestRange()
	for a := first; a.IsValid() && a.Compare(last) <= 0; a = a.Next() {
		if !taken[a.String()] {
			return a.String()
		}
	}
	return ""
}

func (b *builder) addresses() error {
	for i := range b.w.PublicIPs {
		if err := b.address(&b.w.PublicIPs[i]); err != nil {
			return fmt.Errorf("public ip %q: %w", b.w.PublicIPs[i].Address, err)
		}
	}
	return nil
}

func (b *builder) address(p *PublicIP) error {
	a, err := netip.ParseAddr(p.Address)
	if err != nil {
		return errors.New("the address is not an IPv4 address")
	}
	ip, ok := b.st.ips.find(func(o *publicIP) bool { return o.addr == a })
	if !ok {
		return errors.New("the address lies in no publicRanges of the zones")
	}
	if ip.state != ipFree {
		return errors.New("the address is listed twice")
	}
	if p.ID != "" {
		if err := checkID(b.st.ips, "public ip", p.Address, p.ID); err != nil {
			return err
		}
		b.st.ips.rename(ip, p.ID)
	}
	var owner *account
	if p.Account != "" || p.Project != "" {
		if owner, err = b.owner("it", p.Account, p.Project); err != nil {
			return err
		}
	}
	if p.VPC != "" {
		v, ok := b.st.vpcs.find(func(v *vpc) bool { return strings.EqualFold(v.name, p.VPC) })
		if !ok {
			return fmt.Errorf("vpc %q is not among the world's vpcs", p.VPC)
		}
		ip.vpc, owner = v, v.owner
	}
	if p.Network != "" {
		n, err := b.networkNamed(p.Network, owner)
		if err != nil {
			return err
		}
		ip.network = n
		if owner == nil {
			owner = n.owner
		}
		if n.vpc != nil {
			ip.vpc = n.vpc
		}
	}
	if owner == nil {
		return errors.New("give network, vpc, account or project: an allocated address has an owner")
	}
	ip.owner, ip.allocated, ip.tagged = owner, b.now, tagsOf(p.Tags)
	switch p.State {
	case "", ipAllocated:
		ip.state = ipAllocated
	case ipAllocating, ipReserved:
		ip.state = p.State
	default:
		return fmt.Errorf("state %q must be Allocated, Allocating or Reserved", p.State)
	}
	if p.StaticNAT != "" {
		v, err := b.vmNamed(p.StaticNAT, owner)
		if err != nil {
			return err
		}
		c := v.nics[0]
		if ip.network != nil && v.nicIn(ip.network) != nil {
			c = v.nicIn(ip.network)
		}
		ip.staticVM, ip.staticIP, c.staticNAT = v, c.ip, ip
	}
	for i := range p.LoadBalancerRules {
		if err := b.lbRule(ip, &p.LoadBalancerRules[i]); err != nil {
			return fmt.Errorf("load balancer rule %q: %w", p.LoadBalancerRules[i].Name, err)
		}
	}
	for i := range p.FirewallRules {
		if err := b.fwRule(ip, &p.FirewallRules[i], i); err != nil {
			return fmt.Errorf("firewall rule %d: %w", i+1, err)
		}
	}
	return nil
}

func (b *builder) vmNamed(name string, owner *account) (*vm, error) {
	v, ok := b.st.vms.find(func(v *vm) bool { return (strings.EqualFold(v.name, name) || v.uuid == name) && v.owner == owner })
	if !ok {
		return nil, fmt.Errorf("virtual machine %q is not among those of account %q", name, owner.name)
	}
	return v, nil
}

func (b *builder) lbRule(ip *publicIP, r *LoadBalancerRule) error {
	switch {
	case ip.network == nil:
		return errors.New("the address has no network")
	case ip.staticVM != nil:
		return errors.New("a static NAT address takes no load balancer rules")
	case r.Name == "" || r.PublicPort < 0 || r.PublicPort > 65535 || r.PrivatePort < 0 || r.PrivatePort > 65535:
		return errors.New("name, publicPort and privatePort (0 to 65535) must be given")
	case r.Protocol != "" && !slices.Contains(lbProtocols, r.Protocol):
		return fmt.Errorf("protocol %q must be one of %s, or empty", r.Protocol, strings.Join(lbProtocols, ", "))
	case r.Algorithm != "" && !slices.Contains(lbAlgorithms, r.Algorithm):
		return fmt.Errorf("algorithm %q must be one of %s", r.Algorithm, strings.Join(lbAlgorithms, ", "))
	}
	for _, o := range ip.lbRules {
		if o.publicPort == r.PublicPort {
			return fmt.Errorf("public port %d is that of rule %q", r.PublicPort, o.name)
		}
	}
	row := &lbRule{
		entity: b.entity("lbrule", r.ID, ip.uuid+fmt.Sprint(r.PublicPort)), tagged: tagsOf(r.Tags), name: r.Name, description: r.Description,
		algorithm: cmp.Or(r.Algorithm, "roundrobin"), protocol: r.Protocol, hasProtocol: r.Protocol != "", cidrs: strings.Join(r.CIDRs, " "),
		hasCIDRs: r.CIDRs != nil, ip: ip, network: ip.network, publicPort: r.PublicPort, privatePort: r.PrivatePort, state: ruleAdd, account: ip.owner,
	}
	for _, m := range r.Members {
		v, err := b.vmNamed(m, ip.owner)
		if err != nil {
			return err
		}
		c := v.nicIn(ip.network)
		if c == nil {
			return fmt.Errorf("member %q has no nic in network %q", m, ip.network.name)
		}
		row.members = append(row.members, &lbMember{vm: v, ip: c.ip})
		row.state = ruleActive
	}
	b.st.addLBRule(row)
	return nil
}

func (b *builder) fwRule(ip *publicIP, r *FirewallRule, n int) error {
	switch {
	case ip.network == nil || !ip.network.provides("Firewall"):
		return errors.New("the address serves no network with the service Firewall")
	case r.Protocol != "tcp" && r.Protocol != "udp" && r.Protocol != "icmp":
		return fmt.Errorf("protocol %q must be tcp, udp or icmp", r.Protocol)
	}
	row := &fwRule{
		entity: b.entity("fwrule", r.ID, fmt.Sprintf("%s/%d", ip.uuid, n)), tagged: tagsOf(r.Tags), ip: ip, network: ip.network, protocol: r.Protocol,
		startPort: r.StartPort, endPort: r.EndPort, icmpType: r.ICMPType, icmpCode: r.ICMPCode, cidrs: r.CIDRs, state: ruleActive, account: ip.owner,
	}
	if row.endPort == nil {
		row.endPort = row.startPort
	}
	if len(row.cidrs) == 0 {
		row.cidrs = []string{"0.0.0.0/0"}
	}
	b.st.addFWRule(row)
	return nil
}

// sourceNATs gives every implemented network and every VPC a source NAT address.
func (b *builder) sourceNATs() error {
	for i, n := range b.st.networks.rows {
		want := b.w.Networks[i].SourceNAT
		if n.typ != typeIsolated || n.vpc != nil || !n.provides("SourceNat") || n.state == netAllocated {
			if want != "" {
				return fmt.Errorf("network %q: sourceNAT %s is only for an implemented isolated network with that service", n.name, want)
			}
			continue
		}
		ip := b.st.freeIP(n.zone)
		if want != "" {
			got, ok := b.st.ips.find(func(o *publicIP) bool { return o.addr.String() == want && o.zone == n.zone })
			if !ok || got.state != ipFree && got.network != n {
				return fmt.Errorf("network %q: sourceNAT %s is no free address of zone %q", n.name, want, n.zone.name)
			}
			ip = got
		}
		if ip == nil {
			return fmt.Errorf("network %q: no free public address is left for its source NAT; widen publicRanges", n.name)
		}
		if ip.state == ipFree {
			b.st.takeIP(ip, n.owner, b.now)
		}
		ip.state, ip.network, ip.sourceNAT = ipAllocated, n, true
	}
	for _, v := range b.st.vpcs.rows {
		if !b.st.startVPC(v, b.now) {
			return fmt.Errorf("vpc %q: no free public address is left for its source NAT; widen publicRanges", v.name)
		}
	}
	return nil
}

// systemVMs assigns public addresses to the zones' system VMs: those of the account named system, or else the lowest
// free ones. In a world without that account, all public addresses are left to the users.
func (b *builder) systemVMs() error {
	if !slices.ContainsFunc(b.w.Accounts, func(a Account) bool { return a.Name == systemAccount }) {
		return nil
	}
	wanted := map[string]bool{}
	for _, n := range b.w.Networks {
		wanted[n.SourceNAT] = true
	}
	for _, z := range b.st.zones.rows {
		b.st.systemAddresses(z, b.now, wanted)
	}
	return nil
}
