// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// observe reads what concerns the Service into the memory. It only reads.
//
// A Service with a record costs two reads an address (its rules, its firewall
// or network ACL list) and one more for the address itself when prove is set
// or something is in doubt. The first looks after a start, and those of the
// drift loop, share whole lists.
func (r *Reconciler) observe(ctx context.Context, t *task, prove bool) error {
	t.read = true
	src := &source{r: r, project: t.project}
	if !t.bulkSince.IsZero() && !prove {
		src.lists = r.sharedLists(t.project, t.bulkSince)
	}
	begun := r.options.Clock.Now()
	seeds, err := r.seeds(ctx, t, src, prove)
	if err != nil {
		return err
	}
	actual := Actual{}
	lost, err := r.readSeeds(ctx, t, src, seeds, prove, &actual)
	if lost && err == nil {
		// The record is not to be relied on: it may be an old one that somebody put back.
		known := len(seeds)
		if err = r.unrecorded(ctx, t, src, prove, &seeds); err == nil {
			_, err = r.readSeeds(ctx, t, src, seeds[known:], prove, &actual)
		}
	}
	if err != nil {
		return err
	}
	internal, err := r.readInternal(ctx, t)
	if err != nil {
		return err
	}
	actual.Addresses = append(actual.Addresses, internal...)
	if actual.ACLs, err = r.readACLs(ctx, t, src, actual, prove); err != nil {
		return err
	}
	t.mem.actual = &actual
	t.mem.readAt = begun
	if src.lists != nil {
		t.mem.readAt = src.lists.begun
	}
	t.mem.known = true
	t.proven = t.proven || prove
	return nil
}

// readSeeds reads addresses. lost reports whether one is gone that the record names.
func (r *Reconciler) readSeeds(ctx context.Context, t *task, src *source, seeds seedList, prove bool, actual *Actual) (lost bool, err error) {
	for i := range seeds {
		a, found, err := r.readAddress(ctx, t, src, seeds[i], prove)
		if err != nil {
			return lost, err
		}
		switch {
		case found:
			actual.Addresses = append(actual.Addresses, a)
		case seeds[i].recorded != nil:
			lost = true
			if !t.wanted.Absent {
				t.notify(Notice{Warning: true, Reason: ReasonAddressLost, Message: "address " + seeds[i].IP + " is gone from CloudStack"})
			}
		}
	}
	return lost, nil
}

// readAddress reads one address; found is false when it is not the account's (any more).
func (r *Reconciler) readAddress(ctx context.Context, t *task, src *source, s seed, prove bool) (a Address, found bool, err error) {
	a = Address{ID: s.ID, IP: s.IP, Owner: Unknown, InStatus: s.inStatus}
	if s.recorded != nil {
		a.NetworkID, a.VPCID, a.Allocated, a.Tagged, a.Recorded, a.Sticky = s.recorded.NetworkID, s.recorded.VPCID, s.recorded.Allocated, s.recorded.Tagged, true, s.recorded.Sticky
		a.Opened, a.Acquired = parseOpened(s.recorded.Opened), s.recorded.Acquired
	}
	a.Quiet = r.quiet(a.ID)
	doubt := s.recorded == nil || t.former || (a.Allocated && !a.Tagged && !r.noTags.Load()) || slices.Contains(t.wanted.Ports(), dnsPort)
	var tags map[string]string
	if prove || doubt || t.survey || s.facts != nil {
		if tags, found, err = r.readFacts(ctx, t, src, &a, s); err != nil || !found {
			return a, found, err
		}
	}
	ruleTags, err := r.readRules(ctx, t, src, &a)
	if err != nil {
		return a, false, err
	}
	// An address without rules of ours may have been released and be somebody else's by now.
	if !a.Known && len(a.ownRules()) == 0 {
		if tags, found, err = r.readFacts(ctx, t, src, &a, s); err != nil || !found {
			return a, found, err
		}
	}
	if a.VPCID == "" && a.State != stateReleasing {
		if err := r.readFirewall(ctx, src, &a); err != nil {
			if a.Known || !refused(err) {
				return a, false, err
			}
			// The server refuses the firewall of an address that is no longer ours.
			_, found, ferr := r.readFacts(ctx, t, src, &a, s)
			if ferr != nil || !found {
				return a, false, ferr
			}
			return a, false, err
		}
	}
	r.decideOwner(t, &a, s)
	if a.State != stateReleasing && (t.survey && !r.options.Unguarded[GuardForwards] || prove && a.mayForward()) {
		if err := r.readForwards(ctx, t, &a); err != nil {
			return a, false, err
		}
	}
	if !t.wanted.Absent {
		err = r.holders(ctx, t, &a, tags, ruleTags)
	}
	return a, true, err
}

// mayForward reports whether a release could take port forwardings of others along: nothing else shows those of a VPC,
// and in an isolated network none is reached without a firewall rule on a port that our rules do not have.
func (a *Address) mayForward() bool {
	if !a.Allocated {
		return false
	}
	standing := Address{Rules: a.Rules, ForeignCluster: a.ForeignCluster}
	return a.VPCID != "" || slices.ContainsFunc(a.Firewall, func(f ActualFirewall) bool { return !standing.ownsFirewall(f, nil) })
}

// readForwards reads the port forwardings of an address. A role that may not list them sees none; CloudStack then
// refuses a rule on a forwarded port, before anything else is changed.
func (r *Reconciler) readForwards(ctx context.Context, t *task, a *Address) error {
	list, err := r.api.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{PublicIPID: a.ID, ProjectID: t.project})
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return fmt.Errorf("list port forwardings of %s: %w", a.IP, err)
	}
	for i := range list {
		f := &list[i]
		a.Forwards = append(a.Forwards, Forward{ID: f.ID, Protocol: f.Protocol, StartPort: f.StartPort, EndPort: f.EndPort, VM: cmp.Or(f.VMName, f.VMID)})
	}
	a.ForwardsKnown = true
	return nil
}

func refused(err error) bool {
	return cloudstack.IsNotFound(err) || cloudstack.IsKind(err, cloudstack.KindInvalid) || cloudstack.IsKind(err, cloudstack.KindNotPermitted)
}

// readFacts reads the address itself. It returns its tags.
func (r *Reconciler) readFacts(ctx context.Context, t *task, src *source, a *Address, s seed) (tags map[string]string, found bool, err error) {
	facts := s.facts
	if facts == nil {
		ips, err := src.address(ctx, a.ID)
		if err != nil {
			return nil, false, fmt.Errorf("read address %s: %w", a.IP, err)
		}
		if len(ips) == 0 {
			found, err = r.stillReleasing(ctx, t, a)
			return nil, found, err
		}
		facts = &ips[0]
	}
	a.IP, a.NetworkID, a.VPCID, a.State = facts.Address, facts.AssociatedNetworkID, facts.VPCID, facts.State
	a.SourceNAT, a.StaticNAT, a.Known = facts.SourceNAT, facts.StaticNAT, true
	a.Owner = tagOwner(facts.Tags, t.clusters, t.Service)
	a.OwnTags = presentTagKeys(facts.Tags)
	if a.ForeignCluster, err = r.ofForeignCluster(ctx, t, facts.Tags, a.Owner); err != nil {
		return nil, false, err
	}
	if !r.options.Unguarded[GuardTags] && s.recorded != nil && a.Owner != Mine && s.recorded.Acquired != "" && s.recorded.Acquired != facts.Allocated {
		return nil, false, nil // it was released, and somebody else has acquired it since
	}
	a.Acquired, a.FormerCluster = facts.Allocated, a.Owner == Mine && facts.Tags[TagCluster] != t.clusters[0]
	switch {
	case a.Owner == Mine:
		a.Tagged = true
		a.Allocated = a.Allocated || facts.Tags[TagAllocatedBy] == ManagedBy
	case vacant(facts.Tags, t.clusters[0]):
		// Handed over by the Service that it was acquired for.
		a.Owner, a.Tagged, a.Allocated, a.vacant = Unknown, false, false, true
	case r.options.Unguarded[GuardTags]:
	case a.Owner == Foreign, a.Tagged:
		// The record says tagged and the tags are gone: disowned.
		a.Tagged, a.Allocated = false, false
	}
	return facts.Tags, true, nil
}

// ofForeignCluster reports whether the tags give the address to another cluster. Under the former name, which other
// clusters may have had too, the Service tells whose it is.
func (r *Reconciler) ofForeignCluster(ctx context.Context, t *task, tags map[string]string, owner Ownership) (bool, error) {
	cluster := tags[TagCluster]
	switch {
	case cluster == "", cluster == t.clusters[0], owner == Mine:
		return false, nil
	case !slices.Contains(t.clusters, cluster):
		return true, nil
	}
	others, err := r.neighboursOf(ctx, t)
	if err != nil {
		return false, err
	}
	return others.byUID[tags[TagServiceUID]] == nil, nil
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
	_, asked := t.mem.releasing[a.ID]
	switch {
	case len(ips) > 0 && ips[0].State != stateReleasing:
		return false, nil // free
	case len(ips) == 0 && !asked:
		return false, nil // another account's, or ended
	}
	a.State, a.Known = stateReleasing, true
	return true, nil
}

// readRules reads the rules on an address. It returns the tags of each by its id.
func (r *Reconciler) readRules(ctx context.Context, t *task, src *source, a *Address) (map[string]map[string]string, error) {
	tags := map[string]map[string]string{}
	if a.State == stateReleasing {
		return tags, nil
	}
	rules, err := src.rulesOf(ctx, a.ID)
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules of %s: %w", a.IP, err)
	}
	for i := range rules {
		led, err := r.leadsToNodes(ctx, t, src, &rules[i], a)
		if err != nil {
			return nil, err
		}
		rule := r.classify(&rules[i], t, a, led)
		tags[rule.ID] = rules[i].Tags
		if len(rule.CIDRs) > 0 {
			r.cidrsProven.Store(true)
		}
		if a.NetworkID == "" {
			a.NetworkID = rules[i].NetworkID
		}
		a.Rules = append(a.Rules, rule)
	}
	if t.wanted.Absent {
		return tags, nil
	}
	sticky := false
	for i := range a.Rules {
		rule := &a.Rules[i]
		if rule.Owner != Mine {
			continue
		}
		if rule.Members, err = r.members(ctx, t, src, rule, a); err != nil {
			return nil, err
		}
		if err := r.readExtras(ctx, t, rule, a.Sticky); err != nil {
			return nil, err
		}
		sticky = sticky || rule.PolicyID != ""
	}
	// Without any policy, and none wanted, there is nothing to look for next time.
	a.Sticky = sticky || a.Sticky && slices.ContainsFunc(t.wanted.Rules, func(r Rule) bool { return r.Stickiness != nil })
	return tags, nil
}

// classify says whose a rule is: by its tags if it has any, else by its name
// together with something else that only the Service's own rule would have.
func (r *Reconciler) classify(in *cloudstack.LoadBalancerRule, t *task, a *Address, led bool) ActualRule {
	out := ActualRule{
		Rule: Rule{
			Name: in.Name, Protocol: strings.ToLower(in.Protocol), Algorithm: strings.ToLower(in.Algorithm),
			PublicPort: in.PublicPort, PrivatePort: in.PrivatePort, CIDRs: in.CIDRs,
		},
		ID: in.ID, State: in.State, Owner: tagOwner(in.Tags, t.clusters, t.Service),
	}
	out.Tagged = out.Owner == Mine
	out.Adopted = in.Description != t.Service.Key()
	switch {
	case a.ForeignCluster:
		out.Owner = Foreign
	case out.Owner == Foreign:
		out.Sibling = slices.Contains(t.clusters, in.Tags[TagCluster])
	case out.Owner == Unknown:
		out.Owner = Foreign
		cluster := r.clusterName()
		if r.options.Unguarded[GuardLeaseweb] {
			cluster = ""
		}
		byUID, own := t.Service.namesRule(in.Name, cluster)
		switch {
		case !own:
			out.Sibling = ofKubernetes(in.Name)
		case t.corroborates(in, a, byUID), led, r.options.Unguarded[GuardPredecessor] && a.ID == t.Spec.PredecessorAddress:
			out.Owner = Mine
		default:
			out.Owner = Unknown
			t.notify(Notice{Warning: true, Reason: ReasonUnverifiedRule, Message: fmt.Sprintf(
				"load balancer rule %s (%s) on %s is named like one of this Service, but nothing else says so; it is left alone", in.Name, in.ID, a.IP)})
		}
	}
	return out
}

// corroborates tells whether more than its name makes a rule the Service's: the
// address is the Service's, or, where the name holds its UID, the rule leads to
// the Service's node port, or we have described it so.
func (t *task) corroborates(in *cloudstack.LoadBalancerRule, a *Address, byUID bool) bool {
	if a.Recorded || a.InStatus || a.Owner == Mine {
		return true
	}
	if !byUID {
		return false
	}
	return in.Description == t.Service.Key() || t.hasPort(in)
}

// leadsToNodes reports whether a rule that Leaseweb's provider named after the Service leads to its node port on the
// cluster's own nodes. That makes up for a status that shows a hostname and no address: the annotation which names the
// address then could have been written by anybody.
func (r *Reconciler) leadsToNodes(ctx context.Context, t *task, src *source, in *cloudstack.LoadBalancerRule, a *Address) (bool, error) {
	if _, named := t.Service.namesRule(in.Name, ""); r.options.Unguarded[GuardLeaseweb] && named && a.ID == t.Spec.PredecessorAddress {
		return true, nil
	}
	byUID, named := t.Service.namesRule(in.Name, r.clusterName())
	switch {
	case !named, byUID, a.ID != t.Spec.PredecessorAddress, a.InStatus, a.Recorded, len(in.Tags) > 0, !t.hasPort(in):
		return false, nil
	}
	members, err := r.members(ctx, t, src, &ActualRule{ID: in.ID, Rule: Rule{Name: in.Name}}, a)
	if err != nil {
		return false, err
	}
	outside := slices.ContainsFunc(members, func(name string) bool {
		vm, _ := splitMember(name)
		return !slices.ContainsFunc(append(slices.Clip(t.Members), t.Reach...), func(m Member) bool { return m.VMID == vm })
	})
	return len(members) > 0 && !outside, nil
}

// hasPort reports whether a rule leads from a port of the Service to its node port.
func (t *task) hasPort(in *cloudstack.LoadBalancerRule) bool {
	return slices.ContainsFunc(t.Service.Ports, func(p Port) bool { return p.Port == in.PublicPort && p.NodePort == in.PrivatePort })
}

func (r *Reconciler) readFirewall(ctx context.Context, src *source, a *Address) error {
	list, err := src.firewallOf(ctx, a.ID)
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
func actualFirewall(id, state, protocol string, start, end int, cidrs []string) ActualFirewall {
	return ActualFirewall{
		FirewallRange: FirewallRange{Protocol: strings.ToLower(protocol), StartPort: start, EndPort: end, CIDRs: cidrs},
		ID:            id, Going: state == stateDeleting,
	}
}

// decideOwner completes what needs rules and record together.
func (r *Reconciler) decideOwner(t *task, a *Address, s seed) {
	// What was handed over belongs to those that use it.
	a.Allocated = a.Allocated || a.vacant && (len(a.ownRules()) > 0 || s.recorded != nil)
	if r.options.Unguarded[GuardPredecessor] && s.recorded == nil && t.Spec.AllocatedByPredecessor && a.Owner == Unknown && len(a.ownRules()) > 0 {
		a.Allocated = true
	}
	if s.recorded != nil {
		rec := record(a, t.ownProject)
		if rec.NetworkID == "" {
			rec.NetworkID = s.recorded.NetworkID // an address of a VPC without rules is bound to no tier
		}
		a.Recorded = *s.recorded == rec
	} else {
		a.Recorded = false
	}
	for _, rule := range a.ownRules() {
		// A server that ignores cidrlist shows it here.
		if wanted := t.writtenCIDRs[rule.ID]; wanted != nil {
			switch {
			case sameRanges(wanted, rule.CIDRs):
				// Since 4.18 a rule is created with ranges, since 4.22 an update changes them.
				if !t.created[rule.ID] {
					r.cidrUpdateProven.Store(true)
				}
			case rule.CIDRs == nil && t.created[rule.ID]:
				r.noCIDRs.Store(true)
			default:
				r.noCIDRUpdate.Store(true)
			}
		}
	}
}
