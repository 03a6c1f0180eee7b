// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// vmStates are the valid states of a VM in a world.
var vmStates = store.SetOf(store.VMRunning, store.VMStopped, store.VMDestroyed, store.VMExpunging, store.VMError, store.VMStarting, store.VMStopping, "Migrating", "Unknown", "Shutdown")

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
	if !wire.ValidHostName(v.Name) {
		return fmt.Errorf("the name must be letters, digits and hyphens, at most 63, and start with a letter")
	}
	if err := checkID(b.st.VMs, "virtual machine", v.Name, v.ID); err != nil {
		return err
	}
	if len(v.NICs) == 0 {
		return errors.New("it has no nics; give at least one with a network")
	}
	offering := b.st.Offerings.Rows[0]
	if v.Offering != "" {
		o, ok := b.st.Offerings.Find(func(o *store.ServiceOffering) bool { return strings.EqualFold(o.Name, v.Offering) })
		if !ok {
			return fmt.Errorf("service offering %q is not among the world's", v.Offering)
		}
		offering = o
	}
	tmpl := b.st.Templates.Rows[0]
	if v.Template != "" {
		t, ok := b.st.Templates.Find(func(t *store.Template) bool { return strings.EqualFold(t.Name, v.Template) })
		if !ok {
			return fmt.Errorf("template %q is not among the world's", v.Template)
		}
		tmpl = t
	}
	st := cmp.Or(v.State, store.VMRunning)
	if !vmStates[st] {
		return fmt.Errorf("state %q must be one of %s", v.State, strings.Join(slices.Sorted(maps.Keys(vmStates)), ", "))
	}
	row := &store.VM{
		Entity: b.entity("vm", v.ID, owner.UUID+v.Name), Tagged: tagsOf(v.Tags), Name: v.Name, Display: cmp.Or(v.DisplayName, v.Name), Owner: owner,
		User: b.userOf(owner), Zone: z, Offering: offering, Template: tmpl, State: st, Updated: b.now.Add(-store.StatsInterval), Hypervisor: "Simulator", BootKnown: st == store.VMRunning,
	}
	if row.User == nil {
		return fmt.Errorf("its owner %q has no user", owner.Name)
	}
	if st == store.VMRunning {
		row.Host = b.st.HostFor(z, len(b.st.VMs.Rows))
	}
	for i := range v.NICs {
		if err := b.nic(row, &v.NICs[i], i); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(row.NICs, func(c *store.NIC) bool { return c.IsDefault }) {
		row.NICs[0].IsDefault = true
	}
	if st == store.VMStopped || st == store.VMDestroyed {
		row.MarkStopped()
	}
	b.st.VMs.Add(row)
	return nil
}

// userOf returns the user that resources of the account show: for a project, a user of its first member.
func (b *builder) userOf(a *store.Account) *store.User {
	if a.Project != nil {
		a = a.Project.Members[0].Account
	}
	if len(a.Users) == 0 {
		return nil
	}
	return a.Users[0]
}

func (b *builder) nic(v *store.VM, c *NIC, device int) error {
	n, err := b.networkNamed(c.Network, v.Owner)
	if err != nil {
		return err
	}
	if n.Zone != v.Zone {
		return fmt.Errorf("network %q is in zone %s, the virtual machine in %s", n.Name, n.Zone.Name, v.Zone.Name)
	}
	seq := len(b.st.VMs.Rows)*8 + device + 1
	row := &store.NIC{
		Entity: store.Entity{UUID: cmp.Or(c.ID, store.StableID("nic", fmt.Sprintf("%s/%d", v.UUID, device))), Created: b.now}, Network: n, Device: device, IsDefault: c.Default, IP: c.IP, IP6: c.IPv6,
		MAC: cmp.Or(c.MAC, fmt.Sprintf("02:01:00:%02x:%02x:%02x", seq>>16&0xff, seq>>8&0xff, seq&0xff)),
	}
	if n.Typ != store.TypeL2 {
		if row.IP == "" {
			row.IP = b.st.FreeGuestIP(n)
		}
		a, err := netip.ParseAddr(row.IP)
		if err != nil || !n.CIDR.Contains(a) || row.IP == n.Gateway {
			return fmt.Errorf("ip %q is no address of network %q (%s) that a virtual machine can have", row.IP, n.Name, n.CIDR)
		}
	}
	for _, s := range c.Secondary {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("secondary address %q is not an address", s)
		}
		b.st.AddSecondary(row, s)
	}
	b.st.AddNIC(v, row)
	return nil
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
	ip, ok := b.st.IPs.Find(func(o *store.PublicIP) bool { return o.Addr == a })
	if !ok {
		return errors.New("the address lies in no publicRanges of the zones")
	}
	if ip.State != store.IPFree {
		return errors.New("the address is listed twice")
	}
	if p.ID != "" {
		if err := checkID(b.st.IPs, "public ip", p.Address, p.ID); err != nil {
			return err
		}
		b.st.IPs.Rename(ip, p.ID)
	}
	var owner *store.Account
	if p.Account != "" || p.Project != "" {
		if owner, err = b.owner("it", p.Account, p.Project); err != nil {
			return err
		}
	}
	if p.VPC != "" {
		v, ok := b.st.VPCs.Find(func(v *store.VPC) bool { return strings.EqualFold(v.Name, p.VPC) })
		if !ok {
			return fmt.Errorf("vpc %q is not among the world's vpcs", p.VPC)
		}
		ip.VPC, owner = v, v.Owner
	}
	if p.Network != "" {
		n, err := b.networkNamed(p.Network, owner)
		if err != nil {
			return err
		}
		ip.Network = n
		if owner == nil {
			owner = n.Owner
		}
		if n.VPC != nil {
			ip.VPC = n.VPC
		}
	}
	if owner == nil {
		return errors.New("give network, vpc, account or project: an allocated address has an owner")
	}
	ip.Owner, ip.Allocated, ip.Tagged = owner, b.now, tagsOf(p.Tags)
	switch p.State {
	case "", store.IPAllocated:
		ip.State = store.IPAllocated
	case store.IPAllocating, store.IPReserved:
		ip.State = p.State
	default:
		return fmt.Errorf("state %q must be Allocated, Allocating or Reserved", p.State)
	}
	if p.StaticNAT != "" {
		v, err := b.vmNamed(p.StaticNAT, owner)
		if err != nil {
			return err
		}
		c := v.NICs[0]
		if ip.Network != nil && v.NICIn(ip.Network) != nil {
			c = v.NICIn(ip.Network)
		}
		ip.StaticVM, ip.StaticIP, c.StaticNAT = v, c.IP, ip
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

func (b *builder) vmNamed(name string, owner *store.Account) (*store.VM, error) {
	v, ok := b.st.VMs.Find(func(v *store.VM) bool { return (strings.EqualFold(v.Name, name) || v.UUID == name) && v.Owner == owner })
	if !ok {
		return nil, fmt.Errorf("virtual machine %q is not among those of account %q", name, owner.Name)
	}
	return v, nil
}

func (b *builder) lbRule(ip *store.PublicIP, r *LoadBalancerRule) error {
	switch {
	case ip.Network == nil:
		return errors.New("the address has no network")
	case ip.StaticVM != nil:
		return errors.New("a static NAT address takes no load balancer rules")
	case r.Name == "" || r.PublicPort < 0 || r.PublicPort > 65535 || r.PrivatePort < 0 || r.PrivatePort > 65535:
		return errors.New("name, publicPort and privatePort (0 to 65535) must be given")
	case r.Protocol != "" && !slices.Contains(store.LBProtocols, r.Protocol):
		return fmt.Errorf("protocol %q must be one of %s, or empty", r.Protocol, strings.Join(store.LBProtocols, ", "))
	case r.Algorithm != "" && !slices.Contains(store.LBAlgorithms, r.Algorithm):
		return fmt.Errorf("algorithm %q must be one of %s", r.Algorithm, strings.Join(store.LBAlgorithms, ", "))
	}
	for _, o := range ip.LBRules {
		if o.PublicPort == r.PublicPort {
			return fmt.Errorf("public port %d is that of rule %q", r.PublicPort, o.Name)
		}
	}
	row := &store.LBRule{
		Entity: b.entity("lbrule", r.ID, ip.UUID+fmt.Sprint(r.PublicPort)), Tagged: tagsOf(r.Tags), Name: r.Name, Description: r.Description,
		Algorithm: cmp.Or(r.Algorithm, "roundrobin"), Protocol: r.Protocol, HasProtocol: r.Protocol != "", CIDRs: strings.Join(r.CIDRs, " "),
		HasCIDRs: r.CIDRs != nil, IP: ip, Network: ip.Network, PublicPort: r.PublicPort, PrivatePort: r.PrivatePort, State: store.RuleAdd, Account: ip.Owner,
	}
	for _, m := range r.Members {
		v, err := b.vmNamed(m, ip.Owner)
		if err != nil {
			return err
		}
		c := v.NICIn(ip.Network)
		if c == nil {
			return fmt.Errorf("member %q has no nic in network %q", m, ip.Network.Name)
		}
		row.Members = append(row.Members, &store.LBMember{VM: v, IP: c.IP})
		row.State = store.RuleActive
	}
	b.st.AddLBRule(row)
	return nil
}

func (b *builder) fwRule(ip *store.PublicIP, r *FirewallRule, n int) error {
	switch {
	case ip.Network == nil || !ip.Network.Provides("Firewall"):
		return errors.New("the address serves no network with the service Firewall")
	case r.Protocol != "tcp" && r.Protocol != "udp" && r.Protocol != "icmp":
		return fmt.Errorf("protocol %q must be tcp, udp or icmp", r.Protocol)
	}
	row := &store.FWRule{
		Entity: b.entity("fwrule", r.ID, fmt.Sprintf("%s/%d", ip.UUID, n)), Tagged: tagsOf(r.Tags), IP: ip, Network: ip.Network, Protocol: r.Protocol,
		StartPort: r.StartPort, EndPort: r.EndPort, IcmpType: r.ICMPType, IcmpCode: r.ICMPCode, CIDRs: r.CIDRs, State: store.RuleActive, Account: ip.Owner,
	}
	if row.EndPort == nil {
		row.EndPort = row.StartPort
	}
	if len(row.CIDRs) == 0 {
		row.CIDRs = []string{"0.0.0.0/0"}
	}
	b.st.AddFWRule(row)
	return nil
}

// sourceNATs gives every implemented network and every VPC a source NAT address.
func (b *builder) sourceNATs() error {
	for i, n := range b.st.Networks.Rows {
		want := b.w.Networks[i].SourceNAT
		if n.Typ != store.TypeIsolated || n.VPC != nil || !n.Provides("SourceNat") || n.State == store.NetAllocated {
			if want != "" {
				return fmt.Errorf("network %q: sourceNAT %s is only for an implemented isolated network with that service", n.Name, want)
			}
			continue
		}
		ip := b.st.FreeIP(n.Zone)
		if want != "" {
			got, ok := b.st.IPs.Find(func(o *store.PublicIP) bool { return o.Addr.String() == want && o.Zone == n.Zone })
			if !ok || got.State != store.IPFree && got.Network != n {
				return fmt.Errorf("network %q: sourceNAT %s is no free address of zone %q", n.Name, want, n.Zone.Name)
			}
			ip = got
		}
		if ip == nil {
			return fmt.Errorf("network %q: no free public address is left for its source NAT; widen publicRanges", n.Name)
		}
		if ip.State == store.IPFree {
			b.st.TakeIP(ip, n.Owner, b.now)
		}
		ip.State, ip.Network, ip.SourceNAT = store.IPAllocated, n, true
	}
	for _, v := range b.st.VPCs.Rows {
		if !b.st.StartVPC(v, b.now) {
			return fmt.Errorf("vpc %q: no free public address is left for its source NAT; widen publicRanges", v.Name)
		}
	}
	return nil
}

// systemVMs assigns public addresses to the zones' system VMs: those of the account named system, or else the lowest
// free ones. In a world without that account, all public addresses are left to the users.
func (b *builder) systemVMs() error {
	if !slices.ContainsFunc(b.w.Accounts, func(a Account) bool { return a.Name == store.SystemAccount }) {
		return nil
	}
	wanted := map[string]bool{}
	for _, n := range b.w.Networks {
		wanted[n.SourceNAT] = true
	}
	for _, z := range b.st.Zones.Rows {
		b.st.SystemAddresses(z, b.now, wanted)
	}
	return nil
}
