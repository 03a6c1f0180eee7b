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

// mayHaveForwards reports whether the address may have port forwardings of the Service's: it wants some, its record names
// some, or there is no record to tell.
func (r *reading) mayHaveForwards(c candidate) bool {
	if c.recorded != nil && (c.recorded.Forwarded != "" || c.recorded.Forwards != "") {
		return true
	}
	return len(r.Desired.Forwards) > 0 || c.recorded == nil && r.Forwards
}

// readForwards reads the port forwardings of an address. A role that may not list them sees none; CloudStack then
// refuses a rule on a forwarded port, before anything else is changed. It returns the tags of each by its id.
func (r *reading) readForwards(ctx context.Context, a *plan.Address, c candidate) (map[string]map[string]string, error) {
	if r.mayHaveForwards(c) {
		r.anyForwards.Store(true)
	}
	list, err := r.forwardsOf(ctx, a.ID)
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil, fmt.Errorf("list port forwardings of %s: %w", a.IP, err)
	}
	tags := map[string]map[string]string{}
	var ids []string
	if c.recorded != nil {
		ids = strings.Fields(c.recorded.Forwards)
	}
	for i := range list {
		f := r.forward(&list[i], a, ids)
		tags[f.ID] = list[i].Tags
		if f.Owner == plan.Owned && a.NetworkID == "" {
			a.NetworkID = list[i].NetworkID
		}
		a.Forwards = append(a.Forwards, f)
	}
	a.ForwardsKnown = true
	return tags, nil
}

// forward says what a port forwarding is, and whether it is the Service's.
func (r *reading) forward(in *cloudstack.PortForwarding, a *plan.Address, recorded []string) plan.Forward {
	out := plan.Forward{ID: in.ID, Protocol: strings.ToLower(in.Protocol), StartPort: in.StartPort, EndPort: in.EndPort, VM: cmp.Or(in.VMName, in.VMID)}
	owner := plan.TagOwner(in.Tags, r.Clusters, r.Service)
	own := !a.ForeignCluster && plan.OwnsForward(&out, owner, plan.ForwardTies{
		IDs: recorded, Ports: a.ForwardPorts, NodePort: r.nodePort(in), OnNode: r.onNode(in.VMID),
	})
	if !own {
		out.Sibling = owner == plan.Foreign && slices.Contains(r.Clusters, in.Tags[plan.TagCluster])
		return out
	}
	out.Owner, out.Tagged = plan.Owned, owner == plan.Owned
	out.Member, out.PrivatePort, out.CIDRs = in.VMID, in.PrivatePort, in.CIDRs
	if primary, known := plan.PrimaryAddress(append(slices.Clip(r.Members), r.Reach...), in.VMID, in.NetworkID); known && in.GuestIP != "" && in.GuestIP != primary {
		out.Member = plan.MemberName(in.VMID, in.GuestIP)
	}
	if in.State == plan.StateDeleting || in.State == plan.StateAdd {
		out.State = in.State
	}
	return out
}

// nodePort reports whether a port forwarding leads to the Service's node port for it.
func (r *reading) nodePort(in *cloudstack.PortForwarding) bool {
	return slices.ContainsFunc(r.Service.Ports, func(p plan.Port) bool {
		return p.Port == in.StartPort && p.NodePort == in.PrivatePort && strings.EqualFold(cmp.Or(p.Protocol, "TCP"), in.Protocol)
	})
}

// onNode reports whether a VM is a node that the Service has. Of a Service that goes no nodes are known: then what its
// record names and leads to its node port is its own wherever it leads.
func (r *reading) onNode(vm string) bool {
	nodes := append(slices.Clip(r.Members), r.Reach...)
	return r.Desired.Absent && len(nodes) == 0 || slices.ContainsFunc(nodes, func(m plan.Member) bool { return m.VMID == vm })
}

// forwardHolders finds out which Service of the cluster has the port forwardings on an address that are not ours.
func (r *reading) forwardHolders(ctx context.Context, a *plan.Address, tags map[string]map[string]string) error {
	for i := range a.Forwards {
		f := &a.Forwards[i]
		uid := tags[f.ID][plan.TagServiceUID]
		if f.Owner == plan.Owned || !f.Sibling || uid == "" {
			continue
		}
		others, err := r.Neighbours(ctx)
		if err != nil {
			return err
		}
		if n := others.byUID[uid]; n != nil {
			f.Near, f.Service = n.Namespace == r.Service.Namespace, n.Namespace+"/"+n.Name
			f.Admits = r.unguarded(plan.GuardSharing) || n.admits(r.Service.Namespace)
		}
	}
	return nil
}

// allForwards are the port forwardings of the project, to find orphans among them. A process asks once, and again while
// the cluster has any. A role that may not list them has made none.
func (r *reading) allForwards(ctx context.Context, cluster string) ([]cloudstack.PortForwarding, error) {
	if r.lookedForForwards.Swap(true) && !r.anyForwards.Load() {
		return nil, nil
	}
	list, err := whole(ctx, r, r.api.ListPortForwardings, cloudstack.PortForwardingQuery{ProjectID: r.Project})
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil, fmt.Errorf("list port forwardings: %w", err)
	}
	if slices.ContainsFunc(list, func(f cloudstack.PortForwarding) bool { return f.Tags[plan.TagCluster] == cluster }) {
		r.anyForwards.Store(true)
	}
	return list, nil
}
