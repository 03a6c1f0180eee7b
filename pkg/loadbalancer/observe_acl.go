// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// readACLs reads the network ACL list of the wanted tier, and before a proof all lists, if there is any VPC.
func (r *Reconciler) readACLs(ctx context.Context, t *task, src *source, actual Actual, prove bool) ([]ACL, error) {
	// Whole lists are read anyway where Services share them: there our items of lists that the tier had before show.
	everywhere := t.everywhere || src.lists != nil && t.network != nil && t.network.VPCID != ""
	if prove {
		everywhere = everywhere || slices.ContainsFunc(actual.Addresses, func(a Address) bool { return a.VPCID != "" || a.Internal }) ||
			slices.ContainsFunc(t.records.Addresses, func(a annotation.AddressRecord) bool { return a.VPCID != "" || a.Internal })
	}
	if t.wanted.ACLID == "" && !everywhere || r.leavesACLs() {
		return nil, nil
	}
	listID := t.wanted.ACLID
	if everywhere {
		listID = ""
	}
	items, err := src.aclItems(ctx, listID)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		r.noACLs.Store(true)
		t.wanted.ACLID = ""
		t.notify(Notice{Warning: true, Reason: ReasonDefaultACL, Message: "the role may not list network ACLs (listNetworkACLs): they are left alone"})
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network ACL items: %w", err)
	}
	var out []ACL
	for i := range items {
		item := aclItem(&items[i], t.clusters, t.Service.UID)
		if item.Owner != Mine && items[i].ListID != t.wanted.ACLID {
			continue
		}
		at := slices.IndexFunc(out, func(l ACL) bool { return l.ListID == items[i].ListID })
		if at < 0 {
			out, at = append(out, ACL{ListID: items[i].ListID, Name: items[i].ListName}), len(out)
		}
		out[at].Items = append(out[at].Items, item)
	}
	return out, nil
}

func aclItem(in *cloudstack.NetworkACL, clusters []string, uid string) ACLItem {
	out := ACLItem{
		ActualFirewall: actualFirewall(in.ID, in.State, in.Protocol, in.StartPort, in.EndPort, in.CIDRs),
		Number:         in.Number, Ingress: in.Ingress, Allow: in.Allow, Owner: Foreign,
	}
	if ownsACLItem(in.Reason, clusters, uid) && in.Ingress && in.Allow {
		out.Owner = Mine
	}
	return out
}
