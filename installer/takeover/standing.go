// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/migrate"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
)

// world is what stands in CloudStack, as it will be once the rules have their names.
type world struct {
	facts   *Facts
	members []loadbalancer.Member
	owner   map[string]string // Service by rule id
	name    map[string]string // name by rule id, after the renames
	gone    map[string]bool   // ids of rules that the renames delete
}

func newWorld(f *Facts, p *migrate.Plan) *world {
	w := &world{facts: f, members: members(f), owner: map[string]string{}, name: map[string]string{}, gone: map[string]bool{}}
	for i := range p.Items {
		it := &p.Items[i]
		w.owner[it.RuleID], w.name[it.RuleID] = it.Service, cmp.Or(it.NewName, it.Name)
		w.gone[it.RuleID] = it.Verdict == migrate.VerdictSurplus
	}
	return w
}

// actual is what the controller will find of a Service.
func (w *world) actual(svc loadbalancer.Service, spec annotation.Spec) loadbalancer.Actual {
	var out loadbalancer.Actual
	for i := range w.facts.Addresses {
		ip := &w.facts.Addresses[i]
		a := w.address(ip, svc)
		record, recorded := spec.Records.Address(ip.ID)
		if recorded {
			a.Recorded, a.InStatus, a.Allocated = true, true, record.Allocated
		}
		own := slices.ContainsFunc(a.Rules, func(r loadbalancer.ActualRule) bool { return r.Owner == loadbalancer.Mine })
		if !recorded && spec.AllocatedByPredecessor && own {
			a.Allocated = true
		}
		concerns := recorded || a.Owner == loadbalancer.Mine || ip.Address == spec.Address
		if len(spec.Records.Addresses) == 0 {
			concerns = concerns || own || a.InStatus
		}
		if concerns {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out
}

func (w *world) address(ip *cloudstack.PublicIP, svc loadbalancer.Service) loadbalancer.Address {
	a := loadbalancer.Address{
		ID: ip.ID, IP: ip.Address, NetworkID: ip.AssociatedNetworkID, VPCID: ip.VPCID, SourceNAT: ip.SourceNAT, StaticNAT: ip.StaticNAT,
		State: ip.State, Known: true, Owner: loadbalancer.Unknown, InStatus: slices.Contains(svc.StatusIPs, ip.Address),
	}
	if cluster, uid := ip.Tags[loadbalancer.TagCluster], ip.Tags[loadbalancer.TagServiceUID]; cluster != "" || uid != "" {
		a.Owner = loadbalancer.Foreign
		a.ForeignCluster = cluster != "" && cluster != w.facts.ClusterID
		if cluster == w.facts.ClusterID && uid == svc.UID {
			a.Owner, a.Tagged, a.Allocated = loadbalancer.Mine, true, ip.Tags[loadbalancer.TagAllocatedBy] == loadbalancer.ManagedBy
		}
	}
	for i := range w.facts.Rules {
		r := &w.facts.Rules[i]
		if r.PublicIPID != ip.ID || w.gone[r.ID] {
			continue
		}
		rule := loadbalancer.ActualRule{
			Rule: loadbalancer.Rule{
				Name: w.name[r.ID], Protocol: strings.ToLower(r.Protocol), Algorithm: strings.ToLower(r.Algorithm),
				PublicPort: r.PublicPort, PrivatePort: r.PrivatePort, CIDRs: r.CIDRs,
			},
			ID: r.ID, State: r.State, Owner: loadbalancer.Foreign,
		}
		if w.owner[r.ID] == svc.Key() && !a.ForeignCluster {
			rule.Owner, rule.Adopted = loadbalancer.Mine, r.Description != svc.Key()
		}
		for j := range r.Members {
			rule.Members = append(rule.Members, r.Members[j].VMID)
		}
		slices.Sort(rule.Members)
		rule.Members = slices.Compact(rule.Members)
		a.Rules = append(a.Rules, rule)
	}
	for i := range w.facts.Firewall {
		if f := &w.facts.Firewall[i]; f.PublicIPID == ip.ID {
			a.Firewall = append(a.Firewall, loadbalancer.ActualFirewall{
				FirewallRange: loadbalancer.FirewallRange{Protocol: strings.ToLower(f.Protocol), StartPort: f.StartPort, EndPort: f.EndPort, CIDRs: f.CIDRs}, ID: f.ID,
			})
		}
	}
	return a
}

// network is the members' network, or the address's when there are no members.
func (w *world) network(a loadbalancer.Actual) *loadbalancer.Network {
	id := ""
	switch {
	case len(w.members) > 0:
		id = w.members[0].NICs[0].NetworkID
	case len(a.Addresses) > 0:
		id = a.Addresses[0].NetworkID
	}
	if n, ok := w.facts.Networks[id]; ok {
		return &n
	}
	return nil
}

// reach is who gets to a port: whom both the firewall and the rule let in. The result is minimal and sorted.
func reach(a *loadbalancer.Address, r *loadbalancer.ActualRule) []string {
	var open []netip.Prefix
	for i := range a.Firewall {
		f := &a.Firewall[i]
		all := f.StartPort == 0 && f.EndPort == 0
		if f.Protocol != loadbalancer.ProtocolTCP && f.Protocol != "all" || !all && (r.PublicPort < f.StartPort || f.EndPort < r.PublicPort) {
			continue
		}
		open = append(open, prefixes(f.CIDRs)...)
	}
	rule := r.CIDRs
	if len(rule) == 0 {
		rule = []string{annotation.Anyone}
	}
	return minimal(annotation.Intersect(annotation.Normalise(open), prefixes(rule)))
}

func prefixes(in []string) []netip.Prefix {
	v4, _, err := annotation.ParseRanges(in)
	if err != nil {
		return nil // CloudStack sends no others
	}
	return v4
}

// minimal leaves out what another range holds.
func minimal(in []netip.Prefix) []string {
	return annotation.Strings(slices.DeleteFunc(slices.Clone(in), func(p netip.Prefix) bool {
		return slices.ContainsFunc(in, func(o netip.Prefix) bool { return o.Bits() < p.Bits() && o.Contains(p.Addr()) })
	}))
}
