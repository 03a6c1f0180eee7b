// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Orphan is something in CloudStack that this cluster made for a Service which is not there any more.
type Orphan struct {
	UID, Service string // of the Service, Service as namespace/name; empty for an address left to others
	Kind         string // address, rule, forward or acl
	ID           string
	IP           string // of addresses, rules and forwards
}

// Orphans finds what the cluster's tags and ACL reasons name as its own and no
// living Service has. It reads whole lists, those that others read since.
func (o *Observer) Orphans(ctx context.Context, project, cluster string, since time.Time, leaveACLs bool, living func(uid string) bool) ([]Orphan, error) {
	r := &reading{Observer: o, Query: Query{Subject: &plan.Subject{Project: project}}, shared: o.sharedLists(project, since)}
	ips, err := r.allIPs(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := r.allRules(ctx)
	if err != nil {
		return nil, err
	}
	var out []Orphan
	used := map[string]bool{}
	for i := range rules {
		rule := &rules[i]
		uid := rule.Tags[plan.TagServiceUID]
		if rule.Tags[plan.TagCluster] == cluster && uid != "" && !living(uid) {
			out = append(out, Orphan{UID: uid, Service: rule.Tags[plan.TagService], Kind: "rule", ID: rule.ID, IP: rule.PublicIP})
		}
		used[rule.PublicIPID] = true
	}
	forwards, err := r.allForwards(ctx, cluster)
	if err != nil {
		return nil, err
	}
	for i := range forwards {
		f := &forwards[i]
		uid := f.Tags[plan.TagServiceUID]
		if f.Tags[plan.TagCluster] == cluster && uid != "" && !living(uid) {
			out = append(out, Orphan{UID: uid, Service: f.Tags[plan.TagService], Kind: "forward", ID: f.ID, IP: f.PublicIP})
		}
		used[f.PublicIPID] = true
	}
	vpc := false
	for i := range ips {
		ip := &ips[i]
		vpc = vpc || ip.VPCID != ""
		uid := ip.Tags[plan.TagServiceUID]
		switch {
		case ip.Tags[plan.TagCluster] != cluster || ip.Tags[plan.TagManagedBy] != plan.ManagedBy:
		case uid != "" && !living(uid), uid == "" && plan.Vacant(ip.Tags, cluster) && !used[ip.ID]:
			out = append(out, Orphan{UID: uid, Service: ip.Tags[plan.TagService], Kind: "address", ID: ip.ID, IP: ip.Address})
		}
	}
	if vpc && !leaveACLs {
		items, err := r.aclItems(ctx, "")
		if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return nil, err
		}
		for i := range items {
			if c, uid, ok := plan.ACLOwner(items[i].Reason); ok && c == cluster && !living(uid) {
				name, _, _ := strings.Cut(strings.TrimPrefix(items[i].Reason, "Service "), " ")
				out = append(out, Orphan{UID: uid, Service: name, Kind: "acl", ID: items[i].ID})
			}
		}
	}
	slices.SortFunc(out, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Rules lists the load balancer rules of a project, as read since.
func (o *Observer) Rules(ctx context.Context, project string, since time.Time) ([]cloudstack.LoadBalancerRule, error) {
	r := &reading{Observer: o, Query: Query{Subject: &plan.Subject{Project: project}}, shared: o.sharedLists(project, since)}
	return r.allRules(ctx)
}
