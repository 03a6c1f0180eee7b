// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// readACLs reads the network ACL list of the wanted tier, and before a proof all lists, if there is any VPC.
func (r *reading) readACLs(ctx context.Context) error {
	actual := &r.out.Actual
	// Whole lists are read anyway where Services share them: there our items of lists that the tier had before show.
	everywhere := r.AllACLs || r.shared != nil && r.Desired.VPCID != ""
	if r.Prove {
		everywhere = everywhere || slices.ContainsFunc(actual.Addresses, func(a plan.Address) bool { return a.VPCID != "" || a.Internal }) ||
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
	out := actual.ACLs
	for i := range items {
		item := aclItem(&items[i], r.Clusters, r.Service.UID)
		if item.Owner != plan.Owned && items[i].ListID != r.Desired.ACLID {
			continue
		}
		at := slices.IndexFunc(out, func(l plan.ACL) bool { return l.ListID == items[i].ListID })
		if at < 0 {
			out, at = append(out, plan.ACL{ListID: items[i].ListID, Name: items[i].ListName}), len(out)
		}
		out[at].Items = append(out[at].Items, item)
	}
	actual.ACLs = out
	return nil
}

func aclItem(in *cloudstack.NetworkACL, clusters []string, uid string) plan.ACLItem {
	out := plan.ACLItem{
		Rule:   actualFirewall(in.ID, in.State, in.Protocol, in.StartPort, in.EndPort, in.CIDRs),
		Number: in.Number, Ingress: in.Ingress, Allow: in.Allow, Owner: plan.Foreign,
	}
	if plan.OwnsACLItem(in.Reason, clusters, uid) && in.Ingress && in.Allow {
		out.Owner = plan.Owned
	}
	return out
}
