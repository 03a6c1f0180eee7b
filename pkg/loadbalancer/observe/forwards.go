// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// forwardsOf reads the port forwardings of an address.
func (r *reading) forwardsOf(ctx context.Context, addressID string) ([]cloudstack.PortForwarding, error) {
	return find(ctx, r, r.fresh(addressID), r.api.ListPortForwardings, cloudstack.PortForwardingQuery{ProjectID: r.Project},
		cloudstack.PortForwardingQuery{PublicIPID: addressID, ProjectID: r.Project}, func(f *cloudstack.PortForwarding) bool { return f.PublicIPID == addressID })
}

// forwardsTagged finds port forwardings that are tagged for the Service.
func (r *reading) forwardsTagged(ctx context.Context) ([]cloudstack.PortForwarding, error) {
	uid := r.Service.UID
	list, err := find(ctx, r, r.shared != nil, r.api.ListPortForwardings, cloudstack.PortForwardingQuery{ProjectID: r.Project},
		cloudstack.PortForwardingQuery{Tags: map[string]string{plan.TagServiceUID: uid}, ProjectID: r.Project},
		func(f *cloudstack.PortForwarding) bool { return f.Tags[plan.TagServiceUID] == uid })
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil, fmt.Errorf("look for port forwardings tagged for %s: %w", r.Service.Key(), err)
	}
	return list, nil
}

// mayHaveForwards reports whether the address may have port forwardings of the Service's: it wants some, or its record
// names some.
func (r *reading) mayHaveForwards(c candidate) bool {
	return len(r.Desired.Forwards) > 0 || c.recorded != nil && (c.recorded.Forwarded != "" || c.recorded.Forwards != "")
}

// readForwards reads the port forwardings of an address. A role that may not list them sees none; CloudStack then
// refuses a rule on a forwarded port, before anything else is changed.
func (r *reading) readForwards(ctx context.Context, a *plan.Address, c candidate) error {
	if r.mayHaveForwards(c) {
		r.noForwards.Store(false)
	}
	list, err := r.forwardsOf(ctx, a.ID)
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return fmt.Errorf("list port forwardings of %s: %w", a.IP, err)
	}
	var ids []string
	if c.recorded != nil {
		ids = strings.Fields(c.recorded.Forwards)
	}
	for i := range list {
		f := r.forward(&list[i], a, ids)
		if f.Owner == plan.Owned && a.NetworkID == "" {
			a.NetworkID = list[i].NetworkID
		}
		a.Forwards = append(a.Forwards, f)
	}
	a.ForwardsKnown = true
	return nil
}

// forward says what a port forwarding is, and whose.
func (r *reading) forward(in *cloudstack.PortForwarding, a *plan.Address, recorded []string) plan.Forward {
	out := plan.Forward{ID: in.ID, Protocol: strings.ToLower(in.Protocol), StartPort: in.StartPort, EndPort: in.EndPort, VM: cmp.Or(in.VMName, in.VMID)}
	owner := r.owner(in.Tags)
	// Its tags say whose it is, else the record: by its id, or by the port of one whose creation was not recorded, and that
	// leads where only the Service's own would lead. Of a Service that is deleted no nodes are known.
	byRecord := slices.Contains(recorded, in.ID) || slices.Contains(a.ForwardPorts[out.Protocol], out.StartPort) &&
		r.hasPort(in.Protocol, in.StartPort, in.PrivatePort) && (r.isNode(in.VMID) || r.Desired.Absent && len(r.Members)+len(r.Reach) == 0)
	own := owner == plan.Owned || owner != plan.Foreign && byRecord
	if !own || a.ForeignCluster || out.StartPort != out.EndPort {
		if owner == plan.Foreign && slices.Contains(r.Clusters, in.Tags[plan.TagCluster]) {
			out.By = r.describe(r.Book.ByUID(in.Tags[plan.TagServiceUID]))
		}
		return out
	}
	out.Owner, out.Tagged, out.Former = plan.Owned, owner == plan.Owned, plan.Former(in.Tags, r.Clusters)
	out.Member, out.PrivatePort, out.CIDRs = in.VMID, in.PrivatePort, in.CIDRs
	if primary := r.primaryIn(in.NetworkID)[in.VMID]; primary != "" && in.GuestIP != "" && in.GuestIP != primary {
		out.Member = plan.MemberName(in.VMID, in.GuestIP)
	}
	if in.State == plan.StateDeleting || in.State == plan.StateAdd {
		out.State = in.State
	}
	return out
}

// allForwards are the port forwardings of the project, to find orphans among them. They are listed once, and again while
// the cluster has any. A role that may not list them has made none.
func (r *reading) allForwards(ctx context.Context, clusters []string) ([]cloudstack.PortForwarding, error) {
	if r.noForwards.Load() {
		return nil, nil
	}
	list, err := whole(ctx, r, r.api.ListPortForwardings, cloudstack.PortForwardingQuery{ProjectID: r.Project})
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil, fmt.Errorf("list port forwardings: %w", err)
	}
	r.noForwards.Store(!slices.ContainsFunc(list, func(f cloudstack.PortForwarding) bool { return slices.Contains(clusters, f.Tags[plan.TagCluster]) }))
	return list, nil
}
