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

// candidate is an address that may concern the Service.
type candidate struct {
	ID, IP   string
	recorded *annotation.AddressRecord
	inStatus bool
	facts    *cloudstack.PublicIP
}

// candidates has each address once.
type candidates []candidate

func (l *candidates) at(id string) *candidate {
	for i := range *l {
		if (*l)[i].ID == id {
			return &(*l)[i]
		}
	}
	*l = append(*l, candidate{ID: id})
	return &(*l)[len(*l)-1]
}

func (l *candidates) add(ips []cloudstack.PublicIP, status []string) {
	for i := range ips {
		s := l.at(ips[i].ID)
		s.IP, s.facts = ips[i].Address, &ips[i]
		s.inStatus = s.inStatus || slices.Contains(status, ips[i].Address)
	}
}

// candidates finds the public addresses that may concern the Service: those of its
// record; without one those of its rules by name, of its status, and, when it
// is not new, those tagged for it: its record may have been removed by a user.
// And the one that it asks for.
func (r *reading) candidates(ctx context.Context) (candidates, error) {
	var out candidates
	for i := range r.Records.Addresses {
		rec := r.Records.Addresses[i]
		if rec.Internal {
			continue
		}
		s := out.at(rec.ID)
		s.IP, s.recorded, s.inStatus = rec.IP, &rec, true
	}
	switch {
	case len(r.Records.Addresses) == 0:
		if err := r.unrecorded(ctx, &out); err != nil {
			return nil, err
		}
	case r.Prove && r.Desired.Absent && !r.limits.NoTags:
		// One call tells what the records say of tagged addresses, and finds those that they do not name: a record may be
		// an older one, which a user put back.
		ips, err := r.addressesTagged(ctx, r.Service.UID)
		if err != nil {
			return nil, fmt.Errorf("look for addresses tagged for %s: %w", r.Service.Key(), err)
		}
		out.add(ips, r.Service.StatusIPs)
	}
	if want := r.Desired.Address; want != "" && !r.Desired.Internal && !slices.ContainsFunc(out, func(c candidate) bool { return c.IP == want }) {
		ips, err := r.addressesAt(ctx, want)
		if err != nil {
			return nil, fmt.Errorf("look for address %s: %w", want, err)
		}
		out.add(ips, r.Service.StatusIPs)
	}
	return out, nil
}

func (r *reading) unrecorded(ctx context.Context, out *candidates) error {
	rules, err := r.rulesNamed(ctx, r.Service.LB)
	if r.Desired.Absent && r.Records.Empty() && ProjectMissing(r.Service, r.Spec, err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for rules of %s: %w", r.Service.LB, err)
	}
	for i := range rules {
		// The keyword also matches parts of names and descriptions.
		if _, _, _, own := plan.ParseOwnRuleName(r.Service.LB, rules[i].Name); own {
			out.at(rules[i].PublicIPID).IP = rules[i].PublicIP
		}
	}
	if id := r.Spec.PredecessorAddress; id != "" {
		ips, err := r.address(ctx, id)
		if err != nil {
			return fmt.Errorf("read address %s: %w", id, err)
		}
		out.add(ips, r.Service.StatusIPs)
	}
	if r.Desired.Internal {
		return nil // the status shows an address of a tier
	}
	for _, ip := range r.Service.StatusIPs {
		ips, err := r.addressesAt(ctx, ip)
		if err != nil {
			return fmt.Errorf("look for address %s: %w", ip, err)
		}
		out.add(ips, r.Service.StatusIPs)
	}
	if r.Prove || len(r.Service.StatusIPs) > 0 || r.Service.Seen && !r.Memory.known {
		ips, err := r.addressesTagged(ctx, r.Service.UID)
		if err != nil {
			return fmt.Errorf("look for addresses tagged for %s: %w", r.Service.Key(), err)
		}
		out.add(ips, r.Service.StatusIPs)
		if !r.Forwards && len(r.Desired.Forwards) == 0 {
			return nil
		}
		forwards, err := r.forwardsTagged(ctx)
		if err != nil {
			return err
		}
		for i := range forwards {
			out.at(forwards[i].PublicIPID).IP = forwards[i].PublicIP
		}
	}
	return nil
}
