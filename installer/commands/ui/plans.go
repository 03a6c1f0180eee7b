// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/installer/plan"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

const (
	// replanAfter is how old the plan of a Service may be for which nothing seems to have changed: members of rules,
	// firewall rules and what else no whole list shows. A refresh makes replanMost of these again, the oldest first.
	replanAfter = 2 * time.Minute
	replanMost  = 20
	// replanBusy is the same for a Service for which something is planned: lists do not show the end of the work either.
	replanBusy = 10 * time.Second
)

// plans are the plans of all Services, by namespace/name. A plan costs calls beyond the whole lists, for the members of each
// rule: it is made again when what it was made from has changed, while something is planned, and after some minutes.
type plans map[string]planned

// planned is a plan.
type planned struct {
	*plan.Service
	from uint64 // a digest of what it was made from
	at   time.Time
}

// make plans what is due and adds all plans to the facts, with the members of rules that they have read. The error is that of
// CloudStack: it is nil if one of the plans could be made.
func (p *plans) make(ctx context.Context, round *service.Round, settings plan.Settings, f *picture.Facts) error {
	nodes := make([]*corev1.Node, len(f.Nodes))
	for i := range f.Nodes {
		nodes[i] = &f.Nodes[i]
	}
	digestOf, next := digests(f), plans{}
	key := func(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }
	var due, old []*corev1.Service
	for i := range f.Services {
		svc := &f.Services[i]
		if !service.Handles(svc) {
			continue
		}
		last, known := (*p)[key(svc)]
		next[key(svc)] = last
		limit := replanAfter
		if known && len(last.Actions)+last.Pending > 0 {
			limit = replanBusy
		}
		switch {
		case !known || last.Error != "" || last.from != digestOf(svc):
			due = append(due, svc)
		case f.At.Sub(last.at) >= limit:
			old = append(old, svc)
		}
	}
	slices.SortStableFunc(old, func(a, b *corev1.Service) int { return next[key(a)].at.Compare(next[key(b)].at) })
	due = append(due, old[:min(len(old), replanMost)]...)
	made, err := plan.Of(ctx, round, settings, due, nodes)
	if err != nil {
		return err
	}
	for i, svc := range due {
		now := planned{made.Services[i], digestOf(svc), f.At}
		if last := next[key(svc)]; now.Error != "" && last.Service != nil && last.Error == "" { // what was known stays, and is asked for again
			now.Service, now.from = last.Service, 0
		}
		next[key(svc)] = now
	}
	*p, f.Plans = next, []*plan.Service{}
	for i := range f.Services {
		if now, handled := next[key(&f.Services[i])]; handled {
			f.Plans = append(f.Plans, now.Service)
			f.LearnMembers(now.Service)
		}
	}
	if len(due) > 0 && made.Summary.Failed == len(due) {
		return made.Cause()
	}
	return nil
}

// digests returns a function that digests what the plan of a Service is made from: the Service, the nodes and their VMs, and
// all that lists have on its addresses, which are those of its status, of its tags and of its rules.
func digests(f *picture.Facts) func(*corev1.Service) uint64 {
	var machines []any
	for i := range f.Nodes {
		n := &f.Nodes[i]
		machines = append(machines, n.Name, n.Spec.ProviderID, n.Labels, n.Spec.Taints, n.DeletionTimestamp != nil)
	}
	for _, vm := range f.VMs.All() {
		machines = append(machines, vm.ID, vm.State, vm.NICs)
	}
	shared := digest(machines...)
	on, addresses := map[string][]string{}, map[string][]string{} // by the id of the address; by what a Service is known by
	for i := range f.Addresses {
		a := &f.Addresses[i]
		on[a.ID] = append(on[a.ID], fmt.Sprint(*a))
		addresses[a.Address] = append(addresses[a.Address], a.ID)
		addresses[a.Tags[lbplan.TagServiceUID]] = append(addresses[a.Tags[lbplan.TagServiceUID]], a.ID)
	}
	for i := range f.Rules {
		r := &f.Rules[i]
		on[r.PublicIPID] = append(on[r.PublicIPID], fmt.Sprint(*r))
		lb, _, _ := strings.Cut(r.Name, "-")
		addresses[lb] = append(addresses[lb], r.PublicIPID)
	}
	for i := range f.Forwards {
		id := f.Forwards[i].PublicIPID
		on[id] = append(on[id], fmt.Sprint(f.Forwards[i]))
	}
	return func(svc *corev1.Service) uint64 {
		ids := slices.Concat(addresses[string(svc.UID)], addresses[lbplan.LBName(string(svc.UID))])
		for _, in := range svc.Status.LoadBalancer.Ingress {
			ids = append(ids, addresses[in.IP]...)
		}
		slices.Sort(ids)
		var found []string
		for _, id := range slices.Compact(ids) {
			found = append(found, on[id]...)
		}
		slices.Sort(found)
		return digest(shared, svc.UID, svc.ResourceVersion, found)
	}
}

func digest(parts ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, parts...) // never fails
	return h.Sum64()
}
