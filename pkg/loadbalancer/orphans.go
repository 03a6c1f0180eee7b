// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Orphan is something in CloudStack that this cluster made for a Service which is not there any more.
type Orphan struct {
	UID, Service string // of the Service, Service as namespace/name; empty for an address left to others
	Kind         string // address, rule or acl
	ID           string
	IP           string // of addresses and rules
}

// Orphans finds what the cluster's tags and ACL reasons name as its own and no
// living Service has. It reads whole lists, those that others read since.
func (r *Reconciler) Orphans(ctx context.Context, since time.Time, living func(uid string) bool) ([]Orphan, error) {
	project, err := r.options.Project(ctx, "")
	if err != nil {
		return nil, err
	}
	src := &source{r: r, project: project, lists: r.sharedLists(project, since)}
	ips, err := src.allIPs(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := src.allRules(ctx)
	if err != nil {
		return nil, err
	}
	cluster := r.options.ClusterID()
	var out []Orphan
	used := map[string]bool{}
	for i := range rules {
		rule := &rules[i]
		uid := rule.Tags[TagServiceUID]
		if rule.Tags[TagCluster] == cluster && uid != "" && !living(uid) {
			out = append(out, Orphan{UID: uid, Service: rule.Tags[TagService], Kind: "rule", ID: rule.ID, IP: rule.PublicIP})
		}
		used[rule.PublicIPID] = true
	}
	vpc := false
	for i := range ips {
		ip := &ips[i]
		vpc = vpc || ip.VPCID != ""
		uid := ip.Tags[TagServiceUID]
		switch {
		case ip.Tags[TagCluster] != cluster || ip.Tags[TagManagedBy] != ManagedBy:
		case uid != "" && !living(uid), uid == "" && vacant(ip.Tags, cluster) && !used[ip.ID]:
			out = append(out, Orphan{UID: uid, Service: ip.Tags[TagService], Kind: "address", ID: ip.ID, IP: ip.Address})
		}
	}
	if vpc && !r.leavesACLs() {
		items, err := src.aclItems(ctx, "")
		if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return nil, err
		}
		for i := range items {
			if c, uid, ok := aclOwner(items[i].Reason); ok && c == cluster && !living(uid) {
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

// noRecords is the record store of a Service that is gone.
type noRecords struct{}

func (noRecords) Load(context.Context) (annotation.Records, error) { return annotation.Records{}, nil }
func (noRecords) Save(context.Context, annotation.Records) error   { return nil }

// CleanOrphan removes everything of a Service that is gone, with the same
// proofs as its deletion would have asked for. notify is told what was done.
func (r *Reconciler) CleanOrphan(ctx context.Context, o Orphan, notify func(Notice)) error {
	namespace, name, _ := strings.Cut(o.Service, "/")
	req := Request{
		Service: Service{UID: o.UID, Namespace: namespace, Name: name, LB: lbNameOf(o.UID)},
		Records: noRecords{}, Notify: notify,
	}
	if o.UID == "" {
		// Nobody's any more: as if a Service had it to the last.
		req.Service.UID = "vacant " + o.ID
		req.Spec.Records.Addresses = []annotation.AddressRecord{{ID: o.ID, IP: o.IP, Allocated: true}}
	}
	t, err := r.begin(ctx, req)
	if err != nil {
		return err
	}
	defer t.release()
	t.bulkSince, t.everywhere = time.Time{}, o.Kind == "acl"
	_, err = r.remove(ctx, t)
	return err
}

// lbNameOf is cloudprovider.DefaultLoadBalancerName of a UID.
func lbNameOf(uid string) string {
	name := "a" + strings.ReplaceAll(uid, "-", "")
	return name[:min(len(name), 32)]
}
