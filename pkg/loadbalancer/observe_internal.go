// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// internalID is the id of an address of a tier in records; CloudStack has none for it.
func internalID(networkID, ip string) string { return "internal/" + networkID + "/" + ip }

// readInternal reads internal load balancers of the Service, if it has or wants any.
func (r *Reconciler) readInternal(ctx context.Context, t *task) ([]Address, error) {
	networks := map[string]bool{}
	if t.wanted.Internal {
		networks[t.wanted.NetworkID] = true
	}
	for _, rec := range t.records.Addresses {
		if rec.Internal {
			networks[rec.NetworkID] = true
		}
	}
	var out []Address
	for network := range networks {
		list, err := r.api.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{NetworkID: network, ProjectID: t.project})
		if err != nil {
			return nil, fmt.Errorf("list internal load balancers of network %s: %w", network, err)
		}
		out = append(out, t.internalAddresses(network, list)...)
	}
	return out, nil
}

// internalAddresses are the addresses of a tier with something of the Service's, or that it asks for.
func (t *task) internalAddresses(network string, list []cloudstack.InternalLoadBalancer) []Address {
	byIP := map[string]*Address{}
	var order []string
	at := func(ip string) *Address {
		a, ok := byIP[ip]
		if !ok {
			a = &Address{ID: internalID(network, ip), IP: ip, NetworkID: network, Internal: true, Owner: Unknown, Known: true, Allocated: true, InStatus: slices.Contains(t.Service.StatusIPs, ip)}
			for _, rec := range t.records.Addresses {
				a.Recorded = a.Recorded || rec.ID == a.ID
			}
			byIP[ip] = a
			order = append(order, ip)
		}
		return a
	}
	for _, rec := range t.records.Addresses {
		if rec.Internal && rec.NetworkID == network && rec.IP != "" {
			at(rec.IP)
		}
	}
	for i := range list {
		b := &list[i]
		rule := ActualRule{
			Rule: Rule{Name: b.Name, Protocol: ProtocolTCP, Algorithm: strings.ToLower(b.Algorithm), PublicPort: b.Port, PrivatePort: b.InstancePort},
			ID:   b.ID, State: b.State, Owner: Foreign, Members: t.named(b.Members),
		}
		_, _, _, own := parseOwnRuleName(t.Service.LB, b.Name)
		if own {
			rule.Owner = Mine
		} else {
			rule.Sibling = ofKubernetes(b.Name)
		}
		if _, wanted := byIP[b.Address]; own || wanted || b.Address == t.wanted.Address {
			a := at(b.Address)
			a.Rules = append(a.Rules, rule)
		}
	}
	out := make([]Address, 0, len(order))
	for _, ip := range order {
		a := byIP[ip]
		// An address of a tier is there by its load balancers alone.
		if len(a.Rules) > 0 || a.Recorded {
			out = append(out, *a)
		}
	}
	return out
}
