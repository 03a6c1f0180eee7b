// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
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
	for i := range seeds {
		a, found, err := r.readAddress(ctx, t, src, seeds[i], prove)
		if err != nil {
			return err
		}
		if found {
			actual.Addresses = append(actual.Addresses, a)
		} else if seeds[i].recorded != nil && !t.wanted.Absent {
			t.notify(Notice{Warning: true, Reason: ReasonAddressLost, Message: "address " + seeds[i].IP + " is gone from CloudStack"})
		}
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

// readAddress reads one address; found is false when it is not the account's (any more).
func (r *Reconciler) readAddress(ctx context.Context, t *task, src *source, s seed, prove bool) (a Address, found bool, err error) {
	a = Address{ID: s.ID, IP: s.IP, Owner: Unknown, InStatus: s.inStatus}
	if s.recorded != nil {
		a.NetworkID, a.VPCID, a.Allocated, a.Tagged, a.Recorded, a.Sticky = s.recorded.NetworkID, s.recorded.VPCID, s.recorded.Allocated, s.recorded.Tagged, true, s.recorded.Sticky
		a.Opened = parseOpened(s.recorded.Opened)
	}
	a.Quiet = r.quiet(a.ID)
	doubt := s.recorded == nil || (a.Allocated && !a.Tagged && !r.noTags.Load()) || slices.Contains(t.wanted.Ports(), dnsPort)
	if prove || doubt || s.facts != nil {
		if found, err = r.readFacts(ctx, t, src, &a, s); err != nil || !found {
			return a, found, err
		}
	}
	if err := r.readRules(ctx, t, src, &a); err != nil {
		return a, false, err
	}
	// An address without rules of ours may have been released and be somebody else's by now.
	if !a.Known && len(a.ownRules()) == 0 {
		if found, err = r.readFacts(ctx, t, src, &a, s); err != nil || !found {
			return a, found, err
		}
	}
	if a.VPCID == "" && a.State != stateReleasing {
		if err := r.readFirewall(ctx, src, &a); err != nil {
			if a.Known || !refused(err) {
				return a, false, err
			}
			// The server refuses the firewall of an address that is no longer ours.
			found, ferr := r.readFacts(ctx, t, src, &a, s)
			if ferr != nil || !found {
				return a, false, ferr
			}
			return a, false, err
		}
	}
	if prove && a.VPCID != "" && a.Allocated && a.State != stateReleasing {
		// Nothing else shows what forwards ports in a VPC.
		a.Forwards, err = r.api.HasPortForwardings(ctx, a.ID, t.project)
		if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return a, false, fmt.Errorf("list port forwardings of %s: %w", a.IP, err)
		}
	}
	r.decideOwner(t, &a, s)
	return a, true, nil
}

func refused(err error) bool {
	return cloudstack.IsNotFound(err) || cloudstack.IsKind(err, cloudstack.KindInvalid) || cloudstack.IsKind(err, cloudstack.KindNotPermitted)
}

func (r *Reconciler) readFacts(ctx context.Context, t *task, src *source, a *Address, s seed) (bool, error) {
	facts := s.facts
	if facts == nil {
		ips, err := src.address(ctx, a.ID)
		if err != nil {
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
	case vacant(facts.Tags, t.cluster):
		// Handed over by the Service that it was acquired for.
		a.Owner, a.Tagged, a.Allocated = Unknown, false, true
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

func (r *Reconciler) readRules(ctx context.Context, t *task, src *source, a *Address) error {
	if a.State == stateReleasing {
		return nil
	}
	rules, err := src.rulesOf(ctx, a.ID)
	if err != nil {
		return fmt.Errorf("list load balancer rules of %s: %w", a.IP, err)
	}
	for i := range rules {
		rule := classify(&rules[i], t, a)
		if len(rule.CIDRs) > 0 {
			r.cidrsProven.Store(true)
		}
		if a.NetworkID == "" {
			a.NetworkID = rules[i].NetworkID
		}
		a.Rules = append(a.Rules, rule)
	}
	if t.wanted.Absent {
		return nil
	}
	sticky := false
	for i := range a.Rules {
		rule := &a.Rules[i]
		if rule.Owner != Mine {
			continue
		}
		if rule.Members, err = r.members(ctx, t, src, rule, a); err != nil {
			return err
		}
		if err := r.readExtras(ctx, t, rule, a.Sticky); err != nil {
			return err
		}
		sticky = sticky || rule.PolicyID != ""
	}
	// Without any policy, and none wanted, there is nothing to look for next time.
	a.Sticky = sticky || a.Sticky && slices.ContainsFunc(t.wanted.Rules, func(r Rule) bool { return r.Stickiness != nil })
	return nil
}

// classify says whose a rule is: by its tags if it has any, else by its name
// together with something else that only the Service's own rule would have.
func classify(in *cloudstack.LoadBalancerRule, t *task, a *Address) ActualRule {
	out := ActualRule{
		Rule: Rule{
			Name: in.Name, Protocol: strings.ToLower(in.Protocol), Algorithm: strings.ToLower(in.Algorithm),
			PublicPort: in.PublicPort, PrivatePort: in.PrivatePort, CIDRs: in.CIDRs,
		},
		ID: in.ID, State: in.State, Owner: tagOwner(in.Tags, t.cluster, t.Service),
	}
	out.Tagged = out.Owner == Mine
	out.Adopted = in.Description != t.Service.Key()
	switch {
	case a.ForeignCluster:
		out.Owner = Foreign
	case out.Owner == Foreign:
		out.Sibling = in.Tags[TagCluster] == t.cluster
	case out.Owner == Unknown:
		out.Owner = Foreign
		byUID, own := t.Service.namesRule(in.Name)
		switch {
		case !own:
			out.Sibling = ofKubernetes(in.Name)
		case t.corroborates(in, a, byUID):
			out.Owner = Mine
		default:
			out.Owner = Unknown
			t.notify(Notice{Warning: true, Reason: ReasonUnprovenRule, Message: fmt.Sprintf(
				"load balancer rule %s (%s) on %s is named like one of this Service, but nothing else says so; it is left alone", in.Name, in.ID, a.IP)})
		}
	}
	return out
}

// corroborates tells whether more than its name makes a rule the Service's: the
// address is the Service's, or, where the name holds its UID, the rule leads to
// the Service's node port, or we have described it so.
func (t *task) corroborates(in *cloudstack.LoadBalancerRule, a *Address, byUID bool) bool {
	if a.Recorded || a.InStatus || a.Owner == Mine || a.ID == t.Spec.PredecessorAddress {
		return true
	}
	if !byUID {
		return false
	}
	return in.Description == t.Service.Key() || slices.ContainsFunc(t.Service.Ports, func(p Port) bool { return p.Port == in.PublicPort && p.NodePort == in.PrivatePort })
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
	// Upstream recorded on the Service that it acquired the address; its rules on the address say which one.
	if s.recorded == nil && t.Spec.AllocatedByPredecessor && a.Owner == Unknown && len(a.ownRules()) > 0 {
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
