// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// readAddress reads one address; found is false when it is not the account's (any more).
func (r *reading) readAddress(ctx context.Context, c candidate) (a plan.Address, found bool, err error) {
	a = plan.Address{ID: c.ID, IP: c.IP, Owner: plan.Unknown, InStatus: c.inStatus}
	if c.recorded != nil {
		a.NetworkID, a.VPCID, a.Allocated, a.Tagged, a.Recorded, a.HasStickiness = c.recorded.NetworkID, c.recorded.VPCID, c.recorded.Allocated, c.recorded.Tagged, true, c.recorded.Sticky
		a.FirewallPorts, a.ForwardPorts, a.Acquired = plan.ParsePorts(c.recorded.Opened), plan.ParsePorts(c.recorded.Forwarded), c.recorded.Acquired
	}
	a.Settled = r.settled(a.ID)
	doubt := c.recorded == nil || r.Former || (a.Allocated && !a.Tagged && !r.limits.NoTags) || slices.Contains(r.Desired.Ports(), plan.DNSPort)
	var tags map[string]string
	if r.Prove || doubt || r.Survey || c.facts != nil {
		if tags, found, err = r.readFacts(ctx, &a, c); err != nil || !found {
			return a, found, err
		}
	}
	ruleTags, err := r.readRules(ctx, &a)
	if err != nil {
		return a, false, err
	}
	var forwardTags map[string]map[string]string
	if a.State != plan.StateReleasing && r.mayHaveForwards(c) {
		if forwardTags, err = r.readForwards(ctx, &a, c); err != nil {
			return a, false, err
		}
	}
	// An address without rules of ours may have been released and be somebody else's by now.
	if !a.Known && len(a.OwnRules()) == 0 && len(a.OwnForwards()) == 0 {
		if tags, found, err = r.readFacts(ctx, &a, c); err != nil || !found {
			return a, found, err
		}
	}
	if a.VPCID == "" && a.State != plan.StateReleasing {
		if err := r.readFirewall(ctx, &a); err != nil {
			if a.Known || !refused(err) {
				return a, false, err
			}
			// The server refuses the firewall of an address that is no longer ours.
			_, found, ferr := r.readFacts(ctx, &a, c)
			if ferr != nil || !found {
				return a, false, ferr
			}
			return a, false, err
		}
	}
	r.decideOwner(&a, c)
	if a.State != plan.StateReleasing && !a.ForwardsKnown && (r.Survey && !r.unguarded(plan.GuardForwards) || r.Prove && (mayForward(&a) || a.Allocated && r.anyForwards.Load())) {
		if forwardTags, err = r.readForwards(ctx, &a, c); err != nil {
			return a, false, err
		}
	}
	if r.Desired.Absent {
		return a, true, nil
	}
	if err := r.forwardHolders(ctx, &a, forwardTags); err != nil {
		return a, false, err
	}
	return a, true, r.holders(ctx, &a, tags, ruleTags)
}

// mayForward reports whether a release could take port forwardings of others along: nothing else shows those of a VPC,
// and in an isolated network none is reached without a firewall rule on a port that our rules do not have. Where
// other Services of the cluster have some, they are always looked for: one may let nobody in at the moment.
func mayForward(a *plan.Address) bool {
	if !a.Allocated {
		return false
	}
	byRules := plan.Address{Rules: a.Rules, ForeignCluster: a.ForeignCluster}
	return a.VPCID != "" || slices.ContainsFunc(a.Firewall, func(f access.Rule) bool { return !byRules.OwnsFirewall(f, nil) })
}

func refused(err error) bool {
	return cloudstack.IsNotFound(err) || cloudstack.IsKind(err, cloudstack.KindInvalid) || cloudstack.IsKind(err, cloudstack.KindNotPermitted)
}

// readFacts reads the address itself. It returns its tags.
func (r *reading) readFacts(ctx context.Context, a *plan.Address, c candidate) (tags map[string]string, found bool, err error) {
	facts := c.facts
	if facts == nil {
		ips, err := r.address(ctx, a.ID)
		if err != nil {
			return nil, false, fmt.Errorf("read address %s: %w", a.IP, err)
		}
		if len(ips) == 0 {
			found, err = r.stillReleasing(ctx, a)
			return nil, found, err
		}
		facts = &ips[0]
	}
	a.IP, a.NetworkID, a.VPCID, a.State = facts.Address, facts.AssociatedNetworkID, facts.VPCID, facts.State
	a.SourceNAT, a.StaticNAT, a.Known = facts.SourceNAT, facts.StaticNAT, true
	a.Owner = plan.TagOwner(facts.Tags, r.Clusters, r.Service)
	a.OwnTags = plan.PresentTagKeys(facts.Tags)
	if a.ForeignCluster, err = r.ofForeignCluster(ctx, facts.Tags, a.Owner); err != nil {
		return nil, false, err
	}
	if !r.unguarded(plan.GuardTags) && c.recorded != nil && a.Owner != plan.Owned && c.recorded.Acquired != "" && c.recorded.Acquired != facts.Allocated {
		return nil, false, nil // it was released, and somebody else has acquired it since
	}
	a.Acquired, a.FormerCluster = facts.Allocated, a.Owner == plan.Owned && facts.Tags[plan.TagCluster] != r.Clusters[0]
	switch {
	case a.Owner == plan.Owned:
		a.Tagged = true
		a.Allocated = a.Allocated || facts.Tags[plan.TagAllocatedBy] == plan.ManagedBy
	case plan.Vacant(facts.Tags, r.Clusters[0]):
		// Handed over by the Service that it was acquired for.
		a.Owner, a.Tagged, a.Allocated = plan.Unknown, false, false
		r.vacant[a.ID] = true
	case r.unguarded(plan.GuardTags):
	case a.Owner == plan.Foreign, a.Tagged:
		// The record says tagged and the tags are gone: disowned.
		a.Tagged, a.Allocated = false, false
	}
	return facts.Tags, true, nil
}

// ofForeignCluster reports whether the tags give the address to another cluster. Under the former name, which other
// clusters may have had too, the Service tells whose it is.
func (r *reading) ofForeignCluster(ctx context.Context, tags map[string]string, owner plan.Ownership) (bool, error) {
	cluster := tags[plan.TagCluster]
	switch {
	case cluster == "", cluster == r.Clusters[0], owner == plan.Owned:
		return false, nil
	case !slices.Contains(r.Clusters, cluster):
		return true, nil
	}
	others, err := r.Neighbours(ctx)
	if err != nil {
		return false, err
	}
	return others.byUID[tags[plan.TagServiceUID]] == nil, nil
}

// stillReleasing finds an address in a state that lists do not show: a release
// that failed leaves one, and only asking again for its release ends that.
func (r *reading) stillReleasing(ctx context.Context, a *plan.Address) (bool, error) {
	if !a.Allocated {
		return false, nil
	}
	all := false
	ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: a.ID, ProjectID: r.Project, AllocatedOnly: &all})
	if err != nil && !cloudstack.IsNotFound(err) {
		return false, fmt.Errorf("read address %s: %w", a.IP, err)
	}
	_, asked := r.Releasing[a.ID]
	switch {
	case len(ips) > 0 && ips[0].State != plan.StateReleasing:
		return false, nil // free
	case len(ips) == 0 && !asked:
		return false, nil // another account's, or ended
	}
	a.State, a.Known = plan.StateReleasing, true
	return true, nil
}

func (r *reading) readFirewall(ctx context.Context, a *plan.Address) error {
	list, err := r.firewallOf(ctx, a.ID)
	if err != nil {
		return fmt.Errorf("list firewall rules of %s: %w", a.IP, err)
	}
	for i := range list {
		f := &list[i]
		a.Firewall = append(a.Firewall, actualFirewall(f.ID, f.State, f.Protocol, f.StartPort, f.EndPort, f.CIDRs))
	}
	return nil
}

// actualFirewall is what CloudStack says of a firewall rule, or of the same part of an ACL item.
func actualFirewall(id, state, protocol string, start, end int, cidrs []string) access.Rule {
	return access.Rule{
		Range: access.Range{Protocol: strings.ToLower(protocol), StartPort: start, EndPort: end, CIDRs: cidrs},
		ID:    id, Deleting: state == plan.StateDeleting,
	}
}

// decideOwner completes what needs rules and record together.
func (r *reading) decideOwner(a *plan.Address, c candidate) {
	// What was handed over belongs to those that use it.
	a.Allocated = a.Allocated || r.vacant[a.ID] && (len(a.OwnRules()) > 0 || len(a.OwnForwards()) > 0 || c.recorded != nil)
	if r.unguarded(plan.GuardPredecessor) && c.recorded == nil && r.Spec.AllocatedByPredecessor && a.Owner == plan.Unknown && len(a.OwnRules()) > 0 {
		a.Allocated = true
	}
	if c.recorded != nil {
		rec := a.Record(r.OwnProject)
		if rec.NetworkID == "" {
			rec.NetworkID = c.recorded.NetworkID // an address of a VPC without rules is bound to no tier
		}
		a.Recorded = *c.recorded == rec
	} else {
		a.Recorded = false
	}
	for _, rule := range a.OwnRules() {
		// A server that ignores cidrlist shows it here.
		switch wrote := r.Written[rule.ID]; {
		case wrote.CIDRs == nil:
		case access.Same(wrote.CIDRs, rule.CIDRs):
			// Since 4.18 a rule is created with ranges, since 4.22 an update changes them.
			if !wrote.Created {
				r.options.Server.CIDRUpdateProven.Store(true)
			}
		case rule.CIDRs == nil && wrote.Created:
			r.options.Server.NoCIDRs.Store(true)
		default:
			r.options.Server.NoCIDRUpdate.Store(true)
		}
	}
}

// holders finds out which Service of the cluster has an address and its rules, and whether the task's Service may join
// them.
func (r *reading) holders(ctx context.Context, a *plan.Address, tags map[string]string, rules map[string]map[string]string) error {
	unguarded := r.unguarded(plan.GuardSharing)
	for i := range a.Rules {
		rule := &a.Rules[i]
		if rule.Owner == plan.Owned {
			continue
		}
		others, err := r.Neighbours(ctx)
		if err != nil {
			return err
		}
		if n := others.ofRule(rule.Name, r.options.ClusterName, rules[rule.ID]); n != nil {
			rule.Near = n.Namespace == r.Service.Namespace
			rule.Service, rule.Admits = n.Namespace+"/"+n.Name, unguarded || n.admits(r.Service.Namespace)
		}
	}
	uid, kept := tags[plan.TagServiceUID], tags[plan.TagKeptBy]
	switch {
	case a.ForeignCluster || uid == r.Service.UID:
	case kept != "":
		namespace, _, _ := strings.Cut(kept, "/")
		a.Holder, a.Kept, a.Admits = kept, true, namespace == r.Service.Namespace || r.unguarded(plan.GuardKept)
	case uid != "":
		others, err := r.Neighbours(ctx)
		if err != nil {
			return err
		}
		n := others.byUID[uid]
		if n == nil { // gone: its namespace is what the tag says
			namespace, name, _ := strings.Cut(tags[plan.TagService], "/")
			n = &Neighbour{UID: uid, Namespace: namespace, Name: name}
		}
		a.Holder, a.Admits = n.Namespace+"/"+n.Name, unguarded || n.admits(r.Service.Namespace)
	}
	return nil
}
