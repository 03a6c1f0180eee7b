// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// ConflictWith compares a new rule with the other rules of its address or network. Two rules can conflict only if
// they have the same protocol and a CIDR in common; CIDRs are compared as text.
func ConflictWith(r *store.FWRule, others []*store.FWRule) error {
	for _, o := range others {
		if o.State == store.RuleRevoke || r.Protocol != o.Protocol || !shareText(r.CIDRs, o.CIDRs) {
			continue
		}
		switch {
		case r.Protocol == "icmp":
			if *r.IcmpType == *o.IcmpType && *r.IcmpCode == *o.IcmpCode {
				return Invalid("New rule conflicts with existing rule: %s", conflictText(o))
			}
		case r.StartPort == nil && o.StartPort == nil:
			return Errf(CodeConflict, CSRuleConflict,
				"There is already a firewall rule specified with protocol = %s and no ports", r.Protocol)
		case r.StartPort == nil || o.StartPort == nil || r.EndPort == nil || o.EndPort == nil:
		case *r.StartPort <= *o.EndPort && *o.StartPort <= *r.EndPort:
			return Errf(CodeConflict, CSRuleConflict,
				"The range specified, %d-%d, conflicts with rule %s which has %d-%d",
				*r.StartPort, *r.EndPort, conflictText(o), *o.StartPort, *o.EndPort)
		}
	}

	return nil
}

// shareText reports whether the lists have an element in common or are both empty.
func shareText(a, b []string) bool {
	return len(a) == 0 && len(b) == 0 || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func conflictText(r *store.FWRule) string {
	return fmt.Sprintf(`FirewallRule {"id":%d,"networkId":%d,"purpose":"Firewall","state":"%s","uuid":"%s"}`, r.ID,
		r.Network.ID, r.State, r.UUID)
}

// BalancerConflict returns an error if another rule of the address uses the port of a load balancer rule. Port
// forwarding rules conflict regardless of the protocol.
func BalancerConflict(r *store.LBRule) error {
	for _, o := range r.IP.LBRules {
		if o.PublicPort == r.PublicPort && o.State != store.RuleRevoke {
			return rangeConflict(CSGeneric, r.PublicPort, r.PublicPort, o.ConflictText(), o.PublicPort, o.PublicPort)
		}
	}
	for _, o := range r.IP.PFRules {
		if o.State != store.RuleRevoke && o.PublicStart <= r.PublicPort && r.PublicPort <= o.PublicEnd {
			return rangeConflict(CSGeneric, r.PublicPort, r.PublicPort, o.ConflictText(), o.PublicStart, o.PublicEnd)
		}
	}
	return nil
}

// ForwardConflict returns an error if another rule of the address uses ports of a port forwarding rule: a load
// balancer rule of any protocol, or a port forwarding rule of the same protocol that has a CIDR in common.
func ForwardConflict(r *store.PFRule) error {
	for _, o := range r.IP.LBRules {
		if o.State != store.RuleRevoke && r.PublicStart <= o.PublicPort && o.PublicPort <= r.PublicEnd {
			return rangeConflict(CSRuleConflict, r.PublicStart, r.PublicEnd, o.ConflictText(), o.PublicPort,
				o.PublicPort)
		}
	}
	for _, o := range r.IP.PFRules {
		if o.State != store.RuleRevoke &&
			o.Protocol == r.Protocol &&
			shareText(o.CIDRs, r.CIDRs) &&
			r.PublicStart <= o.PublicEnd &&
			o.PublicStart <= r.PublicEnd {
			return rangeConflict(CSRuleConflict, r.PublicStart, r.PublicEnd, o.ConflictText(), o.PublicStart,
				o.PublicEnd)
		}
	}
	return nil
}

// rangeConflict returns the error for a rule whose ports overlap those of another rule.
func rangeConflict(cs, from, to int, with string, start, end int) error {
	return Errf(CodeConflict, cs, "The range specified, %d-%d, conflicts with rule %s which has %d-%d", from, to, with,
		start, end)
}

// NoHost returns the error of a start in a zone without hosts.
func NoHost(v *store.VM) *Error {
	return Errf(CodeCapacity, CSGeneric, "Unable to create a deployment for %s", v.Text())
}
