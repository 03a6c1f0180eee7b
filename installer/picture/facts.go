// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package picture turns what was read of a cluster and of its CloudStack into what the page of `csccm ui` shows. It is
// pure: equal facts give equal snapshots.
package picture

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/terminal"
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

	Cloud

	Checks []check.Result
	// Findings are the last results of the checks that are known, for the colours of objects: a check that cannot be made now
	// takes nothing back. Nil for Checks.
	Findings []check.Result
	Kubelets []kubelet.NodeVerdict
	Missing  []model.Missing
	Next     map[string]time.Time // when the controller tries a Service again, by namespace/name
	// Sources are Kubernetes and CloudStack, with how reading them goes; Pods are the controller's.
	Sources []model.Source
	Pods    []corev1.Pod

	// Clean removes secrets from text; nil for none.
	Clean func(string) string
}

// Cloud is what CloudStack has, with the plans that were made from it.
type Cloud struct {
	VMs       *inventory.VMSnapshot
	Networks  []cloudstack.Network
	Addresses []cloudstack.PublicIP
	Rules     []cloudstack.LoadBalancerRule
	Forwards  []cloudstack.PortForwarding
	Orphans   []observe.Orphan
	// Members are the ids of the VMs behind a rule, by the rule's id.
	Members map[string][]string
	// Quota is how many public addresses the account has and may have; nil where that is unknown, or there is no limit.
	Quota *cloudapi.Usage
	Plans []*plan.Service
}

// OfInspection are the facts of a run of doctor.
func OfInspection(f *check.Facts, r *check.Report) Facts {
	out := Facts{
		At: f.At, Title: Title(r.Cluster.Context), Services: f.Services, Nodes: f.Nodes, Events: f.Events, Leases: f.Leases,
		Cloud:  Cloud{VMs: f.VMs, Networks: f.Networks, Addresses: f.Addresses, Rules: f.AllRules, Forwards: f.Forwards, Members: f.Members()},
		Checks: r.Checks, Kubelets: f.Kubelets, Pods: f.Pods, Next: decide.NextTries(f.Logs),
	}
	for _, name := range slices.Sorted(maps.Keys(f.Planned)) {
		out.Plans = append(out.Plans, f.Planned[name])
	}
	missing := func(part, what string) {
		out.Missing = append(out.Missing, model.Missing{Part: part, Reason: what + " could not be read", Remedy: "see the checks"})
	}
	for _, part := range []decide.Source{decide.Nodes, decide.Services, decide.VMs} {
		if f.Err(part) != nil {
			missing("objects", string(part))
		}
	}
	if f.Planned == nil {
		missing("plans", "what the controller would do")
	}
	out.Missing = append(out.Missing, model.Missing{Part: "calls", Reason: "a rate needs two moments", Remedy: "csccm ui"})
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
	b.planned()
	b.nodes()
	b.machines()
	out := model.Snapshot{
		SchemaVersion: model.SchemaVersion, At: f.At, Title: f.Title, Plans: b.plans(), Checks: b.checks(), Nodes: b.compared,
		Timeline: b.timeline(), Missing: slices.Clone(f.Missing), Sources: slices.Clone(f.Sources), Controller: Controller(f.Pods, f.Leases),
		Views: []string{"checks", "plan", "timeline", "nodes"},
	}
	for _, id := range b.order {
		out.Objects = append(out.Objects, *b.objects[id])
	}
	for _, l := range b.links {
		if b.objects[l.From] != nil && (b.objects[l.To] != nil || strings.HasPrefix(l.To, model.GroupID(model.KindNode, ""))) {
			out.Links = append(out.Links, l)
		}
	}
	clean(reflect.ValueOf(&out), func(text string) string {
		if f.Clean != nil {
			text = f.Clean(text) // removes secrets
		}
		return terminal.Line(text) // a browser, too, obeys marks of direction
	})
	return out.Sorted()
}

// ids are the fields that hold IDs. They are not texts: they are made of ids and of names of objects of Kubernetes.
var ids = []string{"ID", "From", "To", "Service", "Object"}

// clean changes all texts of a part of a snapshot.
func clean(v reflect.Value, text func(string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			clean(v.Elem(), text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			clean(v.Index(i), text)
		}
	case reflect.Struct:
		switch part := v.Addr().Interface().(type) {
		case *time.Time:
		case *model.Fact:
			*part = cleanFact(*part, text)
		default:
			for i := range v.NumField() {
				if !slices.Contains(ids, v.Type().Field(i).Name) {
					clean(v.Field(i), text)
				}
			}
		}
	case reflect.String:
		if is := text(v.String()); is != v.String() { // some texts are shared by snapshots
			v.SetString(is)
		}
	default:
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
func (f *Facts) LearnMembers(p *plan.Service) { maps.Copy(f.Members, decide.MembersOf(p.Actual)) }
