// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// readAddress reads one address; found is false when it is not the account's (any more).
func (r *reading) readAddress(ctx context.Context, c candidate) (a plan.Address, found bool, err error) {
	a = plan.Address{ID: c.ID, IP: c.IP, Owner: plan.Unknown, InStatus: c.inStatus, Settled: r.settled(c.ID)}
	if c.recorded != nil {
		a.Recorded, a.Allocated, a.Tagged, a.HasStickiness = true, c.recorded.Allocated, c.recorded.Tagged, c.recorded.Sticky
		a.FirewallPorts, a.ForwardPorts = annotation.ParsePorts(c.recorded.Opened), annotation.ParsePorts(c.recorded.Forwarded)
	}
	if c.known != nil {
		a = *c.known
		a.Rules, a.Forwards, a.Firewall, a.Settled = nil, nil, nil, r.settled(c.ID)
	} else if found, err = r.readFacts(ctx, &a, c); err != nil || !found || a.State == plan.StateReleasing {
		// Whatever the record says: the address may have been released and be somebody else's by now.
		return a, found, err
	}
	if err := r.readRules(ctx, &a); err != nil {
		return a, false, err
	}
	if r.Whole || r.mayHaveForwards(c) {
		if err = r.readForwards(ctx, &a, c); err != nil {
			return a, false, err
		}
	}
	if a.VPCID == "" {
		if err := r.readFirewall(ctx, &a); err != nil {
			return a, false, err
		}
	}
	if c.known != nil && !a.SameAcquisition(c.known) {
		c.known = nil
		return r.readAddress(ctx, c)
	}
	// What was handed over belongs to those that use it.
	a.Allocated = a.Allocated || r.unused[a.ID] && (len(a.OwnRules()) > 0 || len(a.OwnForwards()) > 0 || c.recorded != nil)
	return a, true, nil
}

// readFacts reads the address itself; found is false when it is not the account's, or not the Service's any more.
func (r *reading) readFacts(ctx context.Context, a *plan.Address, c candidate) (found bool, err error) {
	facts := c.facts
	if facts == nil {
		ips, err := r.address(ctx, a.ID)
		if err != nil {
			return false, fmt.Errorf("read address %s: %w", a.IP, err)
		}
		// A release that failed, or still runs, leaves an address in a state that only asking again for its release ends.
		_, asked := r.Releasing[a.ID]
		switch {
		case len(ips) > 0 && ips[0].State != plan.StateReleasing && ips[0].State != plan.StateFree:
			facts = &ips[0]
		case a.Allocated && (asked && len(ips) == 0 || len(ips) > 0 && ips[0].State == plan.StateReleasing):
			a.State = plan.StateReleasing
			return true, nil
		default: // another account's, or free
			return false, nil
		}
	}
	a.IP, a.NetworkID, a.VPCID, a.State = facts.Address, facts.AssociatedNetworkID, facts.VPCID, facts.State
	a.SourceNAT, a.StaticNAT = facts.SourceNAT, facts.StaticNAT
	a.Owner = r.owner(facts.Tags)
	a.OwnTags = plan.PresentTagKeys(facts.Tags)
	a.TaggedUID, a.TaggedService, a.Keeper = facts.Tags[plan.TagServiceUID], facts.Tags[plan.TagService], facts.Tags[plan.TagKeptBy]
	cluster := facts.Tags[plan.TagCluster]
	// Another cluster may have had the same id as this one had formerly: the Service tells whose it is.
	formerly := slices.Contains(r.Clusters, cluster) && (a.TaggedUID == "" || r.Book.ByUID(a.TaggedUID) != nil)
	a.ForeignCluster = cluster != "" && a.Owner != plan.Owned && cluster != r.Clusters[0] && !formerly
	if c.recorded != nil && a.Owner != plan.Owned && c.recorded.Acquired != "" && c.recorded.Acquired != facts.Allocated {
		return false, nil // it was released, and somebody else has acquired it since
	}
	a.Acquired, a.FormerCluster = facts.Allocated, a.Owner == plan.Owned && plan.Former(facts.Tags, r.Clusters)
	switch {
	case a.Owner == plan.Owned:
		a.Tagged = true
		a.Allocated = a.Allocated || facts.Tags[plan.TagAllocatedBy] == plan.ManagedBy
	case plan.Unused(facts.Tags, r.Clusters):
		// Handed over by the Service that it was acquired for.
		a.Owner, a.Tagged, a.Allocated = plan.Unknown, false, false
		r.unused[a.ID] = true
	case a.Owner != plan.Unknown, a.Tagged, c.recorded == nil || c.recorded.Acquired == "":
		// It is somebody else's, or lost its tags, or the record does not say which acquisition it is about.
		a.Tagged, a.Allocated = false, false
	}
	return true, nil
}

func (r *reading) readFirewall(ctx context.Context, a *plan.Address) error {
	list, err := find(ctx, r, r.fresh(a.ID), r.api.ListFirewallRules, cloudstack.FirewallRuleQuery{ProjectID: r.Project},
		cloudstack.FirewallRuleQuery{PublicIPID: a.ID, ProjectID: r.Project}, func(f *cloudstack.FirewallRule) bool { return f.PublicIPID == a.ID })
	if err != nil {
		return fmt.Errorf("list firewall rules of %s: %w", a.IP, err)
	}
	for i := range list {
		f := &list[i]
		a.Firewall = append(a.Firewall, item(f.ID, f.State, f.Protocol, f.StartPort, f.EndPort, f.CIDRs, r.mark(f.Tags)))
	}
	return nil
}

// item is what all kinds of items have.
func item(id, state, protocol string, start, end int, cidrs []string, mark plan.Mark) plan.Item {
	return plan.Item{
		Rule: access.Rule{
			Range: access.Range{Protocol: strings.ToLower(protocol), StartPort: start, EndPort: end, CIDRs: cidrs},
			ID:    id, Deleting: state == plan.StateDeleting,
		},
		State: state, Mark: mark,
	}
}

// candidate is an address that may concern the Service.
type candidate struct {
	ID, IP   string
	recorded *annotation.AddressRecord
	inStatus bool
	facts    *cloudstack.PublicIP
	known    *plan.Address // as remembered, where that counts until its rules say otherwise
}

// candidates has each address once.
type candidates []candidate

func (l *candidates) at(id string) *candidate {
	for i := range *l {
		if (*l)[i].ID == id {
			return &(*l)[i]
		}
	}
	*l = append(*l, candidate{ID: id})
	return &(*l)[len(*l)-1]
}

// add adds addresses that were found in the way that what describes.
func (r *reading) add(l *candidates, what string, ips []cloudstack.PublicIP, err error) error {
	if err != nil {
		return fmt.Errorf("look for addresses %s: %w", what, err)
	}
	for i := range ips {
		if state := ips[i].State; state != plan.StateFree && state != plan.StateReleasing {
			s := l.at(ips[i].ID)
			s.IP, s.facts = ips[i].Address, &ips[i]
			s.inStatus = s.inStatus || slices.Contains(r.Service.StatusIPs, ips[i].Address)
		}
	}
	return nil
}

func (r *reading) addAt(ctx context.Context, l *candidates, ip string) error {
	ips, err := r.findIPs(ctx, cloudstack.PublicIPQuery{Address: ip}, func(p *cloudstack.PublicIP) bool { return p.Address == ip })
	return r.add(l, "at "+ip, ips, err)
}

func (r *reading) addTagged(ctx context.Context, l *candidates) error {
	uid := r.Service.UID
	ips, err := r.findIPs(ctx, cloudstack.PublicIPQuery{Tags: map[string]string{plan.TagServiceUID: uid}},
		func(p *cloudstack.PublicIP) bool { return p.Tags[plan.TagServiceUID] == uid })
	return r.add(l, "tagged for "+r.Service.Key(), ips, err)
}

// candidates finds the public addresses that may concern the Service: those of its
// record; without one those of its rules by name, of its status, and, when it
// is not new, those tagged for it: its record may have been removed by a user.
// And the one that it asks for.
func (r *reading) candidates(ctx context.Context) (candidates, error) {
	var out candidates
	for i := range r.Records.Addresses {
		rec := r.Records.Addresses[i]
		if rec.Internal {
			continue
		}
		s := out.at(rec.ID)
		s.IP, s.recorded, s.inStatus = rec.IP, &rec, true
	}
	var err error
	switch {
	case len(r.Records.Addresses) == 0:
		err = r.unrecorded(ctx, &out)
	case r.Desired.Absent && !r.recall(out):
		// One call tells what the records say of tagged addresses, and finds those that they do not name: a record may be
		// an older one, which a user put back.
		err = r.addTagged(ctx, &out)
	}
	want := r.Desired.Address
	known := slices.ContainsFunc(out, func(c candidate) bool { return c.IP == want })
	if err == nil && want != "" && !r.Desired.Internal && !known {
		err = r.addAt(ctx, &out, want)
	}
	return out, err
}

// recall takes addresses from memory where that counts and has what the record has, all of it acquired for the Service by its
// tags. What is on them is read in any case.
func (r *reading) recall(list candidates) bool {
	if r.Last == nil || len(r.Last.Addresses) != len(list) {
		return false
	}
	for i := range list {
		a := r.Last.Find(list[i].ID)
		if a == nil || a.Owner != plan.Owned || !a.Allocated || a.Acquired != list[i].recorded.Acquired {
			return false
		}
	}
	for i := range list {
		list[i].known = r.Last.Find(list[i].ID)
	}
	return true
}

func (r *reading) unrecorded(ctx context.Context, out *candidates) error {
	rules, err := r.findRules(ctx, r.shared != nil, cloudstack.LoadBalancerRuleQuery{Keyword: r.Service.LB},
		func(l *cloudstack.LoadBalancerRule) bool { return strings.HasPrefix(l.Name, r.Service.LB) })
	if err != nil {
		return fmt.Errorf("look for rules of %s: %w", r.Service.LB, err)
	}
	for i := range rules {
		// The keyword also matches parts of names and descriptions.
		if _, _, _, own := plan.ParseOwnRuleName(r.Service.LB, rules[i].Name); own {
			out.at(rules[i].PublicIPID).IP = rules[i].PublicIP
		}
	}
	if id := r.Spec.PredecessorAddress; id != "" {
		ips, err := r.address(ctx, id)
		if err := r.add(out, "of id "+id, ips, err); err != nil {
			return err
		}
	}
	if r.Desired.Internal {
		return nil // the status shows an address of a tier
	}
	for _, ip := range r.Service.StatusIPs {
		if err := r.addAt(ctx, out, ip); err != nil {
			return err
		}
	}
	if !r.Desired.Absent && len(r.Service.StatusIPs) == 0 && (!r.Service.Seen || r.Known) {
		return nil
	}
	if err := r.addTagged(ctx, out); err != nil || !r.Desired.Absent && len(r.Desired.Forwards) == 0 {
		return err
	}
	forwards, err := r.forwardsTagged(ctx)
	for i := range forwards {
		out.at(forwards[i].PublicIPID).IP = forwards[i].PublicIP
	}
	return err
}
