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

// seed is an address that may concern the Service.
type seed struct {
	ID, IP   string
	recorded *annotation.AddressRecord
	inStatus bool
	facts    *cloudstack.PublicIP
}

// seedList collects seeds, one an address.
type seedList []seed

func (l *seedList) at(id string) *seed {
	for i := range *l {
		if (*l)[i].ID == id {
			return &(*l)[i]
		}
	}
	*l = append(*l, seed{ID: id})
	return &(*l)[len(*l)-1]
}

func (l *seedList) add(ips []cloudstack.PublicIP, status []string) {
	for i := range ips {
		s := l.at(ips[i].ID)
		s.IP, s.facts = ips[i].Address, &ips[i]
		s.inStatus = s.inStatus || slices.Contains(status, ips[i].Address)
	}
}

// seeds finds the public addresses that may concern the Service: those of its
// record; without one those of its rules by name, of its status, and, when it
// is not new, those tagged for it: its record may have been removed by a user.
// And the one that it asks for.
func (r *Reconciler) seeds(ctx context.Context, t *task, src *source, prove bool) (seedList, error) {
	var out seedList
	for i := range t.records.Addresses {
		rec := t.records.Addresses[i]
		if rec.Internal {
			continue
		}
		s := out.at(rec.ID)
		s.IP, s.recorded, s.inStatus = rec.IP, &rec, true
	}
	switch {
	case len(t.records.Addresses) == 0:
		if err := r.unrecorded(ctx, t, src, prove, &out); err != nil {
			return nil, err
		}
	case prove && t.wanted.Absent && !r.limits().NoTags:
		// One call tells what the records say of tagged addresses, and finds those that they do not name: a record may be
		// an older one, which a user put back.
		ips, err := src.addressesTagged(ctx, t.Service.UID)
		if err != nil {
			return nil, fmt.Errorf("look for addresses tagged for %s: %w", t.Service.Key(), err)
		}
		out.add(ips, t.Service.StatusIPs)
	}
	if want := t.wanted.Address; want != "" && !t.wanted.Internal && !slices.ContainsFunc(out, func(s seed) bool { return s.IP == want }) {
		ips, err := src.addressesAt(ctx, want)
		if err != nil {
			return nil, fmt.Errorf("look for address %s: %w", want, err)
		}
		out.add(ips, t.Service.StatusIPs)
	}
	return out, nil
}

func (r *Reconciler) unrecorded(ctx context.Context, t *task, src *source, prove bool, out *seedList) error {
	rules, err := src.rulesNamed(ctx, t.Service.LB)
	if t.wanted.Absent && t.records.Empty() && t.nowhere(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for rules of %s: %w", t.Service.LB, err)
	}
	for i := range rules {
		// The keyword also matches parts of names and descriptions.
		if _, _, _, own := parseOwnRuleName(t.Service.LB, rules[i].Name); own {
			out.at(rules[i].PublicIPID).IP = rules[i].PublicIP
		}
	}
	if id := t.Spec.PredecessorAddress; id != "" {
		ips, err := src.address(ctx, id)
		if err != nil {
			return fmt.Errorf("read address %s: %w", id, err)
		}
		out.add(ips, t.Service.StatusIPs)
	}
	if t.wanted.Internal {
		return nil // the status shows an address of a tier
	}
	for _, ip := range t.Service.StatusIPs {
		ips, err := src.addressesAt(ctx, ip)
		if err != nil {
			return fmt.Errorf("look for address %s: %w", ip, err)
		}
		out.add(ips, t.Service.StatusIPs)
	}
	if prove || len(t.Service.StatusIPs) > 0 || t.Service.Seen && !t.mem.known {
		ips, err := src.addressesTagged(ctx, t.Service.UID)
		if err != nil {
			return fmt.Errorf("look for addresses tagged for %s: %w", t.Service.Key(), err)
		}
		out.add(ips, t.Service.StatusIPs)
	}
	return nil
}
