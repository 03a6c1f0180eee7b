// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/model"
)

// plans are the plans of all Services. A plan costs calls beyond the whole lists, for the members of each rule: it is
// made again when the Service, the nodes, or what CloudStack has for the Service differ from the last time, while
// something is planned, and after some minutes.
type plans struct {
	byName map[string]*planned
	drifts []model.Entry // drift that the plans have shown, and its repair
}

// planned is a plan with what it was made from.
type planned struct {
	asked   uint64 // the Service and the nodes
	wanted  uint64 // the same without what controllers write on the Service
	found   uint64 // what CloudStack's lists have
	at      time.Time
	plan    *plan.Service
	drifted bool // others have changed what the plan brings back
}

// maxDrifts is how many entries about drift are kept.
const maxDrifts = 50

// make plans what is due and adds all plans to the facts, with the members of rules that they have read.
func (p *plans) make(ctx context.Context, round *service.Round, settings plan.Settings, f *picture.Facts) error {
	nodes := make([]*corev1.Node, len(f.Nodes))
	for i := range f.Nodes {
		nodes[i] = &f.Nodes[i]
	}
	shared := fmt.Sprint(nodesState(f))
	cloud := cloudState(f)
	known := map[string]*planned{}
	key := func(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }
	var due, old []*corev1.Service
	for _, svc := range handled(f.Services) {
		name := key(svc)
		now := planned{asked: digest(shared, svc.ResourceVersion, string(svc.UID)), found: digest(cloud(svc)), at: f.At}
		now.wanted = digest(shared, annotation.Fingerprint(svc))
		last := p.byName[name]
		switch {
		case last == nil || last.asked != now.asked || last.found != now.found || last.plan.Error != "":
			due = append(due, svc)
		case f.At.Sub(last.at) >= replanAfter, last.busy() && f.At.Sub(last.at) >= replanBusy:
			old = append(old, svc)
		default:
			now = *last
		}
		known[name] = &now
	}
	slices.SortStableFunc(old, func(a, b *corev1.Service) int { return p.byName[key(a)].at.Compare(p.byName[key(b)].at) })
	for _, svc := range old[min(len(old), replanMost):] {
		known[key(svc)] = p.byName[key(svc)]
	}
	due = append(due, old[:min(len(old), replanMost)]...)
	made, err := plan.Of(ctx, round, settings, due, nodes)
	if err != nil {
		return err
	}
	failed := 0
	for i, svc := range due {
		now, last := known[key(svc)], p.byName[key(svc)]
		now.plan = made.Services[i]
		p.compare(last, now)
		if now.plan.Error != "" {
			err = errors.New(now.plan.Error)
			failed++
			if last != nil && last.plan.Error == "" { // what was known stays, and is asked for again
				now.plan, now.asked, now.found = last.plan, 0, last.found
			}
		}
	}
	if failed < len(due) {
		err = nil // CloudStack answers: the error is about the Service
	}
	p.byName = known
	for _, svc := range handled(f.Services) {
		f.Plans = append(f.Plans, known[key(svc)].plan)
		f.LearnMembers(known[key(svc)].plan)
	}
	return err
}

// busy reports whether something is planned, which the controller is probably about to do.
func (p *planned) busy() bool { return len(p.plan.Actions) > 0 || p.plan.Pending > 0 }

// settled reports whether the Service is served, as far as is known.
func (p *planned) settled() bool { return p.plan.Error == "" && p.plan.Refusal == nil && !p.busy() }

// compare notes drift: something is to be done for a Service for which nothing was, and neither what it asks for nor a node has
// changed since, but CloudStack has. The controller tells of what it repairs in an Event, but nobody does while no replica
// leads, and the next leader takes for unfinished work what others have undone before its time.
func (p *plans) compare(last, now *planned) {
	if last == nil {
		return
	}
	now.drifted = last.drifted
	switch {
	case now.plan.Error != "": // nothing is known
	case last.drifted && now.settled():
		now.drifted = false
		p.drifts = append(p.drifts, picture.Repaired(now.plan, now.at))
	case !last.drifted && last.settled() && last.wanted == now.wanted && last.found != now.found && len(now.plan.Actions) > 0:
		now.drifted = true
		p.drifts = append(p.drifts, picture.Drifted(now.plan, now.at))
	}
	p.drifts = p.drifts[max(0, len(p.drifts)-maxDrifts):]
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
