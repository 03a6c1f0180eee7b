// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// defaultACLs creates the two global ACL lists.
func (b *builder) defaultACLs() {
	for _, l := range []struct{ name, text, action string }{
		{"default_deny", "Default Network ACL Deny All", "Deny"}, {"default_allow", "Default Network ACL Allow All", "Allow"},
	} {
		row := b.st.aclLists.add(&aclList{entity: b.entity("acl", "", l.name), name: l.name, description: l.text})
		for n, traffic := range []string{"Ingress", "Egress"} {
			b.st.aclItems.add(&aclItem{
				entity: b.entity("aclitem", "", l.name+"/"+traffic), list: row, number: n + 1, protocol: "all", traffic: traffic, action: l.action,
				cidrs: []string{"0.0.0.0/0"}, state: ruleActive,
			})
		}
	}
}

// zoneNamed finds a zone by name; an empty name means the first zone.
func (b *builder) zoneNamed(what, name string) (*zone, error) {
	if name == "" {
		return b.st.zones.rows[0], nil
	}
	z, ok := b.st.zones.find(func(z *zone) bool { return strings.EqualFold(z.name, name) })
	if !ok {
		return nil, fmt.Errorf("%s: zone %q is not among the world's zones", what, name)
	}
	return z, nil
}

func (b *builder) vpcs() error {
	for _, v := range b.w.VPCs {
		what := fmt.Sprintf("vpc %q", v.Name)
		owner, err := b.owner(what, v.Account, v.Project)
		if err != nil {
			return err
		}
		z, err := b.zoneNamed(what, v.Zone)
		if err != nil {
			return err
		}
		if _, err := netip.ParsePrefix(v.CIDR); err != nil {
			return fmt.Errorf("%s: cidr %q is not a range such as 10.2.0.0/16", what, v.CIDR)
		}
		if err := checkID(b.st.vpcs, "vpc", v.Name, v.ID); err != nil {
			return err
		}
		row := b.st.vpcs.add(&vpc{
			entity: b.entity("vpc", v.ID, owner.uuid+v.Name), name: v.Name, display: v.Name, cidr: v.CIDR, zone: z, owner: owner, enabled: true,
			domainName: b.st.networkDomainOf(owner, z), offering: b.st.vpcOffering(vpcOfferingName),
		})
		for i := range v.ACLLists {
			if err := b.aclList(row, &v.ACLLists[i]); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	return nil
}

// fingerprintDomain returns the part of the network domain that CloudStack derives from the account.
func fingerprintDomain(a *account) string { return fmt.Sprintf("%x", a.id) }

func (b *builder) aclList(v *vpc, l *ACLList) error {
	if err := checkID(b.st.aclLists, "acl list", l.Name, l.ID); err != nil {
		return err
	}
	row := b.st.aclLists.add(&aclList{entity: b.entity("acl", l.ID, v.uuid+l.Name), name: l.Name, description: cmp.Or(l.Description, l.Name), vpc: v})
	numbers := map[int]bool{}
	for _, it := range l.Items {
		switch {
		case it.Number < 1 || numbers[it.Number]:
			return fmt.Errorf("acl list %q: number %d must be 1 or more and used once", l.Name, it.Number)
		case it.Protocol == "":
			return fmt.Errorf("acl list %q: item %d has no protocol (tcp, udp, icmp, all or a number)", l.Name, it.Number)
		}
		numbers[it.Number] = true
		item := &aclItem{
			entity: b.entity("aclitem", it.ID, fmt.Sprintf("%s/%d", row.uuid, it.Number)), list: row, number: it.Number, protocol: strings.ToLower(it.Protocol),
			traffic: cmp.Or(it.TrafficType, "Ingress"), action: cmp.Or(it.Action, "Allow"), startPort: it.StartPort, endPort: it.EndPort,
			cidrs: it.CIDRs, reason: it.Reason, state: ruleActive,
		}
		if item.endPort == nil {
			item.endPort = item.startPort
		}
		if len(item.cidrs) == 0 {
			item.cidrs = []string{"0.0.0.0/0"}
		}
		b.st.aclItems.add(item)
	}
	return nil
}

// defaultOfferings maps a network type to its default network offering.
var defaultOfferings = map[string]string{
	typeIsolated: "DefaultIsolatedNetworkOfferingWithSourceNatService", typeShared: "DefaultSharedNetworkOffering",
	typeL2: "DefaultL2NetworkOffering", "vpc": "DefaultIsolatedNetworkOfferingForVpcNetworks",
}

func (b *builder) networks() error {
	for i := range b.w.Networks {
		if err := b.network(&b.w.Networks[i]); err != nil {
			return fmt.Errorf("network %q: %w", b.w.Networks[i].Name, err)
		}
	}
	return nil
}

func (b *builder) network(n *Network) error {
	row := &network{name: n.Name, display: n.Name, typ: cmp.Or(n.Type, typeIsolated), tagged: tagsOf(n.Tags), vlan: 100 + len(b.st.networks.rows)}
	if n.Name == "" {
		return fmt.Errorf("the name is missing")
	}
	var err error
	if row.zone, err = b.zoneNamed("it", n.Zone); err != nil {
		return err
	}
	kind := row.typ
	if n.VPC != "" {
		v, ok := b.st.vpcs.find(func(v *vpc) bool { return strings.EqualFold(v.name, n.VPC) })
		if !ok {
			return fmt.Errorf("vpc %q is not among the world's vpcs", n.VPC)
		}
		row.vpc, row.owner, row.domain, row.zone, kind = v, v.owner, v.owner.domain, v.zone, "vpc"
		if row.acl, err = b.aclNamed(v, cmp.Or(n.ACL, "default_deny")); err != nil {
			return err
		}
	} else if n.ACL != "" {
		return fmt.Errorf("acl %q is only for tiers of a vpc", n.ACL)
	}
	switch {
	case row.vpc != nil:
	case n.Domain != "":
		d, ok := b.st.domainByPath(n.Domain)
		if !ok {
			return fmt.Errorf("domain %q is not among the world's domains", n.Domain)
		}
		if row.typ != typeShared {
			return fmt.Errorf("only a Shared network belongs to a domain; give account or project")
		}
		row.domain, row.subdomains = d, true
	default:
		if row.owner, err = b.owner("it", n.Account, n.Project); err != nil {
			return err
		}
		row.domain = row.owner.domain
	}
	offering := cmp.Or(n.Offering, defaultOfferings[kind])
	o, ok := b.st.netOffs.find(func(o *networkOffering) bool { return o.spec.Name == offering })
	if !ok {
		return fmt.Errorf("type %q and offering %q: there is no such network offering; types are Isolated, Shared and L2", row.typ, offering)
	}
	if o.spec.GuestType != row.typ || o.spec.ForVPC != (row.vpc != nil) {
		return fmt.Errorf("offering %q is for %s networks (vpc tier: %t), the network is %s (vpc tier: %t)", offering, o.spec.GuestType, o.spec.ForVPC, row.typ, row.vpc != nil)
	}
	row.offering = o
	if row.typ != typeL2 {
		p, err := netip.ParsePrefix(cmp.Or(n.CIDR, row.zone.guestCIDR))
		if err != nil || !p.Addr().Is4() {
			return fmt.Errorf("cidr %q is not an IPv4 range such as 10.1.1.0/24", n.CIDR)
		}
		row.cidr = p.Masked()
		row.gateway = row.cidr.Addr().Next().String()
	}
	switch {
	case row.vpc != nil:
		row.domainName = row.vpc.domainName
	case row.owner != nil:
		row.domainName = b.st.networkDomainOf(row.owner, row.zone)
	default:
		row.domainName = row.zone.systemDomain()
	}
	if row.state, err = b.networkState(n, row); err != nil {
		return err
	}
	if err := checkID(b.st.networks, "network", n.Name, n.ID); err != nil {
		return err
	}
	row.entity = b.entity("network", n.ID, ownerKey(row.owner, row.domain)+n.Name)
	b.st.networks.add(row)
	return nil
}

func (b *builder) networkState(n *Network, row *network) (string, error) {
	switch n.State {
	case netAllocated, netImplemented, netSetup:
		return n.State, nil
	case "":
	default:
		return "", fmt.Errorf("state %q must be Allocated, Implemented or Setup", n.State)
	}
	if row.typ != typeIsolated {
		return netSetup, nil
	}
	for _, v := range b.w.VirtualMachines {
		for _, c := range v.NICs {
			if c.Network == n.Name || c.Network == n.ID && n.ID != "" {
				return netImplemented, nil
			}
		}
	}
	return netAllocated, nil
}

func ownerKey(a *account, d *domain) string {
	if a != nil {
		return a.uuid
	}
	return d.uuid
}

func (b *builder) aclNamed(v *vpc, name string) (*aclList, error) {
	l, ok := b.st.aclLists.find(func(l *aclList) bool { return (l.vpc == v || l.vpc == nil) && strings.EqualFold(l.name, name) })
	if !ok {
		return nil, fmt.Errorf("acl %q is no list of its vpc, nor default_allow or default_deny", name)
	}
	return l, nil
}

// networkNamed finds a network that the owner may use, by name or id.
func (b *builder) networkNamed(name string, owner *account) (*network, error) {
	var hits []*network
	for _, n := range b.st.networks.rows {
		if (strings.EqualFold(n.name, name) || strings.EqualFold(n.uuid, name)) && (n.owner == nil || owner == nil || n.owner == owner) {
			hits = append(hits, n)
		}
	}
	switch len(hits) {
	case 0:
		return nil, fmt.Errorf("network %q is not among the networks that its owner can use", name)
	case 1:
		return hits[0], nil
	}
	return nil, fmt.Errorf("network %q: there are several of that name; give the network an id and refer to it by that", name)
}
