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

	"github.com/csccm/csccm/installer/commands/plan"
	"github.com/csccm/csccm/installer/commands/ui/picture"
	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider"
)

// plans are the plans of all Services. A plan costs calls beyond the whole lists, for the members of each rule: it is
// made again when the Service, the nodes, or what CloudStack has for the Service differ from the last time, and after
// some minutes.
type plans struct {
	byName map[string]*planned
}

type planned struct {
	state uint64 // of what the plan was made from
	at    time.Time
	plan  *plan.Service
}

// make plans what is due and adds all plans to the facts, with the members of rules that they have read.
func (p *plans) make(ctx context.Context, round provider.Round, settings plan.Settings, f *picture.Facts) error {
	nodes := make([]*corev1.Node, len(f.Nodes))
	for i := range f.Nodes {
		nodes[i] = &f.Nodes[i]
	}
	shared := nodesState(f)
	cloud := cloudState(f)
	known := map[string]*planned{}
	var due, old []*corev1.Service
	for _, svc := range handled(f.Services) {
		name := svc.Namespace + "/" + svc.Name
		state := digest(fmt.Sprint(shared), svc.ResourceVersion, string(svc.UID), cloud(svc))
		last := p.byName[name]
		switch {
		case last == nil || last.state != state || last.plan.Error != "":
			due = append(due, svc)
			last = &planned{state: state}
		case f.At.Sub(last.at) >= replanAfter:
			old = append(old, svc)
		}
		known[name] = last
	}
	of := func(svc *corev1.Service) *planned { return known[svc.Namespace+"/"+svc.Name] }
	slices.SortStableFunc(old, func(a, b *corev1.Service) int { return of(a).at.Compare(of(b).at) })
	due = append(due, old[:min(len(old), replanMost)]...)
	made, err := plan.Of(ctx, round, settings, due, nodes)
	if err != nil {
		return err
	}
	for i, svc := range due {
		of(svc).plan, of(svc).at = made.Services[i], f.At
	}
	p.byName = known
	for _, svc := range handled(f.Services) {
		f.Plans = append(f.Plans, of(svc).plan)
		f.LearnMembers(of(svc).plan)
	}
	return nil
}

// nodesState is a digest of what plans use of the nodes and their VMs.
func nodesState(f *picture.Facts) uint64 {
	var parts []string
	for i := range f.Nodes {
		n := &f.Nodes[i]
		parts = append(parts, n.Name, n.Spec.ProviderID, fmt.Sprint(n.Labels, n.Spec.Taints, n.DeletionTimestamp != nil))
	}
	for _, vm := range f.VMs.All() {
		parts = append(parts, vm.ID, string(vm.State))
		for _, nic := range vm.NICs {
			parts = append(parts, nic.NetworkID, nic.IPv4, nic.IPv6)
		}
	}
	return digest(parts...)
}

// cloudState returns a function that describes what the lists have of a Service: its rules, and the addresses of these,
// of its status and of its tags with all that others have there.
func cloudState(f *picture.Facts) func(*corev1.Service) string {
	ruleText := func(r *cloudstack.LoadBalancerRule) string {
		return fmt.Sprint(r.ID, r.Name, r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm, r.CIDRs, r.State, r.Tags)
	}
	onAddress, named := map[string][]string{}, map[string][]string{}
	for i := range f.Rules {
		r := &f.Rules[i]
		onAddress[r.PublicIPID] = append(onAddress[r.PublicIPID], ruleText(r))
		lb, _, _ := strings.Cut(r.Name, "-")
		named[lb] = append(named[lb], r.PublicIPID)
	}
	for i := range f.Forwards {
		w := &f.Forwards[i]
		onAddress[w.PublicIPID] = append(onAddress[w.PublicIPID], fmt.Sprint(*w))
	}
	byIP, byUID := map[string]*cloudstack.PublicIP{}, map[string][]*cloudstack.PublicIP{}
	byID := map[string]*cloudstack.PublicIP{}
	for i := range f.Addresses {
		a := &f.Addresses[i]
		byIP[a.Address], byID[a.ID] = a, a
		if uid := a.Tags[lbplan.TagServiceUID]; uid != "" {
			byUID[uid] = append(byUID[uid], a)
		}
	}
	return func(svc *corev1.Service) string {
		seen := map[string]bool{}
		var parts []string
		add := func(a *cloudstack.PublicIP) {
			if a == nil || seen[a.ID] {
				return
			}
			seen[a.ID] = true
			parts = append(parts, fmt.Sprint(*a))
			parts = append(parts, onAddress[a.ID]...)
		}
		for _, in := range svc.Status.LoadBalancer.Ingress {
			add(byIP[in.IP])
		}
		for _, a := range byUID[string(svc.UID)] {
			add(a)
		}
		for _, id := range named[lbplan.LBName(string(svc.UID))] {
			add(byID[id])
		}
		slices.Sort(parts)
		return strings.Join(parts, "\n")
	}
}

func digest(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}
