// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Orphan is an object in CloudStack that this cluster created for a Service that no longer exists.
type Orphan struct {
	// UID and Service identify the Service, Service as namespace/name; empty for an address that was left to others.
	UID, Service string
	Kind         string // address, rule, forward, firewall or acl
	ID           string
	IP           string // the address; empty for acl
	AddressID    string // id of the address that it is on; empty for acl
	Project      string // id of the project; empty for the account's own resources
	Keep         bool   // the annotation keep-ip of the deleted Service was true
}

// Orphans returns the objects that the cluster owns by their tags or ACL reasons, under one of its ids, and that no
// existing Service has. It reads whole lists, or uses those that others have read since.
//
// The lists do not contain addresses whose release failed in an earlier process. With unfinished, these are listed as
// well.
func (o *Observer) Orphans(
	ctx context.Context, project string, clusters []string, since time.Time, unfinished bool, book plan.Book,
) ([]Orphan, error) {
	r := o.whole(project, since)
	var out []Orphan
	used, vpc := map[string]bool{}, false

	add := func(kind, id string, tags map[string]string, ip, addressID string) {
		uid := tags[plan.TagServiceUID]
		if slices.Contains(clusters, tags[plan.TagCluster]) && uid != "" && book.ByUID(uid) == nil {
			out = append(out,
				Orphan{
					UID:       uid,
					Service:   tags[plan.TagService],
					Kind:      kind,
					ID:        id,
					IP:        ip,
					AddressID: addressID,
					Project:   project,
					Keep:      tags[plan.TagKeepIP] != "",
				})
		}
	}

	rules, err1 := r.allRules(ctx)
	forwards, err2 := r.allForwards(ctx, clusters)
	firewall, err3 := whole(ctx, r, r.api.ListFirewallRules, cloudstack.FirewallRuleQuery{ProjectID: project})
	ips, err4 := r.allIPs(ctx)

	if unfinished {
		releasing, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{
			ProjectID: project, State: plan.StateReleasing, AllocatedOnly: new(false),
		})
		ips, err4 = slices.Concat(ips, releasing), errors.Join(err4, err)
	}

	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("list the cluster's objects in CloudStack: %w", err)
	}

	for _, l := range rules {
		add("rule", l.ID, l.Tags, l.PublicIP, l.PublicIPID)
		used[l.PublicIPID] = true
	}

	for _, f := range forwards {
		add("forward", f.ID, f.Tags, f.PublicIP, f.PublicIPID)
		used[f.PublicIPID] = true
	}

	for _, f := range firewall {
		add("firewall", f.ID, f.Tags, "", f.PublicIPID)
	}

	for _, ip := range ips {
		vpc = vpc || ip.VPCID != ""
		if ip.Tags[plan.TagManagedBy] == plan.ManagedBy {
			add("address", ip.ID, ip.Tags, ip.Address, ip.ID)
		}
		use := book.Use(ip.Address, evidence.InstantOf(ip.Allocated), "")
		if plan.Unused(ip.Tags, clusters) && !used[ip.ID] && len(use.Holders) == 0 {
			out = append(out, Orphan{Kind: "address", ID: ip.ID, IP: ip.Address, AddressID: ip.ID, Project: project})
		}
	}

	if vpc {
		internal, err := r.api.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{ProjectID: project})
		if Permitted(err) != nil {
			return nil, fmt.Errorf("list internal load balancers: %w", err)
		}
		for _, b := range internal {
			add("rule", b.ID, b.Tags, b.Address, plan.InternalID(b.NetworkID, b.Address))
		}
	}

	if vpc && !o.LeaveACLs {
		items, err := r.aclItems(ctx, "")
		if Permitted(err) != nil {
			return nil, err
		}
		for _, it := range items {
			tags := it.Tags
			if cluster, uid, ok := plan.ACLOwner(it.Reason); ok && tags[plan.TagServiceUID] == "" {
				name, _, _ := strings.Cut(strings.TrimPrefix(it.Reason, "Service "), " ")
				tags = map[string]string{plan.TagCluster: cluster, plan.TagServiceUID: uid, plan.TagService: name}
			}
			add("acl", it.ID, tags, "", "")
		}
	}

	slices.SortFunc(out, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// ProjectOf looks for an address that is tagged for a Service, in all projects visible to the API keys, and in the
// account itself, whose id is empty, unless the address was looked for there.
func (o *Observer) ProjectOf(ctx context.Context, uid, lookedIn string) (id string, found bool, err error) {
	for _, project := range []string{"-1", ""} {
		if project == lookedIn {
			continue
		}
		ips, err := o.api.ListPublicIPs(ctx,
			cloudstack.PublicIPQuery{ProjectID: project, Tags: map[string]string{plan.TagServiceUID: uid}})
		switch {
		case err != nil:
			return "", false, err
		case len(ips) > 0:
			return ips[0].ProjectID, true, nil
		}
	}
	return "", false, nil
}

// Lists returns the public addresses and the load balancer rules of a project, from whole lists started since. Orphans
// and previews with the same time use the same lists.
func (o *Observer) Lists(
	ctx context.Context, project string, since time.Time,
) ([]cloudstack.PublicIP, []cloudstack.LoadBalancerRule, error) {
	r := o.whole(project, since)
	addresses, err1 := r.allIPs(ctx)
	rules, err2 := r.allRules(ctx)
	return addresses, rules, cmp.Or(err1, err2)
}

// whole returns a reading that uses whole lists only.
func (o *Observer) whole(project string, since time.Time) *reading {
	return &reading{
		Observer: o,
		Query:    Query{Subject: &plan.Subject{Project: project}},
		shared:   o.sharedLists(project, since),
	}
}
