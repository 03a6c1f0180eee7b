// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// defaultACLs creates the two global ACL lists.
func (b *builder) defaultACLs() {
	for _, l := range []struct{ name, text, action string }{
		{"default_deny", "Default Network ACL Deny All", "Deny"}, {"default_allow", "Default Network ACL Allow All", "Allow"},
	} {
		row := b.st.ACLLists.Add(&store.ACLList{Entity: b.entity("acl", "", l.name), Name: l.name, Description: l.text})
		for n, traffic := range []string{"Ingress", "Egress"} {
			b.st.ACLItems.Add(&store.ACLItem{
				Entity: b.entity("aclitem", "", l.name+"/"+traffic), List: row, Number: n + 1, Protocol: "all", Traffic: traffic, Action: l.action,
				CIDRs: []string{"0.0.0.0/0"}, State: store.RuleActive,
			})
		}
	}
}

// zoneNamed finds a zone by name; an empty name means the first zone.
func (b *builder) zoneNamed(what, name string) (*store.Zone, error) {
	if name == "" {
		return b.st.Zones.Rows[0], nil
	}
	z, ok := b.st.Zones.Find(func(z *store.Zone) bool { return strings.EqualFold(z.Name, name) })
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
		if err := checkID(b.st.VPCs, "vpc", v.Name, v.ID); err != nil {
			return err
		}
		row := b.st.VPCs.Add(&store.VPC{
			Entity: b.entity("vpc", v.ID, owner.UUID+v.Name), Name: v.Name, Display: v.Name, CIDR: v.CIDR, Zone: z, Owner: owner, Enabled: true,
			DomainName: b.st.NetworkDomainOf(owner, z), Offering: b.st.VPCOffering(store.VPCOfferingName),
		})
		for i := range v.ACLLists {
			if err := b.aclList(row, &v.ACLLists[i]); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	return nil
}

func (b *builder) aclList(v *store.VPC, l *ACLList) error {
	if err := checkID(b.st.ACLLists, "acl list", l.Name, l.ID); err != nil {
		return err
	}
	row := b.st.ACLLists.Add(&store.ACLList{Entity: b.entity("acl", l.ID, v.UUID+l.Name), Name: l.Name, Description: cmp.Or(l.Description, l.Name), VPC: v})
	numbers := map[int]bool{}
	for _, it := range l.Items {
		switch {
		case it.Number < 1 || numbers[it.Number]:
			return fmt.Errorf("acl list %q: number %d must be 1 or more and used once", l.Name, it.Number)
		case it.Protocol == "":
			return fmt.Errorf("acl list %q: item %d has no protocol (tcp, udp, icmp, all or a number)", l.Name, it.Number)
		}
		numbers[it.Number] = true
		item := &store.ACLItem{
			Entity: b.entity("aclitem", it.ID, fmt.Sprintf("%s/%d", row.UUID, it.Number)), List: row, Number: it.Number, Protocol: strings.ToLower(it.Protocol),
			Traffic: cmp.Or(it.TrafficType, "Ingress"), Action: cmp.Or(it.Action, "Allow"), StartPort: it.StartPort, EndPort: it.EndPort,
			CIDRs: it.CIDRs, Reason: it.Reason, State: store.RuleActive,
		}
		if item.EndPort == nil {
			item.EndPort = item.StartPort
		}
		if len(item.CIDRs) == 0 {
			item.CIDRs = []string{"0.0.0.0/0"}
		}
		b.st.ACLItems.Add(item)
	}
	return nil
}

// defaultOfferings maps a network type to its default network offering.
var defaultOfferings = map[string]string{
	store.TypeIsolated: "DefaultIsolatedNetworkOfferingWithSourceNatService", store.TypeShared: "DefaultSharedNetworkOffering",
	store.TypeL2: "DefaultL2NetworkOffering", "vpc": "DefaultIsolatedNetworkOfferingForVpcNetworks",
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
	row := &store.Network{Name: n.Name, Display: n.Name, Typ: cmp.Or(n.Type, store.TypeIsolated), Tagged: tagsOf(n.Tags), VLAN: 100 + len(b.st.Networks.Rows)}
	if n.Name == "" {
		return fmt.Errorf("the name is missing")
	}
	var err error
	if row.Zone, err = b.zoneNamed("it", n.Zone); err != nil {
		return err
	}
	kind := row.Typ
	if n.VPC != "" {
		v, ok := b.st.VPCs.Find(func(v *store.VPC) bool { return strings.EqualFold(v.Name, n.VPC) })
		if !ok {
			return fmt.Errorf("vpc %q is not among the world's vpcs", n.VPC)
		}
		row.VPC, row.Owner, row.Domain, row.Zone, kind = v, v.Owner, v.Owner.Domain, v.Zone, "vpc"
		if row.ACL, err = b.aclNamed(v, cmp.Or(n.ACL, "default_deny")); err != nil {
			return err
		}
	} else if n.ACL != "" {
		return fmt.Errorf("acl %q is only for tiers of a vpc", n.ACL)
	}
	switch {
	case row.VPC != nil:
	case n.Domain != "":
		d, ok := b.st.DomainByPath(n.Domain)
		if !ok {
			return fmt.Errorf("domain %q is not among the world's domains", n.Domain)
		}
		if row.Typ != store.TypeShared {
			return fmt.Errorf("only a Shared network belongs to a domain; give account or project")
		}
		row.Domain, row.Subdomains = d, true
	default:
		if row.Owner, err = b.owner("it", n.Account, n.Project); err != nil {
			return err
		}
		row.Domain = row.Owner.Domain
	}
	offering := cmp.Or(n.Offering, defaultOfferings[kind])
	o, ok := b.st.NetOffs.Find(func(o *store.NetworkOffering) bool { return o.Spec.Name == offering })
	if !ok {
		return fmt.Errorf("type %q and offering %q: there is no such network offering; types are Isolated, Shared and L2", row.Typ, offering)
	}
	if o.Spec.GuestType != row.Typ || o.Spec.ForVPC != (row.VPC != nil) {
		return fmt.Errorf("offering %q is for %s networks (vpc tier: %t), the network is %s (vpc tier: %t)", offering, o.Spec.GuestType, o.Spec.ForVPC, row.Typ, row.VPC != nil)
	}
	row.Offering = o
	if row.Typ != store.TypeL2 {
		p, err := netip.ParsePrefix(cmp.Or(n.CIDR, row.Zone.GuestCIDR))
		if err != nil || !p.Addr().Is4() {
			return fmt.Errorf("cidr %q is not an IPv4 range such as 10.1.1.0/24", n.CIDR)
		}
		row.CIDR = p.Masked()
		row.Gateway = row.CIDR.Addr().Next().String()
	}
	switch {
	case row.VPC != nil:
		row.DomainName = row.VPC.DomainName
	case row.Owner != nil:
		row.DomainName = b.st.NetworkDomainOf(row.Owner, row.Zone)
	default:
		row.DomainName = row.Zone.SystemDomain()
	}
	if row.State, err = b.networkState(n, row); err != nil {
		return err
	}
	if err := checkID(b.st.Networks, "network", n.Name, n.ID); err != nil {
		return err
	}
	row.Entity = b.entity("network", n.ID, store.OwnerKey(row.Owner, row.Domain)+n.Name)
	b.st.Networks.Add(row)
	return nil
}

func (b *builder) networkState(n *Network, row *store.Network) (string, error) {
	switch n.State {
	case store.NetAllocated, store.NetImplemented, store.NetSetup:
		return n.State, nil
	case "":
	default:
		return "", fmt.Errorf("state %q must be Allocated, Implemented or Setup", n.State)
	}
	if row.Typ != store.TypeIsolated {
		return store.NetSetup, nil
	}
	for _, v := range b.w.VirtualMachines {
		for _, c := range v.NICs {
			if c.Network == n.Name || c.Network == n.ID && n.ID != "" {
				return store.NetImplemented, nil
			}
		}
	}
	return store.NetAllocated, nil
}

func (b *builder) aclNamed(v *store.VPC, name string) (*store.ACLList, error) {
	l, ok := b.st.ACLLists.Find(func(l *store.ACLList) bool { return (l.VPC == v || l.VPC == nil) && strings.EqualFold(l.Name, name) })
	if !ok {
		return nil, fmt.Errorf("acl %q is no list of its vpc, nor default_allow or default_deny", name)
	}
	return l, nil
}

// networkNamed finds a network that the owner may use, by name or id.
func (b *builder) networkNamed(name string, owner *store.Account) (*store.Network, error) {
	var hits []*store.Network
	for _, n := range b.st.Networks.Rows {
		if (strings.EqualFold(n.Name, name) || strings.EqualFold(n.UUID, name)) && (n.Owner == nil || owner == nil || n.Owner == owner) {
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
