// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// CmdListACLs is the command without which network ACL lists cannot be managed.
const CmdListACLs = "listNetworkACLs"

// readACLs reads the network ACL list of the desired tier, or all lists if a proof is needed and there is any VPC.
func (r *reading) readACLs(ctx context.Context) error {
	// If Services share whole lists, these are read anyway. They also show our items in lists that the tier had before.
	everywhere := r.AllACLs || r.shared != nil && r.Desired.VPCID != ""
	if r.Whole {
		everywhere = everywhere ||
			slices.ContainsFunc(r.found.Addresses, func(a plan.Address) bool { return a.VPCID != "" || a.Internal }) ||
			slices.ContainsFunc(r.Records.Addresses,
				func(a annotation.AddressRecord) bool { return a.VPCID != "" || a.Internal })
	}
	if r.Desired.ACLID == "" && !everywhere || r.LeaveACLs {
		return nil
	}

	r.found.ACLs = r.ACLs // used if the lists cannot be read
	if r.Denied(CmdListACLs) {
		return nil
	}

	listID := r.Desired.ACLID
	if everywhere {
		listID = ""
	}
	items, err := r.aclItems(ctx, listID)
	refused, news := r.Role.Learn(r.Project, CmdListACLs, err)
	switch {
	case refused && news:
		r.warn(plan.ReasonDefaultACL, "the role may not list network ACLs (listNetworkACLs): they are left alone")
		return nil
	case refused:
		return nil
	case err != nil:
		r.found.ACLsUnread, err = r.unread(ctx, fmt.Errorf("list network ACL items: %w", err))
		return err
	}

	r.found.ACLs = nil
	for i := range items {
		if item := r.aclItem(&items[i]); item.Owner == plan.Owned || items[i].ListID == r.Desired.ACLID {
			list := r.found.ACL(items[i].ListID)
			list.Name, list.Items = items[i].ListName, append(list.Items, item)
		}
	}
	return nil
}

// ACLItem converts an item of a network ACL list. The reason given with its creation shows its owner.
func ACLItem(in *cloudstack.NetworkACL, of *plan.Subject) plan.Item {
	out := item(in.ID, in.State, in.Protocol, in.StartPort, in.EndPort, in.CIDRs, plan.Mark{Owner: plan.Foreign})
	out.Number, out.Ingress, out.Allow = in.Number, in.Ingress, in.Allow
	cluster, uid, _ := plan.ACLOwner(in.Reason)
	switch {
	case !in.Ingress || !in.Allow || !slices.Contains(of.Clusters, cluster):
	case uid == of.Service.UID:
		out.Owner = plan.Owned
	default:
		out.By = "another Service"
	}
	return out
}

// aclItem is like ACLItem, but tags of the item, if it has any, take precedence over the reason.
func (r *reading) aclItem(in *cloudstack.NetworkACL) plan.Item {
	out, tagged := ACLItem(in, r.Subject), r.mark(in.Tags)
	if tagged.Owner != plan.Unknown && in.Ingress && in.Allow {
		tagged.By = out.By
		out.Mark = tagged
	}
	_, uid, _ := plan.ACLOwner(in.Reason)
	of := r.Book.ByUID(cmp.Or(in.Tags[plan.TagServiceUID], uid))
	out.Sibling = of != nil && of.Namespace == r.Service.Namespace
	return out
}

// mark returns what the tags of an item say about its owner.
func (r *reading) mark(tags map[string]string) plan.Mark {
	owner := r.owner(tags)
	if owner == plan.OtherCluster {
		owner = plan.Foreign
	}
	return plan.Mark{
		Owner:  owner,
		Tagged: owner == plan.Owned,
		Former: owner == plan.Owned && plan.Former(tags, r.Clusters),
	}
}

// owner returns the ownership that tags show. If they have the Service's UID and the id of another cluster, it records
// that id.
func (r *reading) owner(tags map[string]string) plan.Ownership {
	out := plan.TagOwner(tags, r.Clusters, r.Service)
	if out == plan.OtherCluster {
		r.found.OtherCluster = tags[plan.TagCluster]
	}
	return out
}

// readInternal reads the internal load balancers of the Service, if it has or wants any.
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

	if !r.Desired.Internal && r.Records.Empty() && r.Service.Seen && (r.Desired.Absent || r.Desired.VPCID != "") {
		networks[""] = true // the records may be lost, so look in all tiers
	}

	for network := range networks {
		list, err := r.api.ListInternalLoadBalancers(ctx,
			cloudstack.InternalLoadBalancerQuery{NetworkID: network, ProjectID: r.Project})
		if network == "" && cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list internal load balancers of network %s: %w", network, err)
		}
		r.internalAddresses(network, list)
	}

	return nil
}

// internalAddresses adds the addresses of a tier that have load balancers of the Service, or that it requests.
// CloudStack shows such addresses only through their load balancers.
func (r *reading) internalAddresses(network string, list []cloudstack.InternalLoadBalancer) {
	at := func(network, ip string) *plan.Address {
		id := plan.InternalID(network, ip)
		if r.found.Find(id) == nil {
			a := plan.Address{
				ID: id, IP: ip, NetworkID: network, Internal: true, Owner: plan.Unknown,
				InStatus: slices.Contains(r.Service.StatusIPs, ip),
			}
			for i := range r.Records.Addresses {
				if rec := &r.Records.Addresses[i]; rec.ID == id {
					a.Recall(rec)
				}
			}
			a.Allocated = true
			r.found.Addresses = append(r.found.Addresses, a)
		}
		return r.found.Find(id)
	}

	for _, rec := range r.Records.Addresses {
		if rec.Internal && rec.NetworkID == network && rec.IP != "" {
			at(network, rec.IP)
		}
	}

	if r.Desired.Internal && r.Desired.Address != "" && network == r.Desired.NetworkID {
		at(network, r.Desired.Address)
	}

	for _, b := range list {
		rule := item(b.ID, b.State, plan.ProtocolTCP, b.Port, b.Port, nil, r.mark(b.Tags))
		rule.Name, rule.Algorithm, rule.PrivatePort = b.Name, strings.ToLower(b.Algorithm), b.InstancePort
		rule.Members = r.memberNames(b.Members, network)

		// Without tags, the name proves that a rule is the Service's: it contains the UID, and nobody else may delete
		// the rule.
		_, _, _, named := plan.ParseOwnRuleName(r.Service.LB, b.Name)
		own := rule.Owner == plan.Owned || rule.Owner == plan.Unknown && named
		if own {
			rule.Owner = plan.Owned
		} else {
			rule.Owner, rule.By = plan.Foreign, r.describe(r.serviceOf(b.Name, b.Tags))
		}

		if own || r.found.Find(plan.InternalID(b.NetworkID, b.Address)) != nil {
			a := at(b.NetworkID, b.Address)
			a.Rules = append(a.Rules, rule)
			a.ForeignCluster = a.ForeignCluster || rule.Owner != plan.Owned && r.otherCluster(b.Tags)
		}
	}
}
