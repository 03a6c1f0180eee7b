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
)

// readACLs reads the network ACL list of the wanted tier, and before a proof all lists, if there is any VPC.
func (r *reading) readACLs(ctx context.Context) error {
	// Whole lists are read anyway where Services share them: there our items of lists that the tier had before show.
	everywhere := r.AllACLs || r.shared != nil && r.Desired.VPCID != ""
	if r.Whole {
		everywhere = everywhere || slices.ContainsFunc(r.actual.Addresses, func(a plan.Address) bool { return a.VPCID != "" || a.Internal }) ||
			slices.ContainsFunc(r.Records.Addresses, func(a annotation.AddressRecord) bool { return a.VPCID != "" || a.Internal })
	}
	if r.Desired.ACLID == "" && !everywhere || r.limits.LeaveACLs {
		return nil
	}
	listID := r.Desired.ACLID
	if everywhere {
		listID = ""
	}
	items, err := r.aclItems(ctx, listID)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		r.options.Server.NoACLs.Store(true)
		r.warn(plan.ReasonDefaultACL, "the role may not list network ACLs (listNetworkACLs): they are left alone")
		return nil
	}
	if err != nil {
		return fmt.Errorf("list network ACL items: %w", err)
	}
	out := r.actual.ACLs
	for i := range items {
		item := r.aclItem(&items[i])
		if item.Owner != plan.Owned && items[i].ListID != r.Desired.ACLID {
			continue
		}
		at := slices.IndexFunc(out, func(l plan.ACL) bool { return l.ListID == items[i].ListID })
		if at < 0 {
			out, at = append(out, plan.ACL{ListID: items[i].ListID, Name: items[i].ListName}), len(out)
		}
		out[at].Items = append(out[at].Items, item)
	}
	r.actual.ACLs = out
	return nil
}

// aclItem says what an item is, and whether it is the Service's: by its tags, or by the reason given with its creation while
// it has none.
func (r *reading) aclItem(in *cloudstack.NetworkACL) plan.AccessItem {
	out := plan.AccessItem{
		Rule:   accessRule(in.ID, in.State, in.Protocol, in.StartPort, in.EndPort, in.CIDRs),
		Number: in.Number, Ingress: in.Ingress, Allow: in.Allow, Mark: r.mark(in.Tags),
	}
	switch {
	case !in.Ingress || !in.Allow:
		out.Owner = plan.Foreign
	case out.Owner == plan.Unknown && plan.OwnsACLItem(in.Reason, r.Clusters, r.Service.UID):
		out.Owner = plan.Owned
	}
	return out
}

// mark reads the tags of an item.
func (r *reading) mark(tags map[string]string) plan.Mark {
	owner := r.owner(tags)
	return plan.Mark{Owner: owner, Tagged: owner == plan.Owned, Former: owner == plan.Owned && plan.Former(tags, r.Clusters)}
}

// owner reads tags, and notes another cluster's id in those with the Service's UID.
func (r *reading) owner(tags map[string]string) plan.Ownership {
	out := plan.TagOwner(tags, r.Clusters, r.Service)
	if out == plan.OtherCluster {
		r.actual.OtherCluster = tags[plan.TagCluster]
	}
	return out
}

// readInternal reads internal load balancers of the Service, if it has or wants any.
func (r *reading) readInternal(ctx context.Context) error {
	networks := map[string]bool{}
	if r.Desired.Internal {
		networks[r.Desired.NetworkID] = true
	}
	for _, rec := range r.Records.Addresses {
		if rec.Internal {
			networks[rec.NetworkID] = true
		}
	}
	for network := range networks {
		list, err := r.api.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{NetworkID: network, ProjectID: r.Project})
		if err != nil {
			return fmt.Errorf("list internal load balancers of network %s: %w", network, err)
		}
		r.actual.Addresses = append(r.actual.Addresses, r.internalAddresses(network, list)...)
	}
	return nil
}

// internalAddresses are the addresses of a tier with something of the Service's, or that it asks for.
func (r *reading) internalAddresses(network string, list []cloudstack.InternalLoadBalancer) []plan.Address {
	var out []plan.Address
	find := func(ip string) int { return slices.IndexFunc(out, func(a plan.Address) bool { return a.IP == ip }) }
	at := func(ip string) *plan.Address {
		if i := find(ip); i >= 0 {
			return &out[i]
		}
		a := plan.Address{ID: plan.InternalID(network, ip), IP: ip, NetworkID: network, Internal: true, Owner: plan.Unknown, Allocated: true, InStatus: slices.Contains(r.Service.StatusIPs, ip)}
		a.Recorded = slices.ContainsFunc(r.Records.Addresses, func(rec annotation.AddressRecord) bool { return rec.ID == a.ID })
		out = append(out, a)
		return &out[len(out)-1]
	}
	for _, rec := range r.Records.Addresses {
		if rec.Internal && rec.NetworkID == network && rec.IP != "" {
			at(rec.IP)
		}
	}
	for i := range list {
		b := &list[i]
		rule := plan.ActualRule{
			Rule: plan.Rule{Name: b.Name, Protocol: plan.ProtocolTCP, Algorithm: strings.ToLower(b.Algorithm), PublicPort: b.Port, PrivatePort: b.InstancePort},
			ID:   b.ID, State: b.State, Mark: r.mark(b.Tags), Members: r.memberNames(b.Members),
		}
		// Its name proves one without tags the Service's: the UID is in it, and nobody else may delete it.
		_, _, _, named := plan.ParseOwnRuleName(r.Service.LB, b.Name)
		own := rule.Owner == plan.Owned || rule.Owner == plan.Unknown && named
		if own {
			rule.Owner = plan.Owned
		} else {
			rule.Owner, rule.By = plan.Foreign, r.describe(r.serviceOf(b.Name, b.Tags))
		}
		if own || find(b.Address) >= 0 || b.Address == r.Desired.Address {
			a := at(b.Address)
			a.Rules = append(a.Rules, rule)
		}
	}
	// An address of a tier is there by its load balancers alone.
	return slices.DeleteFunc(out, func(a plan.Address) bool { return len(a.Rules) == 0 && !a.Recorded })
}
