// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Address is a public address that carries no load balancer rule once the steps are done.
type Address struct {
	ID string `json:"id"`
	IP string `json:"ip"`
	// UsedBy says what else the address is for, for people; "" for nothing that the credentials see.
	UsedBy string `json:"usedBy,omitempty"`
}

// Emptied returns the addresses that lose their last rule by the steps.
func Emptied(rules []Rule, steps []Step) []Address {
	gone, seen := map[string]bool{}, map[string]bool{}
	for i := range steps {
		gone[steps[i].RuleID] = steps[i].Action == ActionDelete
	}
	var out []Address
	for i := range rules {
		r := &rules[i]
		if !gone[r.ID] || seen[r.PublicIPID] || slices.ContainsFunc(rules, func(other Rule) bool {
			return other.PublicIPID == r.PublicIPID && !gone[other.ID]
		}) {
			continue
		}
		seen[r.PublicIPID] = true
		out = append(out, Address{ID: r.PublicIPID, IP: r.PublicIP})
	}
	slices.SortFunc(out, func(a, b Address) int { return cmp.Compare(a.IP, b.IP) })
	return out
}

// Used fills in what else the addresses are for.
func Used(addresses []Address, all []cloudstack.PublicIP, forwards []cloudstack.PortForwarding) {
	for i := range addresses {
		a := &addresses[i]
		for j := range all {
			switch ip := &all[j]; {
			case ip.ID != a.ID:
			case ip.SourceNAT:
				a.UsedBy = "source NAT of its network"
			case ip.StaticNAT:
				a.UsedBy = "static NAT"
			}
		}
		if slices.ContainsFunc(forwards, func(f cloudstack.PortForwarding) bool { return f.PublicIPID == a.ID }) {
			a.UsedBy = "port forwarding"
		}
	}
}

// Describe says what to do about the address.
func (a Address) Describe() string {
	if a.UsedBy != "" {
		return fmt.Sprintf("address %s has no load balancer rule any more; it is in use for %s and stays", a.IP, a.UsedBy)
	}
	return fmt.Sprintf("address %s has no load balancer rule any more and stays acquired: release it in CloudStack (id %s) unless a Service is to use it", a.IP, a.ID)
}
