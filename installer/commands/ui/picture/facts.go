// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package picture turns what was read of a cluster and of its CloudStack into what the page of `csccm ui` shows. It is
// pure: equal facts give equal snapshots.
package picture

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/plan"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
)

// Facts are what a snapshot is made of. What was not read is zero; Missing says why.
type Facts struct {
	At    time.Time
	Title string
	// Options are the flags that csccm needs to see the same cluster, for the commands that are shown.
	Options string

	Services []corev1.Service
	Nodes    []corev1.Node
	Events   []corev1.Event
	Leases   []coordinationv1.Lease
	// Seen are changes of the leader and of what CloudStack has that were noticed since the page was opened.
	Seen []model.Entry

	VMs       *inventory.VMSnapshot
	Networks  []cloudstack.Network
	Addresses []cloudstack.PublicIP
	Rules     []cloudstack.LoadBalancerRule
	Forwards  []cloudstack.PortForwarding
	Orphans   []observe.Orphan
	// Members are the ids of the VMs behind a rule, by the rule's id.
	Members   map[string][]string
	ClusterID string

	Plans    []*plan.Service
	Checks   []check.Result
	Kubelets []kubelet.NodeVerdict
	Calls    []model.Calls
	Missing  []model.Missing

	// Clean removes secrets from text; nil for none.
	Clean func(string) string
}

// OfInspection are the facts of a run of doctor. Addresses are those of the rules, and plans are not among them.
func OfInspection(f *check.Facts, r *check.Report) Facts {
	out := Facts{
		At: f.At, Title: Title(r.Cluster.Context), Services: f.Services, Nodes: f.Nodes, Events: f.Events, Leases: f.Leases, VMs: f.VMs, Rules: f.Rules,
		Members: map[string][]string{}, Checks: r.Checks, Kubelets: f.Kubelets,
	}
	for rule, members := range f.Members {
		for i := range members {
			out.Members[rule] = append(out.Members[rule], members[i].VMID)
		}
	}
	known := map[string]bool{}
	for i := range f.Rules {
		if rule := &f.Rules[i]; !known[rule.PublicIPID] {
			known[rule.PublicIPID] = true
			out.Addresses = append(out.Addresses, cloudstack.PublicIP{ID: rule.PublicIPID, Address: rule.PublicIP, AssociatedNetworkID: rule.NetworkID})
		}
	}
	for _, part := range []struct{ fact, what string }{{check.FactNodes, "the nodes"}, {check.FactServices, "the Services"}, {check.FactVMs, "the VMs"}} {
		if !f.Has(part.fact) {
			out.Missing = append(out.Missing, model.Missing{Part: "objects", Reason: part.what + " could not be read", Remedy: "see the checks"})
		}
	}
	out.Missing = append(out.Missing,
		model.Missing{Part: "plans", Reason: "a run of the checks makes no plan", Remedy: "csccm plan"},
		model.Missing{Part: "calls", Reason: "a rate needs two moments", Remedy: "csccm ui"})
	return out
}

// Title is the heading of the page for a context of a kubeconfig.
func Title(context string) string {
	if context == "" {
		return "Cluster in CloudStack"
	}
	return "Cluster " + context + " in CloudStack"
}

// Of makes the snapshot.
func Of(f *Facts) model.Snapshot {
	b := newBuilder(f)
	b.services()
	b.addresses()
	b.rules()
	b.forwards()
	b.nodes()
	b.machines()
	out := model.Snapshot{
		SchemaVersion: model.SchemaVersion, At: f.At, Title: f.Title, Plans: b.plans(), Checks: b.checks(), Nodes: b.compared,
		Timeline: b.timeline(), Calls: f.Calls, Missing: slices.Clone(f.Missing),
	}
	for _, id := range b.order {
		out.Objects = append(out.Objects, *b.objects[id])
	}
	for _, l := range b.links {
		if b.objects[l.From] != nil && b.objects[l.To] != nil {
			out.Links = append(out.Links, l)
		}
	}
	if f.Clean != nil {
		clean(&out, f.Clean)
	}
	return out.Sorted()
}

// clean removes secrets from all texts. IDs are not texts: they are made of ids and of names of objects of Kubernetes.
func clean(s *model.Snapshot, text func(string) string) {
	all := func(list []string) {
		for i := range list {
			list[i] = text(list[i])
		}
	}
	each := func(list ...*string) {
		for _, t := range list {
			*t = text(*t)
		}
	}
	for i := range s.Objects {
		o := &s.Objects[i]
		each(&o.Name, &o.Group, &o.Label)
		all(o.Why)
		for j := range o.Facts {
			o.Facts[j] = cleanFact(o.Facts[j], text)
		}
	}
	for i := range s.Links {
		each(&s.Links[i].Label)
	}
	for i := range s.Plans {
		p := &s.Plans[i]
		each(&p.Refusal, &p.Remedy)
		for j := range p.Actions {
			each(&p.Actions[j].Label)
		}
	}
	for i := range s.Checks {
		c := &s.Checks[i]
		each(&c.Message, &c.Remedy)
		all(c.Objects)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		each(&n.Evidence, &n.ProviderID)
		all(n.Why)
	}
	for i := range s.Timeline {
		each(&s.Timeline[i].Reason, &s.Timeline[i].Message)
	}
	for i := range s.Missing {
		each(&s.Missing[i].Reason, &s.Missing[i].Remedy)
	}
}

// cleanFact judges a value together with its name: a word is a secret where its name says so.
func cleanFact(f model.Fact, text func(string) string) model.Fact {
	prefix := f.Name + ": "
	whole := text(prefix + f.Value)
	if len(whole) < len(prefix) || whole[:len(prefix)] != prefix {
		return model.Fact{Name: text(f.Name), Value: text(f.Value)}
	}
	return model.Fact{Name: f.Name, Value: whole[len(prefix):]}
}

// LearnMembers adds the members of rules that a plan has read.
func (f *Facts) LearnMembers(p *plan.Service) {
	if p.Actual == nil {
		return
	}
	for i := range p.Actual.Addresses {
		rules := p.Actual.Addresses[i].Rules
		for j := range rules {
			if rules[j].ID == "" || len(rules[j].Members) == 0 {
				continue // members of others' rules are not read
			}
			var members []string
			for _, m := range rules[j].Members {
				vm, _ := lbplan.SplitMember(m)
				members = append(members, vm)
			}
			f.Members[rules[j].ID] = members
		}
	}
}
