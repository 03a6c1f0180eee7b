// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// members are a rule's members: as remembered while that is young, else as read.
func (r *reading) members(ctx context.Context, rule *plan.ActualRule, a *plan.Address) ([]string, error) {
	known, ok := r.Memory.members[rule.ID]
	emptied := rule.State == "Add" && len(known.vms) > 0 // CloudStack's state of a rule without members
	limit := r.options.MemberPeriod
	if r.Verify {
		limit = r.options.DriftPeriod / 2
	}
	if ok && !emptied && (r.options.MemberPeriod == 0 || r.options.Clock.Since(known.at) < limit) {
		return known.vms, nil
	}
	addressed := slices.ContainsFunc(r.Desired.Members, func(m string) bool { return strings.Contains(m, "@") })
	if !addressed {
		vms, ok, err := r.membersOf(ctx, rule, a)
		if err != nil {
			return nil, err
		}
		if ok {
			return r.learn(rule, slices.Sorted(slices.Values(vms)), r.shared.begun), nil
		}
	}
	list, err := r.api.ListLoadBalancerMembers(ctx, rule.ID)
	if err != nil {
		return nil, fmt.Errorf("list members of rule %s: %w", rule.Name, err)
	}
	return r.learn(rule, r.named(list), r.options.Clock.Now()), nil
}

// learn remembers and returns a rule's members. Most lists are the desired one, of which there is one copy.
func (r *reading) learn(rule *plan.ActualRule, vms []string, at time.Time) []string {
	if slices.Equal(vms, r.Desired.Members) {
		vms = r.Desired.Members
	}
	r.Memory.members[rule.ID] = memberRead{vms: vms, at: at}
	return vms
}

// named writes members as MemberName does. Of a VM that is no node any more the NIC's address is not known.
func (r *reading) named(list []cloudstack.LoadBalancerMember) []string {
	out := make([]string, 0, len(list))
	if r.primary == nil {
		r.primary = plan.PrimaryAddresses(r.Members, r.Desired.NetworkID)
	}
	for i := range list {
		m := &list[i]
		primary, known := r.primary[m.VMID]
		if !known || len(m.Addresses) == 0 {
			out = append(out, m.VMID)
			continue
		}
		for _, address := range m.Addresses {
			if address == primary {
				address = ""
			}
			out = append(out, plan.MemberName(m.VMID, address))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readExtras reads stickiness and certificate of a rule that may have some: as remembered, else one call each.
func (r *reading) readExtras(ctx context.Context, rule *plan.ActualRule, sticky bool) error {
	tls := rule.Protocol == plan.ProtocolSSL
	if !sticky && !tls {
		return nil
	}
	known, ok := r.Memory.extras[rule.ID]
	if !ok || r.Verify || (r.options.MemberPeriod != 0 && r.options.Clock.Since(known.at) >= r.options.MemberPeriod) {
		known = extraRead{at: r.options.Clock.Now()}
		if sticky {
			policies, err := r.api.ListStickinessPolicies(ctx, rule.ID)
			if err != nil {
				return fmt.Errorf("read the stickiness of rule %s: %w", rule.Name, err)
			}
			if n := len(policies); n > 0 {
				p := policies[n-1]
				known.stickiness, known.policyID = &annotation.Stickiness{Method: p.Method, Params: p.Params}, p.ID
			}
		}
		if tls {
			certificates, err := r.api.ListCertificatesOfRule(ctx, rule.ID)
			if err != nil && !cloudstack.IsNotFound(err) {
				return fmt.Errorf("read the certificate of rule %s: %w", rule.Name, err)
			}
			if len(certificates) > 0 {
				known.certificate = certificates[0]
			}
		}
		r.Memory.extras[rule.ID] = known
	}
	rule.Stickiness, rule.PolicyID, rule.Certificate = known.stickiness, known.policyID, known.certificate
	return nil
}
