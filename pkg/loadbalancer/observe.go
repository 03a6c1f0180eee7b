// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// observe reads what concerns the Service into the memory. It only reads.
//
// A Service with a record costs two reads an address (its rules, its firewall)
// and one more for the address itself when prove is set or something is in
// doubt. Without a record the Service's rules are looked for by name, its
// status's addresses by address, and, when it is not new, its addresses by tag.
func (r *Reconciler) observe(ctx context.Context, t *task, prove bool) error {
	t.read = true
	seeds, err := r.seeds(ctx, t, prove)
	if err != nil {
		return err
	}
	actual := Actual{}
	for i := range seeds {
		a, found, err := r.readAddress(ctx, t, seeds[i], prove)
		if err != nil {
			return err
		}
		if found {
			actual.Addresses = append(actual.Addresses, a)
		} else if seeds[i].recorded != nil && !t.wanted.Absent {
			t.notify(Notice{Warning: true, Reason: ReasonAddressLost, Message: "address " + seeds[i].IP + " is gone from CloudStack"})
		}
	}
	t.mem.actual = &actual
	t.mem.readAt = r.options.Clock.Now()
	t.proven = t.proven || prove
	return nil
}

// seed is an address that may concern the Service.
type seed struct {
	ID, IP   string
	recorded *annotation.AddressRecord
	inStatus bool
	facts    *cloudstack.PublicIP
}

func (r *Reconciler) seeds(ctx context.Context, t *task, prove bool) ([]seed, error) {
	var out []seed
	at := func(id string) *seed {
		for i := range out {
			if out[i].ID == id {
				return &out[i]
			}
		}
		out = append(out, seed{ID: id})
		return &out[len(out)-1]
	}
	addFacts := func(ips []cloudstack.PublicIP) {
		for i := range ips {
			s := at(ips[i].ID)
			s.IP, s.facts = ips[i].Address, &ips[i]
			s.inStatus = s.inStatus || slices.Contains(t.Service.StatusIPs, ips[i].Address)
		}
	}
	for i := range t.records.Addresses {
		rec := t.records.Addresses[i]
		s := at(rec.ID)
		s.IP, s.recorded, s.inStatus = rec.IP, &rec, true
	}
	if len(out) == 0 {
		rules, err := r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{Keyword: t.Service.LB, ProjectID: t.project})
		if err != nil {
			return nil, fmt.Errorf("look for rules of %s: %w", t.Service.LB, err)
		}
		for i := range rules {
			// The keyword also matches parts of names and descriptions.
			if _, _, _, own := parseOwnRuleName(t.Service.LB, rules[i].Name); own {
				at(rules[i].PublicIPID).IP = rules[i].PublicIP
			}
		}
		for _, ip := range t.Service.StatusIPs {
			ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip, ProjectID: t.project})
			if err != nil {
				return nil, fmt.Errorf("look for address %s: %w", ip, err)
			}
			addFacts(ips)
		}
		if prove || len(t.Service.StatusIPs) > 0 {
			ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Tags: map[string]string{TagServiceUID: t.Service.UID}, ProjectID: t.project})
			if err != nil {
				return nil, fmt.Errorf("look for addresses tagged for %s: %w", t.Service.Key(), err)
			}
			addFacts(ips)
		}
	}
	if want := t.wanted.Address; want != "" && !slices.ContainsFunc(out, func(s seed) bool { return s.IP == want }) {
		ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: want, ProjectID: t.project})
		if err != nil {
			return nil, fmt.Errorf("look for address %s: %w", want, err)
		}
		addFacts(ips)
	}
	return out, nil
}

// readAddress reads one address; found is false when it is not the account's (any more).
func (r *Reconciler) readAddress(ctx context.Context, t *task, s seed, prove bool) (a Address, found bool, err error) {
	a = Address{ID: s.ID, IP: s.IP, Owner: Unknown, InStatus: s.inStatus}
	if s.recorded != nil {
		a.NetworkID, a.Allocated, a.Tagged, a.Recorded = s.recorded.NetworkID, s.recorded.Allocated, s.recorded.Tagged, true
	}
	doubt := s.recorded == nil || (a.Allocated && !a.Tagged && !r.noTags.Load()) || slices.Contains(t.wanted.Ports(), dnsPort)
	if prove || doubt || s.facts != nil {
		if found, err = r.readFacts(ctx, t, &a, s); err != nil || !found {
			return a, found, err
		}
	}
	if err := r.readRules(ctx, t, &a); err != nil {
		return a, false, err
	}
	// An address without rules of ours may have been released and be somebody else's by now.
	if !a.Known && len(a.ownRules()) == 0 {
		if found, err = r.readFacts(ctx, t, &a, s); err != nil || !found {
			return a, found, err
		}
	}
	if a.VPCID == "" && a.State != stateReleasing {
		if err := r.readFirewall(ctx, t, &a); err != nil {
			if a.Known || !refused(err) {
				return a, false, err
			}
			// The server refuses the firewall of an address that is no longer ours.
			found, ferr := r.readFacts(ctx, t, &a, s)
			if ferr != nil || !found {
				return a, false, ferr
			}
			return a, false, err
		}
	}
	r.decideOwner(t, &a, s)
	return a, true, nil
}

func refused(err error) bool {
	return cloudstack.IsNotFound(err) || cloudstack.IsKind(err, cloudstack.KindInvalid) || cloudstack.IsKind(err, cloudstack.KindNotPermitted)
}

func (r *Reconciler) readFacts(ctx context.Context, t *task, a *Address, s seed) (bool, error) {
	facts := s.facts
	if facts == nil {
		ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: a.ID, ProjectID: t.project})
		if err != nil && !cloudstack.IsNotFound(err) {
			return false, fmt.Errorf("read address %s: %w", a.IP, err)
		}
		if len(ips) == 0 {
			return r.stillReleasing(ctx, t, a)
		}
		facts = &ips[0]
	}
	a.IP, a.NetworkID, a.VPCID, a.State = facts.Address, facts.AssociatedNetworkID, facts.VPCID, facts.State
	a.SourceNAT, a.StaticNAT, a.Known = facts.SourceNAT, facts.StaticNAT, true
	a.Owner = tagOwner(facts.Tags, t.cluster, t.Service)
	a.OwnTags = presentTagKeys(facts.Tags)
	tagged := facts.Tags[TagCluster]
	a.ForeignCluster = tagged != "" && tagged != t.cluster
	switch {
	case a.Owner == Mine:
		a.Tagged = true
		a.Allocated = a.Allocated || facts.Tags[TagAllocatedBy] == ManagedBy
	case a.Owner == Foreign, a.Tagged:
		// The record says tagged and the tags are gone: released and acquired by somebody else, or disowned.
		a.Tagged, a.Allocated = false, false
	}
	return true, nil
}

// stillReleasing finds an address in a state that lists do not show: a release
// that failed leaves one, and only asking again for its release ends that.
func (r *Reconciler) stillReleasing(ctx context.Context, t *task, a *Address) (bool, error) {
	if !a.Allocated {
		return false, nil
	}
	all := false
	ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: a.ID, ProjectID: t.project, AllocatedOnly: &all})
	if err != nil && !cloudstack.IsNotFound(err) {
		return false, fmt.Errorf("read address %s: %w", a.IP, err)
	}
	switch {
	case len(ips) > 0 && ips[0].State != stateReleasing:
		return false, nil // free
	case len(ips) == 0 && !t.mem.releasing[a.ID]:
		return false, nil // another account's, or ended
	}
	a.State, a.Known = stateReleasing, true
	return true, nil
}

func (r *Reconciler) readRules(ctx context.Context, t *task, a *Address) error {
	if a.State == stateReleasing {
		return nil
	}
	rules, err := r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: a.ID, ProjectID: t.project})
	if err != nil {
		return fmt.Errorf("list load balancer rules of %s: %w", a.IP, err)
	}
	for i := range rules {
		rule := actualRule(&rules[i], t, a)
		if rule.Owner == Mine && !t.wanted.Absent {
			if rule.Members, err = r.members(ctx, t, rule); err != nil {
				return err
			}
		}
		if a.NetworkID == "" {
			a.NetworkID = rules[i].NetworkID
		}
		a.Rules = append(a.Rules, rule)
	}
	return nil
}

// actualRule classifies a rule: by its tags if it has any, else by its name.
func actualRule(in *cloudstack.LoadBalancerRule, t *task, a *Address) ActualRule {
	out := ActualRule{
		Rule: Rule{
			Name: in.Name, Protocol: strings.ToLower(in.Protocol), Algorithm: strings.ToLower(in.Algorithm),
			PublicPort: in.PublicPort, PrivatePort: in.PrivatePort, CIDRs: in.CIDRs,
		},
		ID: in.ID, State: in.State, Owner: tagOwner(in.Tags, t.cluster, t.Service),
	}
	if out.Owner == Unknown {
		out.Owner = Foreign
		if _, _, _, own := parseOwnRuleName(t.Service.LB, in.Name); own {
			out.Owner = Mine
		}
	}
	if a.ForeignCluster {
		out.Owner = Foreign
	}
	return out
}

// members are a rule's members: as remembered while that is young, else as read.
func (r *Reconciler) members(ctx context.Context, t *task, rule ActualRule) ([]string, error) {
	known, ok := t.mem.members[rule.ID]
	emptied := rule.State == "Add" && len(known.vms) > 0 // CloudStack's state of a rule without members
	if ok && !emptied && (r.options.MemberPeriod == 0 || r.options.Clock.Since(known.at) < r.options.MemberPeriod) {
		return known.vms, nil
	}
	list, err := r.api.ListLoadBalancerMembers(ctx, rule.ID)
	if err != nil {
		return nil, fmt.Errorf("list members of rule %s: %w", rule.Name, err)
	}
	vms := make([]string, 0, len(list))
	for i := range list {
		vms = append(vms, list[i].VMID)
	}
	slices.Sort(vms)
	vms = slices.Compact(vms)
	t.mem.members[rule.ID] = memberRead{vms: vms, at: r.options.Clock.Now()}
	return vms, nil
}

func (r *Reconciler) readFirewall(ctx context.Context, t *task, a *Address) error {
	list, err := r.api.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: a.ID, ProjectID: t.project})
	if err != nil {
		return fmt.Errorf("list firewall rules of %s: %w", a.IP, err)
	}
	for i := range list {
		f := &list[i]
		a.Firewall = append(a.Firewall, ActualFirewall{
			FirewallRange: FirewallRange{Protocol: strings.ToLower(f.Protocol), StartPort: f.StartPort, EndPort: f.EndPort, CIDRs: f.CIDRs},
			ID:            f.ID,
		})
	}
	return nil
}

// decideOwner completes what needs rules and record together.
func (r *Reconciler) decideOwner(t *task, a *Address, s seed) {
	// Upstream recorded on the Service that it acquired the address; its rules on the address say which one.
	if s.recorded == nil && t.Spec.AllocatedByPredecessor && a.Owner == Unknown && len(a.ownRules()) > 0 {
		a.Allocated = true
	}
	a.Recorded = s.recorded != nil && *s.recorded == record(a)
	// A server that ignores cidrlist in updates shows it here.
	for _, rule := range a.ownRules() {
		if t.updatedCIDRs != nil && t.updatedCIDRs[rule.ID] != nil {
			if sameRanges(t.updatedCIDRs[rule.ID], rule.CIDRs) {
				r.cidrUpdateProven.Store(true)
			} else {
				r.noCIDRUpdate.Store(true)
			}
		}
	}
}

func record(a *Address) annotation.AddressRecord {
	return annotation.AddressRecord{ID: a.ID, IP: a.IP, NetworkID: a.NetworkID, Allocated: a.Allocated, Tagged: a.Tagged}
}

// foreignAccess finds firewall rules of others that let in to our ports whom the Service does not.
func foreignAccess(d Desired, a Actual) []Notice {
	target := chooseTarget(d, a)
	if target == nil {
		return nil
	}
	var out []Notice
	ports := d.Ports()
	for _, f := range sortedFirewall(target.Firewall) {
		if f.Protocol != ProtocolTCP || target.ownsFirewall(f, ports) || containsRanges(d.Ranges, f.CIDRs) {
			continue
		}
		all := f.StartPort == 0 && f.EndPort == 0
		for _, port := range ports {
			if all || (f.StartPort <= port && port <= f.EndPort) {
				out = append(out, Notice{Warning: true, Reason: ReasonForeignFirewall, Message: fmt.Sprintf(
					"firewall rule %s on %s (%s from %s), which is not of this Service, lets others reach port %d; delete it in CloudStack if that is not meant",
					f.ID, target.IP, portsText(f.FirewallRange), strings.Join(f.CIDRs, ","), port)})
				break
			}
		}
	}
	return out
}
