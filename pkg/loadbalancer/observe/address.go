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
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// readAddress reads an address and what is on it. exists reports whether the Service still has the address, or whether
// the address that it requests exists.
func (r *reading) readAddress(ctx context.Context, c *candidate) (exists evidence.Evidence, err error) {
	a := &c.Address
	a.Owner, a.Settled = plan.Unknown, r.settled(a.ID)
	if c.recorded != nil {
		a.Recall(c.recorded)
	}

	// Do not trust the record: the address may have been released and belong to somebody else by now.
	if exists, err = r.identify(ctx, c); err != nil || !exists.Present() && !a.Lost {
		return exists, err
	}

	if err := r.readRules(ctx, a); err != nil {
		return exists, err
	}
	if r.Whole || a.Lost || r.mayHaveForwards(c) {
		if err = r.readForwards(ctx, c); err != nil {
			return exists, err
		}
	}

	// CloudStack lists no firewall rules of an address that is being released.
	firewall := a.NetworkID != r.Desired.NetworkID || !r.Desired.CIDRsDecide
	if firewall && a.State != plan.StateReleasing {
		if a.FirewallUnread, err = r.unread(ctx, r.readFirewall(ctx, a)); err != nil {
			return exists, err
		}
	}

	// Once its acquirer has left, the address belongs to the Services that use it.
	a.Allocated = a.Allocated || c.unused && (len(a.OwnRules()) > 0 || len(a.OwnForwards()) > 0 || c.recorded != nil)
	return exists, nil
}

// identify reads the address itself.
func (r *reading) identify(ctx context.Context, c *candidate) (evidence.Evidence, error) {
	a, facts := &c.Address, c.facts
	if facts == nil {
		ips, err := r.address(ctx, a.ID)
		switch {
		case err != nil:
			return evidence.Evidence{}, fmt.Errorf("read address %s: %w", a.IP, err)
		case len(ips) == 0:
			return r.missing(ctx, c)
		}
		facts = &ips[0]
	}

	a.IP, a.NetworkID, a.VPCID, a.State = facts.Address, facts.AssociatedNetworkID, facts.VPCID, facts.State
	a.SourceNAT, a.StaticNAT = facts.SourceNAT, facts.StaticNAT
	a.Acquired = evidence.InstantOf(facts.Allocated)
	r.readTags(c, facts.Tags)

	recorded := evidence.Instant("")
	if c.recorded != nil {
		recorded = evidence.InstantOf(c.recorded.Acquired)
	}

	switch {
	case a.State == plan.StateFree:
		return evidence.Absent("it is " + a.State), nil
	case a.Owner == plan.Owned, recorded != "" && recorded == a.Acquired:
	case recorded != "" && a.IP == r.Desired.Address: // the Service requests it, whoever acquired it
		a.Recorded, a.Allocated = false, false
	case recorded != "":
		a.Lost = true
		a.Recorded, a.Allocated, a.InStatus = false, false, false
		a.RecordedPorts, a.ForwardPorts, a.ForwardTargets = nil, nil, nil
		return evidence.Absent("somebody else acquired it at " + string(a.Acquired)), nil
	}

	if a.Owner != plan.Owned && (a.Owner != plan.Unknown || recorded == "") {
		// The address belongs to somebody else, or the record does not say from which acquisition it is.
		a.Allocated = false
	}
	if a.State == plan.StateReleasing && !a.Allocated {
		return evidence.Absent("it is " + a.State), nil
	}
	return evidence.Present(), nil
}

// readTags derives the owner of the address from its tags.
func (r *reading) readTags(c *candidate, tags map[string]string) {
	a := &c.Address
	a.Owner = r.owner(tags)
	a.OwnTags = plan.PresentTagKeys(tags)
	a.TaggedUID, a.TaggedService, a.Keeper = tags[plan.TagServiceUID], tags[plan.TagService], tags[plan.TagKeptBy]
	a.ForeignCluster = a.Owner != plan.Owned && r.otherCluster(tags)

	switch {
	case a.Owner == plan.Owned: // the tags take precedence over the record
		a.Tagged, a.FormerCluster, a.Allocated = true, plan.Former(tags,
			r.Clusters), tags[plan.TagAllocatedBy] == plan.ManagedBy
	case plan.Unused(tags, r.Clusters):
		// The Service that acquired the address has left it to others.
		a.Owner, a.Allocated = plan.Unknown, false
		c.unused = true
	}
}

// otherCluster reports whether tags name another cluster. That cluster may have had one of this cluster's former ids as
// well. So tags with a former id count as ours only if this cluster has the Service that they name.
func (r *reading) otherCluster(tags map[string]string) bool {
	cluster, uid := tags[plan.TagCluster], tags[plan.TagServiceUID]
	formerly := slices.Contains(r.Clusters, cluster) && (uid == "" || r.Book.ByUID(uid) != nil)
	return cluster != "" && cluster != r.Clusters[0] && !formerly
}

// missing returns the evidence for an address that CloudStack does not show when asked for its id.
func (r *reading) missing(ctx context.Context, c *candidate) (evidence.Evidence, error) {
	if c.recorded == nil && c.by == "" {
		return evidence.Absent("nothing proves that the Service owns it"), nil
	}

	contradicts := c.by
	if contradicts == "" {
		rules, err := r.findRules(ctx, r.fresh(c.ID), cloudstack.LoadBalancerRuleQuery{PublicIPID: c.ID},
			func(l *cloudstack.LoadBalancerRule) bool { return l.PublicIPID == c.ID })
		switch {
		case err != nil && !cloudstack.IsNotFound(err):
			return evidence.Evidence{}, fmt.Errorf("list load balancer rules of %s: %w", c.IP, err)
		case len(rules) > 0:
			contradicts = "load balancer rule " + rules[0].Name + " on it"
		}
	}

	proof, network := "", ""
	if c.recorded != nil {
		network = c.recorded.NetworkID
	}
	if contradicts == "" {
		var err error
		if proof, err = r.projectProof(ctx, network); err != nil {
			return evidence.Evidence{}, fmt.Errorf("look for address %s: %w", c.IP, err)
		}
	}
	return evidence.Missing(contradicts, proof), nil
}

// readFirewall reads the firewall rules of an address.
func (r *reading) readFirewall(ctx context.Context, a *plan.Address) error {
	list, err := find(ctx, r, r.fresh(a.ID), r.api.ListFirewallRules,
		cloudstack.FirewallRuleQuery{ProjectID: r.Project},
		cloudstack.FirewallRuleQuery{PublicIPID: a.ID, ProjectID: r.Project},
		func(f *cloudstack.FirewallRule) bool { return f.PublicIPID == a.ID })
	if err != nil {
		return fmt.Errorf("list firewall rules of %s: %w", a.IP, err)
	}
	for _, f := range list {
		a.Firewall = append(a.Firewall,
			item(f.ID, f.State, f.Protocol, f.StartPort, f.EndPort, f.CIDRs, r.mark(f.Tags)))
	}
	return nil
}

// item returns an Item with the fields that all kinds of items have.
func item(id, state, protocol string, start, end int, cidrs []string, mark plan.Mark) plan.Item {
	return plan.Item{
		Rule: access.Rule{
			Range: access.Range{Protocol: strings.ToLower(protocol), StartPort: start, EndPort: end, CIDRs: cidrs},
			ID:    id, Deleting: state == plan.StateDeleting,
		},
		State: state, Mark: mark}
}

// candidate is an address that may concern the Service.
type candidate struct {
	plan.Address
	recorded *annotation.AddressRecord
	facts    *cloudstack.PublicIP
	by       string // what the search found on the address
	unused   bool   // the Service that it was acquired for has left it to others
}

// candidates has each address once.
type candidates []candidate

// at returns the candidate with an id, and adds it if necessary.
func (l *candidates) at(id string) *candidate {
	for i := range *l {
		if (*l)[i].ID == id {
			return &(*l)[i]
		}
	}
	*l = append(*l, candidate{Address: plan.Address{ID: id}})
	return &(*l)[len(*l)-1]
}

// add adds addresses that a search found; what describes the finding.
func (r *reading) add(l *candidates, what string, ips []cloudstack.PublicIP, err error) error {
	if err != nil {
		return fmt.Errorf("look for addresses %s: %w", what, err)
	}
	for i := range ips {
		if state := ips[i].State; state != plan.StateFree && state != plan.StateReleasing {
			s := l.at(ips[i].ID)
			s.IP, s.facts = ips[i].Address, &ips[i]
			s.InStatus = s.InStatus || slices.Contains(r.Service.StatusIPs, ips[i].Address)
		}
	}
	return nil
}

// addAt adds the address with an IP.
func (r *reading) addAt(ctx context.Context, l *candidates, ip string) error {
	ips, err := r.findIPs(ctx, cloudstack.PublicIPQuery{Address: ip},
		func(p *cloudstack.PublicIP) bool { return p.Address == ip })
	return r.add(l, "at "+ip, ips, err)
}

// addTagged adds the addresses that are tagged for the Service.
func (r *reading) addTagged(ctx context.Context, l *candidates) error {
	uid := r.Service.UID
	ips, err := r.findIPs(ctx, cloudstack.PublicIPQuery{Tags: map[string]string{plan.TagServiceUID: uid}},
		func(p *cloudstack.PublicIP) bool { return p.Tags[plan.TagServiceUID] == uid })
	return r.add(l, "tagged for "+r.Service.Key(), ips, err)
}

// candidates returns the public addresses that may concern the Service: those of its record, and the one that it
// requests. Without a record, they are those on which rules have the Service's name, those of its status, and, unless
// the Service is new, those with its tags: a user may have removed the record.
func (r *reading) candidates(ctx context.Context) (candidates, error) {
	var out candidates
	for i := range r.Records.Addresses {
		rec := r.Records.Addresses[i]
		if rec.Internal {
			continue
		}
		s := out.at(rec.ID)
		s.IP, s.recorded, s.InStatus = rec.IP, &rec, true
	}

	var err error
	switch {
	case len(r.Records.Addresses) == 0:
		err = r.unrecorded(ctx, &out)
	case r.Desired.Absent:
		// One call shows the tagged addresses of the records, and those that the records do not name: a user may have
		// restored an older record.
		err = r.addTagged(ctx, &out)
	}

	want := r.Desired.Address
	known := slices.ContainsFunc(out, func(c candidate) bool { return c.IP == want })
	if err == nil && want != "" && !r.Desired.Internal && !known {
		err = r.addAt(ctx, &out, want)
	}

	return out, err
}

// unrecorded adds the addresses that may be the Service's without a record of it.
func (r *reading) unrecorded(ctx context.Context, out *candidates) error {
	rules, err := r.findRules(ctx, r.shared != nil, cloudstack.LoadBalancerRuleQuery{Keyword: r.Service.LB},
		func(l *cloudstack.LoadBalancerRule) bool { return strings.HasPrefix(l.Name, r.Service.LB) })
	if err != nil {
		return fmt.Errorf("look for rules of %s: %w", r.Service.LB, err)
	}

	for i := range rules {
		// The keyword also matches parts of names and descriptions.
		if _, _, _, own := plan.ParseOwnRuleName(r.Service.LB, rules[i].Name); own {
			found := out.at(rules[i].PublicIPID)
			found.IP, found.by = rules[i].PublicIP, "load balancer rule "+rules[i].Name+" on it"
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
		found := out.at(forwards[i].PublicIPID)
		found.IP, found.by = forwards[i].PublicIP, "port forwarding "+forwards[i].ID+" on it"
	}

	return err
}
