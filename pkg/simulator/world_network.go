// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

var kubernetesNumber = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// everywhere are the source ranges of rules for which the world specifies none.
var everywhere = []string{"0.0.0.0/0"}

// rangesOr returns the source ranges of a rule, or everywhere if it has none.
func rangesOr(cidrs []string) []string {
	if len(cidrs) == 0 {
		return everywhere
	}
	return cidrs
}

func (b *builder) vpc(v *VPC) {
	b.what = fmt.Sprintf("vpc %q", v.Name)
	owner, z := b.accountNamed(v.Account), b.zoneNamed("")
	_, err := netip.ParsePrefix(v.CIDR)
	b.check(err == nil, "cidr %q is not a range such as 10.2.0.0/16", v.CIDR)
	row := b.st.VPCs.Add(&store.VPC{
		Entity:     b.entity("vpc", "", owner.UUID+v.Name),
		Name:       v.Name,
		Display:    v.Name,
		CIDR:       v.CIDR,
		Zone:       z,
		Owner:      owner,
		Enabled:    true,
		DomainName: b.st.NetworkDomainOf(owner, z),
		Offering:   b.st.VPCOffering(store.VPCOfferingName),
	})

	for _, l := range v.ACLLists {
		list := b.st.ACLLists.Add(&store.ACLList{
			Entity:      b.entity("acl", "", row.UUID+l.Name),
			Name:        l.Name,
			Description: l.Name,
			VPC:         row,
		})

		for _, it := range l.Items {
			b.check(it.Number > 0 && it.Protocol != "",
				"acl list %q: an item has a number from 1 and a protocol (tcp, udp, icmp, all or a number)",
				l.Name)
			item := &store.ACLItem{
				Entity:    b.entity("aclitem", "", fmt.Sprintf("%s/%d", list.UUID, it.Number)),
				List:      list,
				Number:    it.Number,
				Protocol:  strings.ToLower(it.Protocol),
				Traffic:   cmp.Or(it.TrafficType, "Ingress"),
				Action:    cmp.Or(it.Action, "Allow"),
				StartPort: it.StartPort,
				EndPort:   cmp.Or(it.EndPort, it.StartPort),
				CIDRs:     rangesOr(it.CIDRs),
				Reason:    it.Reason,
				State:     store.RuleActive,
			}
			b.st.ACLItems.Add(item)
		}
	}
}

// defaultOfferings maps a network type to its default network offering.
var defaultOfferings = map[string]string{
	store.TypeIsolated: "DefaultIsolatedNetworkOfferingWithSourceNatService",
	store.TypeShared:   "DefaultSharedNetworkOffering",
	store.TypeL2:       "DefaultL2NetworkOffering", "vpc": "DefaultIsolatedNetworkOfferingForVpcNetworks",
}

func (b *builder) network(n *Network) {
	b.what = fmt.Sprintf("network %q", n.Name)
	b.check(n.Name != "", "the name is missing")
	b.check(n.ACL == "" || n.VPC != "", "acl %q is only for tiers of a vpc", n.ACL)
	row := &store.Network{
		Name:    n.Name,
		Display: n.Name,
		Typ:     cmp.Or(n.Type, store.TypeIsolated),
		VLAN:    100 + len(b.st.Networks.Rows),
		Zone:    b.zoneNamed(n.Zone),
	}

	kind := row.Typ
	switch {
	case n.VPC != "":
		v := find(b, b.st.VPCs, "vpc", n.VPC, func(v *store.VPC) bool { return strings.EqualFold(v.Name, n.VPC) })
		acl := cmp.Or(n.ACL, "default_deny")
		row.ACL = find(b, b.st.ACLLists, "acl", acl, func(l *store.ACLList) bool {
			return (l.VPC == v || l.VPC == nil) && strings.EqualFold(l.Name, acl)
		})
		row.VPC = v
		row.Owner = v.Owner
		row.Domain = v.Owner.Domain
		row.Zone = v.Zone
		row.DomainName = v.DomainName
		kind = "vpc"
	case n.Domain != "":
		d, ok := b.st.DomainByPath(n.Domain)
		b.check(ok && row.Typ == store.TypeShared,
			"domain %q must be among the world's domains, and own a Shared network", n.Domain)
		row.Domain, row.Subdomains, row.DomainName = d, true, row.Zone.SystemDomain()
	default:
		row.Owner = b.owner(n.Account, n.Project)
		row.Domain, row.DomainName = row.Owner.Domain, b.st.NetworkDomainOf(row.Owner, row.Zone)
	}

	offering := cmp.Or(n.Offering, defaultOfferings[kind])
	row.Offering, _ = b.st.NetOffs.Find(func(o *store.NetworkOffering) bool { return o.Spec.Name == offering })
	b.check(row.Offering != nil &&
		row.Offering.Spec.GuestType == row.Typ &&
		row.Offering.Spec.ForVPC == (row.VPC != nil),
		"type %q and offering %q: there is no such network offering for it (vpc tier: %t); types are Isolated, "+
			"Shared and L2", row.Typ, offering, row.VPC != nil)

	if n.NoConserveMode && row.Offering.Spec.Conserve {
		name := offering + " without conserve mode"
		known, ok := b.st.NetOffs.Find(func(o *store.NetworkOffering) bool { return o.Spec.Name == name })
		if !ok {
			var err error
			known, err = addNetworkOffering(b.st, row.Offering.Body,
				map[string]any{"name": name, "conservemode": false, "isdefault": false}, b.now)
			b.check(err == nil, "%v", err)
		}
		row.Offering = known
	}

	if row.Typ != store.TypeL2 {
		p, err := netip.ParsePrefix(cmp.Or(n.CIDR, row.Zone.GuestCIDR))
		b.check(err == nil && p.Addr().Is4(), "cidr %q is not an IPv4 range such as 10.1.1.0/24", n.CIDR)
		row.CIDR = p.Masked()
		row.Gateway = row.CIDR.Addr().Next().String()
	}

	used := slices.ContainsFunc(b.w.VirtualMachines, func(v VirtualMachine) bool {
		return slices.ContainsFunc(v.NICs,
			func(c NIC) bool { return c.Network == n.Name || c.Network == n.ID && n.ID != "" })
	})

	switch {
	case row.Typ != store.TypeIsolated:
		row.State = store.NetSetup
	case used:
		row.State = store.NetImplemented
	default:
		row.State = store.NetAllocated
	}

	row.Entity = b.entity("network", n.ID, store.OwnerKey(row.Owner, row.Domain)+n.Name)
	b.st.Networks.Add(row)
}

// networkNamed finds a network that the owner may use, by name or id.
func (b *builder) networkNamed(name string, owner *store.Account) *store.Network {
	var hits []*store.Network
	for _, n := range b.st.Networks.Rows {
		if (strings.EqualFold(n.Name, name) || strings.EqualFold(n.UUID, name)) &&
			(n.Owner == nil || owner == nil || n.Owner == owner) {
			hits = append(hits, n)
		}
	}
	b.check(len(hits) > 0, "network %q is not among the networks that its owner can use", name)
	b.check(len(hits) == 1,
		"network %q: there are several of that name; give the network an id and refer to it by that", name)
	return hits[0]
}

func (b *builder) machine(v *VirtualMachine) {
	b.what = fmt.Sprintf("virtual machine %q", v.Name)
	owner := b.owner(v.Account, v.Project)
	b.check(wire.ValidHostName(v.Name),
		"the name must be letters, digits and hyphens, at most 63, and start with a letter")
	b.check(len(v.NICs) > 0, "it has no nics; give at least one with a network")
	users := owner // the VM shows the first user of this account; for a project, the account is its first member
	if owner.Project != nil {
		users = owner.Project.Members[0].Account
	}

	b.check(len(users.Users) > 0, "its owner %q has no user", owner.Name)
	row := &store.VM{
		Entity:  b.entity("vm", v.ID, owner.UUID+v.Name),
		Name:    v.Name,
		Display: v.Name,
		Owner:   owner,
		User:    users.Users[0],
		Zone:    b.zoneNamed(v.Zone),
		Offering: find(b, b.st.Offerings, "service offering", v.Offering, func(o *store.ServiceOffering) bool {
			return v.Offering == "" || strings.EqualFold(o.Name, v.Offering)
		}),
		Template:   b.st.Templates.Rows[0],
		State:      store.VMRunning,
		Updated:    b.now.Add(-store.StatsInterval),
		Hypervisor: "Simulator",
		BootKnown:  true,
	}

	if v.RootDiskGiB > 0 {
		row.Details = map[string]string{"rootdisksize": strconv.Itoa(v.RootDiskGiB)}
	}

	row.Host = b.st.HostFor(row.Zone, len(b.st.VMs.Rows))
	for i := range v.NICs {
		b.nic(row, &v.NICs[i], i)
	}

	if !slices.ContainsFunc(row.NICs, func(c *store.NIC) bool { return c.IsDefault }) {
		row.NICs[0].IsDefault = true
	}

	b.st.VMs.Add(row)
}

func (b *builder) nic(v *store.VM, c *NIC, device int) {
	n := b.networkNamed(c.Network, v.Owner)
	b.check(n.Zone == v.Zone, "network %q is in zone %s, the virtual machine in %s", n.Name, n.Zone.Name, v.Zone.Name)
	seq := len(b.st.VMs.Rows)*8 + device + 1
	row := &store.NIC{
		Entity: store.Entity{
			UUID:    cmp.Or(c.ID, store.StableID("nic", fmt.Sprintf("%s/%d", v.UUID, device))),
			Created: b.now,
		},
		Network:   n,
		Device:    device,
		IsDefault: c.Default,
		IP:        c.IP,
		MAC:       cmp.Or(c.MAC, fmt.Sprintf("02:01:00:%02x:%02x:%02x", seq>>16&0xff, seq>>8&0xff, seq&0xff)),
	}

	if n.Typ != store.TypeL2 {
		if row.IP == "" {
			row.IP = b.st.FreeGuestIP(n)
		}
		a, err := netip.ParseAddr(row.IP)
		b.check(err == nil && n.CIDR.Contains(a) && row.IP != n.Gateway,
			"ip %q is no address of network %q (%s) that a virtual machine can have", row.IP, n.Name, n.CIDR)
	}

	for _, s := range c.Secondary {
		b.st.AddSecondary(row, s)
	}

	b.st.AddNIC(v, row)
}

func (b *builder) address(p *PublicIP) {
	b.what = fmt.Sprintf("public ip %q", p.Address)
	ip, ok := b.st.AddressNamed(nil, p.Address)
	b.check(ok, "the address lies in no publicRanges of the zones")
	b.check(ip.State == store.IPFree, "the address is listed twice")
	b.check((p.Network == "") != (p.VPC == ""), "give network or vpc")
	if p.ID != "" {
		b.st.IPs.Rename(ip, b.entity("ip", p.ID, "").UUID)
	}

	if p.VPC != "" {
		ip.VPC = find(b, b.st.VPCs, "vpc", p.VPC, func(v *store.VPC) bool { return strings.EqualFold(v.Name, p.VPC) })
		ip.Owner = ip.VPC.Owner
	} else {
		ip.Network = b.networkNamed(p.Network, nil)
		ip.Owner, ip.VPC = ip.Network.Owner, ip.Network.VPC
	}

	b.check(ip.Owner != nil, "an allocated address has an owner")
	ip.State, ip.Allocated = store.IPAllocated, b.now
	for _, k := range slices.Sorted(maps.Keys(p.Tags)) {
		ip.Tags = append(ip.Tags, store.Tag{Key: k, Value: p.Tags[k], UUID: uuid.NewString()})
	}

	if p.StaticNAT != "" {
		v := b.vmNamed(p.StaticNAT, ip.Owner)
		b.check(ip.Network != nil && v.NICIn(ip.Network) != nil,
			"virtual machine %q has no nic in the network of the address", p.StaticNAT)
		c := v.NICIn(ip.Network)
		ip.StaticVM, ip.StaticIP, c.StaticNAT = v, c.IP, ip
	}

	for i := range p.LoadBalancerRules {
		b.lbRule(ip, &p.LoadBalancerRules[i])
	}

	for i := range p.FirewallRules {
		b.fwRule(ip, &p.FirewallRules[i], i)
	}
}

func (b *builder) vmNamed(name string, owner *store.Account) *store.VM {
	return find(b, b.st.VMs, "virtual machine", name, func(v *store.VM) bool {
		return (strings.EqualFold(v.Name, name) || v.UUID == name) && v.Owner == owner
	})
}

func (b *builder) lbRule(ip *store.PublicIP, r *LoadBalancerRule) {
	b.what = fmt.Sprintf("public ip %q: load balancer rule %q", ip.Addr, r.Name)
	b.check(ip.Network != nil, "the address has no network")
	b.check(r.Name != "" && min(r.PublicPort, r.PrivatePort) >= 0 && max(r.PublicPort, r.PrivatePort) <= 65535,
		"name, publicPort and privatePort (0 to 65535) must be given")
	b.check(r.Protocol == "" || slices.Contains(store.LBProtocols, r.Protocol),
		"protocol %q must be one of %s, or empty", r.Protocol, strings.Join(store.LBProtocols, ", "))
	row := &store.LBRule{
		Entity:      b.entity("lbrule", r.ID, ip.UUID+fmt.Sprint(r.PublicPort)),
		Name:        r.Name,
		Algorithm:   cmp.Or(r.Algorithm, "roundrobin"),
		Protocol:    r.Protocol,
		HasProtocol: r.Protocol != "",
		CIDRs:       strings.Join(r.CIDRs, " "),
		HasCIDRs:    r.CIDRs != nil,
		IP:          ip,
		Network:     ip.Network,
		PublicPort:  r.PublicPort,
		PrivatePort: r.PrivatePort,
		State:       store.RuleAdd,
		Account:     ip.Owner,
	}

	b.check(slices.Contains(store.LBAlgorithms, row.Algorithm), "algorithm %q must be one of %s", r.Algorithm,
		strings.Join(store.LBAlgorithms, ", "))
	b.check(wire.BalancerConflict(row) == nil, "public port %d is that of another rule", r.PublicPort)
	for _, m := range r.Members {
		v := b.vmNamed(m, ip.Owner)
		c := v.NICIn(ip.Network)
		b.check(c != nil, "member %q has no nic in network %q", m, ip.Network.Name)
		row.Members = append(row.Members, &store.LBMember{VM: v, IP: c.IP})
		row.State = store.RuleActive
	}

	b.st.AddLBRule(row)
}

func (b *builder) fwRule(ip *store.PublicIP, r *FirewallRule, n int) {
	b.what = fmt.Sprintf("public ip %q: firewall rule %d", ip.Addr, n+1)
	b.check(ip.Network != nil && ip.Network.Provides("Firewall"),
		"the address serves no network with the service Firewall")
	b.check(slices.Contains([]string{"tcp", "udp", "icmp"}, r.Protocol), "protocol %q must be tcp, udp or icmp",
		r.Protocol)
	b.st.AddFWRule(&store.FWRule{
		Entity:    b.entity("fwrule", r.ID, fmt.Sprintf("%s/%d", ip.UUID, n)),
		IP:        ip,
		Network:   ip.Network,
		Protocol:  r.Protocol,
		StartPort: r.StartPort,
		EndPort:   cmp.Or(r.EndPort, r.StartPort),
		CIDRs:     rangesOr(r.CIDRs),
		State:     store.RuleActive,
		Account:   ip.Owner,
	})
}

// systemVMs assigns public addresses to the zones' system VMs: those of the account named system, or otherwise the
// lowest free ones. In a world without that account, system VMs have no addresses, so that users have all of them.
func (b *builder) systemVMs() {
	if !slices.ContainsFunc(b.w.Accounts, func(a Account) bool { return a.Name == store.SystemAccount }) {
		return
	}
	wanted := map[string]bool{}
	for _, n := range b.w.Networks {
		wanted[n.SourceNAT] = true
	}
	for _, z := range b.st.Zones.Rows {
		b.st.SystemAddresses(z, b.now, wanted)
	}
}

// sourceNATs assigns a source NAT address to every implemented network and every VPC.
func (b *builder) sourceNATs() {
	for i, n := range b.st.Networks.Rows {
		want := b.w.Networks[i].SourceNAT
		b.what = fmt.Sprintf("network %q", n.Name)
		if n.Typ != store.TypeIsolated || n.VPC != nil || !n.Provides("SourceNat") || n.State == store.NetAllocated {
			b.check(want == "", "sourceNAT %s is only for an implemented isolated network with that service", want)
			continue
		}
		ip := b.st.FreeIP(n.Zone)
		if want != "" {
			ip, _ = b.st.AddressNamed(n.Zone, want)
			b.check(ip != nil && (ip.State == store.IPFree || ip.Network == n),
				"sourceNAT %s is no free address of zone %q", want, n.Zone.Name)
		}
		b.check(ip != nil, "no free public address is left for its source NAT; widen publicRanges")
		if ip.State == store.IPFree {
			b.st.TakeIP(ip, n.Owner, b.now)
		}
		ip.State, ip.Network, ip.SourceNAT = store.IPAllocated, n, true
	}

	for _, v := range b.st.VPCs.Rows {
		b.what = fmt.Sprintf("vpc %q", v.Name)
		b.check(b.st.StartVPC(v, b.now), "no free public address is left for its source NAT; widen publicRanges")
	}
}
