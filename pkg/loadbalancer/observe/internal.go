// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

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
		r.out.Actual.Addresses = append(r.out.Actual.Addresses, r.internalAddresses(network, list)...)
	}
	return nil
}

// internalAddresses are the addresses of a tier with something of the Service's, or that it asks for.
func (r *reading) internalAddresses(network string, list []cloudstack.InternalLoadBalancer) []plan.Address {
	byIP := map[string]*plan.Address{}
	var order []string
	at := func(ip string) *plan.Address {
		a, ok := byIP[ip]
		if !ok {
			a = &plan.Address{ID: plan.InternalID(network, ip), IP: ip, NetworkID: network, Internal: true, Owner: plan.Unknown, Known: true, Allocated: true, InStatus: slices.Contains(r.Service.StatusIPs, ip)}
			for _, rec := range r.Records.Addresses {
				a.Recorded = a.Recorded || rec.ID == a.ID
			}
			byIP[ip] = a
			order = append(order, ip)
		}
		return a
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
			ID:   b.ID, State: b.State, Owner: plan.Foreign, Members: r.named(b.Members),
		}
		_, _, _, own := plan.ParseOwnRuleName(r.Service.LB, b.Name)
		if own {
			rule.Owner = plan.Owned
		} else {
			rule.Sibling = plan.OfKubernetes(b.Name)
		}
		if _, wanted := byIP[b.Address]; own || wanted || b.Address == r.Desired.Address {
			a := at(b.Address)
			a.Rules = append(a.Rules, rule)
		}
	}
	out := make([]plan.Address, 0, len(order))
	for _, ip := range order {
		a := byIP[ip]
		// An address of a tier is there by its load balancers alone.
		if len(a.Rules) > 0 || a.Recorded {
			out = append(out, *a)
		}
	}
	return out
}
