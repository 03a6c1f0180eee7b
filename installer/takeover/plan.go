// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover puts csccm's controller in the place of another provider
// for CloudStack: Apache's (by its manifest, also as CloudStack Kubernetes
// Service deploys it), Leaseweb's fork (by its chart), and what the provider
// inside old Kubernetes versions left.
//
//	Detect              cluster, CloudStack -> Facts; reads only
//	MakePlan, PlanUndo  Facts -> Plan: what would differ, Service by Service, and what can be pinned; or the way back
//	Before, After, Back Plan -> steps before the chart and after its Pods run; steps back to the old workload, which stays with no Pods
//
// Two controllers never act at once. Where the old one elects a leader on the
// lease that ours uses, ours is started first and stands by; csccm then holds
// the lease itself while it stops the old one and renames rules, and lets ours
// have it. Where the old one elects none, it is stopped before ours starts.
package takeover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/addresses"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
)

// Options are what the operator says of a takeover.
type Options struct {
	// Accept and Pin name Services (namespace/name, or All) whose changes are agreed to, or prevented by an annotation.
	// Pin wins.
	Accept, Pin []string
	ClusterID   string // as the chart will be told; "" = as the controller chooses it
	// Adopt is "yes" or "no": whether addresses that the old controller acquired are marked as csccm's, which releases
	// them with their Services. Empty asks; it is yes where nobody can be asked.
	Adopt string
	Undo  bool // go back to the old controller by what the takeover kept on the Services and on the old workload
}

// Taker plans a takeover or its undo, and carries it out.
type Taker struct {
	*engine.Env
	Options
	Cloud *access.Cloud // with the controller's credentials
	Plan  *Plan
}

// Order says which controller is started or stopped first; "" where there is no other controller.
type Order string

// Orders.
const (
	OursFirst Order = "ours-first" // ours stands by on the lease that the old one holds
	OldFirst  Order = "old-first"  // the old one elects no leader, or on another lease
)

// Plan is what a takeover or its undo would do. It holds no secret.
type Plan struct {
	Undo         bool
	Predecessors []family.Predecessor // which end, or with Undo start again
	Own          family.Own           // whose lease is held while no controller acts
	Order        Order
	Why          string            // of the order
	Values       map[string]string // of the chart, that keep what new nodes would otherwise get differently
	Services     []ServicePlan
	Steps        []rules.Step           // renames, also back
	Addresses    []addresses.Item       // of Services, that csccm's controller does not release with them yet
	Adopted      []*cloudstack.PublicIP // with Undo: addresses that the takeover marked as csccm's
	Warnings     []string
	Problem      error // keeps it from happening

	project    string   // id of the rules' project
	clusterIDs []string // of csccm's controller
}

// AddTo adds the plan to that of a command.
func (p *Plan) AddTo(out *engine.Plan) {
	part := "Stop"
	if p.Undo {
		part = "Start"
		for _, workload := range p.Own.Workloads {
			out.Add("End", workload.String(), &workload)
		}
	}

	for _, old := range p.Predecessors {
		out.Add(part, fmt.Sprintf("%s (%s, image %s), %d wanted", &old, old.Family, old.Image, old.Wanted), &old)
	}

	if p.Order != "" {
		out.Add("Order", p.Why, p.Order)
	}

	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		out.Add("Value", name+"="+p.Values[name]+" keeps the form that the nodes have", nil)
	}

	for _, s := range p.Services {
		text := fmt.Sprintf("%s, address %s, %s: %s", s.Service, cmp.Or(s.Address, "none"),
			report.Count(len(s.Rules), "rule"), report.Count(len(s.Changes), "change"))
		if p.Undo { // of the rules only those that get another name are known
			text = s.Service + ": " + report.Count(len(s.Changes), "change")
		}
		if len(s.needs(s.Pinned)) > 0 {
			text += ", need consent"
		}
		var lines []string
		for _, d := range s.Differences {
			if d.Pin != nil {
				d.Text += fmt.Sprintf(" (--pin keeps it: %s=%q)", d.Pin.Annotation, d.Pin.Value)
			}
			lines = append(lines, "! "+d.Text)
		}
		out.Add("Service", text, &s, append(lines, s.Changes...)...)
	}

	p.addAddresses(out)
	out.Warnings = append(out.Warnings, p.Warnings...)
}

// addAddresses says which addresses are released with their Services from now on, and which are not.
func (p *Plan) addAddresses(out *engine.Plan) {
	for _, it := range p.Addresses {
		text := it.String() + " stays allocated when the Service is deleted: "
		switch {
		case it.Verdict == addresses.Refused:
			text += it.Why
		case it.Doubt != "":
			text += it.Doubt + "; csccm adopt " + it.Service + " has it released"
		default:
			text = it.String() +
				", which the old controller acquired, is released with the Service from now on (--adopt-addresses " +
				"no leaves it)"
		}
		out.Add("Address", text, &it)
	}

	for _, a := range p.Adopted {
		out.Add("Address",
			fmt.Sprintf("address %s of Service %s is marked as csccm's no more", a.Address, a.Tags[plan.TagService]),
			a.Address)
	}
}

// adopting returns the Services whose addresses only the old controller can have acquired.
func (p *Plan) adopting() (services []string) {
	for _, it := range p.Addresses {
		if it.Undoubted() {
			services = append(services, it.Service)
		}
	}
	return services
}

// ServicePlan is one Service of type LoadBalancer.
type ServicePlan struct {
	Service     string       `json:"service"` // namespace/name
	Address     string       `json:"address,omitempty"`
	Rules       []string     `json:"rules,omitempty"` // ids of the current ones
	Differences []Difference `json:"differences,omitempty"`
	// all that is made, changed or deleted for the Service, in this order
	Changes []string `json:"changes"`
	Pinned  bool     `json:"pinned,omitempty"` // annotations keep what is there, where they can

	back map[string]*string // annotations that an undo writes; nil removes one
}

// needs returns the differences that need consent, with pins without those that an annotation prevents.
func (s *ServicePlan) needs(pinned bool) (texts []string) {
	for _, d := range s.Differences {
		if d.Consent && (d.Pin == nil || !pinned) {
			texts = append(texts, d.Text)
		}
	}
	return texts
}

// pins are the annotations that keep what they can of the current state.
func (s *ServicePlan) pins() map[string]string {
	out := map[string]string{}
	for _, difference := range s.Differences {
		if pin := difference.Pin; pin != nil {
			out[pin.Annotation] = pin.Value
		}
	}
	return out
}

// undecided returns the Services that need consent and have neither been accepted nor pinned, and what would change of
// them.
func (p *Plan) undecided(o Options) (names, changes []string) {
	for _, s := range p.Services {
		texts := s.needs(Named(o.Pin, s.Service))
		if len(texts) == 0 || Named(o.Accept, s.Service) {
			continue
		}
		names = append(names, s.Service)
		for _, text := range texts {
			changes = append(changes, s.Service+": "+text)
		}
	}
	return names, changes
}

// All in a list of Services stands for every one.
const All = "all"

// Named reports whether a list of Services names one.
func Named(list []string, service string) bool {
	return slices.Contains(list, All) || slices.Contains(list, service)
}

// Facts is what a plan rests on.
type Facts struct {
	*family.Controllers
	*rules.Facts
	Cloud *addresses.Facts
}

// Detect reads what a plan rests on. It changes nothing. Errors of the API server are as it sent them.
func (t *Taker) Detect(ctx context.Context) (f *Facts, err error) {
	f = &Facts{}
	if f.Controllers, err = family.Find(ctx, t.Cluster.Kube, t.Clock, t.Release, t.Cluster.Namespace); err == nil {
		f.Facts, err = rules.Read(ctx, t.Cluster.Kube, t.Cloud)
	}
	if err == nil {
		f.Cloud, err = addresses.Read(ctx, t.Cloud.Client, f.Project)
	}
	return f, err
}

// MakePlan decides by the facts, and by what the controller would do. It changes nothing.
func (t *Taker) MakePlan(ctx context.Context, f *Facts) error {
	p := PlanOrder(f.Controllers)
	p.Values, p.project = values(f), f.Project
	c, err := t.comparison(ctx, f)
	if err != nil {
		return err
	}
	p.Steps, p.clusterIDs = c.rules.Steps, append([]string{c.clusterID}, t.Cloud.Config.FormerClusterIDs...)
	p.Addresses = p.openAddresses(f.Cloud, f.Services, &c.rules)
	for _, svc := range check.Balanced(f.Services, f.Own.Words) {
		s, err := c.service(ctx, svc, Named(t.Pin, svc.Namespace+"/"+svc.Name))
		if err != nil {
			return fmt.Errorf("plan Service %s: %w", s.Service, err)
		}
		p.Services = append(p.Services, s)
	}
	t.Plan = p
	return nil
}

// openAddresses decides about the addresses of the Services, whose rules will have their names.
func (p *Plan) openAddresses(cloud *addresses.Facts, services []corev1.Service, names *rules.Plan) []addresses.Item {
	f := &addresses.Facts{
		ClusterIDs: p.clusterIDs,
		Services:   services,
		Addresses:  cloud.Addresses,
		Rules:      renamedRules(cloud.Rules, names),
		Forwards:   cloud.Forwards,
	}
	return slices.DeleteFunc(addresses.MakePlan(f, check.Balanced(services, p.Own.Words), true),
		func(it addresses.Item) bool {
			return it.Address == "" || it.Verdict == addresses.Done
		})
}

// PlanOrder decides who is started or stopped first, and what keeps it from happening. It is pure.
func PlanOrder(c *family.Controllers) *Plan {
	const oldFirst = "the old controller ends before csccm's starts: "
	p := &Plan{Predecessors: c.Predecessors, Own: c.Own}
	for _, old := range p.Predecessors {
		switch {
		case p.Order == OldFirst:
		case old.Wanted == 0:
			if p.Order == "" {
				p.Order, p.Why = OldFirst, oldFirst+old.String()+" is stopped already"
			}
		case old.Lease == nil:
			p.Order, p.Why = OldFirst, oldFirst+old.String()+" elects no leader"
		case *old.Lease != p.Own.Lease:
			p.Order, p.Why = OldFirst, fmt.Sprintf("%s%s holds lease %s, csccm's would hold %s", oldFirst, &old,
				old.Lease, p.Own.Lease)
		case old.Port != "" && old.Port == p.Own.Port && p.Own.Ready == 0:
			p.Order, p.Why = OldFirst, fmt.Sprintf("%sboth listen on port %s of the node (chart value securePort)",
				oldFirst, old.Port)
		default:
			p.Order, p.Why = OursFirst, fmt.Sprintf("csccm's controller starts before the old one ends: both "+
				"use lease %s", old.Lease)
		}
	}

	for _, r := range c.Rivals {
		switch {
		case r.Family.Replaceable(): // a predecessor
		case r.Family == family.Balancer:
			p.Warnings = append(p.Warnings, r.String())
		case p.Problem == nil:
			p.Problem = report.Refused(r.Fix,
				"a cloud controller manager that csccm does not know, or cannot replace, is at work: %s", &r)
		}
	}

	return p
}

// values keeps the forms that the cluster's nodes carry: jobs and volumes are bound to their labels, and
// Cluster API finds its machines by provider ID.
func values(f *Facts) map[string]string {
	count := map[string]int{}
	for _, n := range f.Nodes {
		scheme, _, _ := strings.Cut(n.Spec.ProviderID, ":")
		count[scheme]++
		vm, err := node.Match(f.VMs, &n)
		if err != nil {
			continue
		}
		short := node.InstanceTypeLabel(node.LabelUpstream, vm.ServiceOfferingName)
		long := node.InstanceTypeLabel(node.LabelKeepSeparators, vm.ServiceOfferingName)
		switch label := n.Labels[corev1.LabelInstanceTypeStable]; {
		case short == long:
		case label == short:
			count["short"]++
		case label == long:
			count["long"]++
		}
	}

	out := map[string]string{}
	if count["short"] > count["long"] {
		out["instanceTypeFormat"] = string(node.LabelUpstream)
	}

	if count["cloudstack"] > count["external-cloudstack"] {
		out["providerIDFormat"] = "cloudstack"
	}

	return out
}

// PlanUndo plans the way back from a takeover by what Detect found, which includes what the takeover kept on Services
// and workloads. It is pure.
func PlanUndo(f *Facts) *Plan {
	p := &Plan{Undo: true, Own: f.Own, project: f.Project}
	for _, svc := range f.Services {
		if was, recorded := rules.RecordOf(&svc, BeforeAnnotation); recorded {
			p.Services = append(p.Services, p.service(&svc, was, f.Rules))
		}
	}
	p.predecessors(f)
	p.adopted(f)
	for _, own := range p.Own.Workloads {
		if !own.Helm {
			p.Problem = report.Refused("take csccm's chart out of what applies it, delete "+own.String()+
				", then run the command again",
				"%s is of no Helm release: what applied it would start it again beside the old controller", &own)
		}
	}
	return p
}

// pinnable are the annotations that a takeover sets.
var pinnable = []string{annotation.ProxyProtocol, annotation.Algorithm, annotation.SourceCIDRs, annotation.Mode}

// service plans for one Service the rules that still have the names that the takeover gave them, and the annotations
// that it set.
func (p *Plan) service(svc *corev1.Service, was rules.Record, now []cloudstack.LoadBalancerRule) ServicePlan {
	s := ServicePlan{Service: svc.Namespace + "/" + svc.Name, back: map[string]*string{BeforeAnnotation: nil}}
	steps, stays := rules.Undo(svc, was.Rules, now)
	for _, step := range steps {
		s.Rules, s.Address, s.Changes = append(s.Rules, step.RuleID), step.PublicIP, append(s.Changes, changeOf(&step))
	}

	p.Steps = append(p.Steps, steps...)
	for _, name := range slices.Sorted(maps.Keys(was.Annotations)) {
		c := was.Annotations[name]
		value, set := svc.Annotations[name]
		switch {
		case !slices.Contains(pinnable, name): // nothing of ours: whoever may write the Service may have recorded it
		case set == (c.Was != nil) && (!set || value == *c.Was): // back already
		case set && value == c.Set && c.Was == nil:
			s.back[name], s.Changes = nil, append(s.Changes, "- remove annotation "+name+" from the Service")
		case set && value == c.Set:
			s.back[name], s.Changes = c.Was, append(s.Changes,
				fmt.Sprintf("~ set annotation %s=%q on the Service", name, *c.Was))
		default:
			stays = append(stays, fmt.Sprintf("somebody changed annotation %s since; it stays", name))
		}
	}

	for _, text := range stays {
		p.Warnings = append(p.Warnings, s.Service+": "+text)
	}

	return s
}

// predecessors are the controllers that a takeover stopped.
func (p *Plan) predecessors(f *Facts) {
	for _, old := range slices.Concat(f.Predecessors, f.Kept) {
		switch {
		case old.Wanted > 0 && (len(p.Own.Workloads) > 0 || len(p.Steps) > 0):
			p.Problem = report.Refused("stop it first, as the takeover did (docs/migrate.md#back), then run the "+
				"command again",
				"%s runs already, before csccm's controller has ended and the rules have its names", &old)
		case old.Wanted+old.Before > 0: // stopped, or started by an undo that ended early
			if old.Wanted = max(old.Wanted, old.Before); len(p.Own.Workloads) == 0 && old.Lease != nil {
				p.Own.Lease = *old.Lease
			}
			p.Predecessors = append(p.Predecessors, old)
		}
	}
	if len(p.Predecessors) == 0 && p.Problem == nil && p.needed() {
		p.Problem = report.Refused(fmt.Sprintf(`apply the old controller's manifest again with no Pods (replicas: 0, and annotation %s: "1"), then run the command again`, family.ReplicasAnnotation),
			"no controller that a takeover stopped is in the cluster: it was deleted, or there was none")
	}
}

// adopted finds the addresses that the takeover marked, and that nobody has marked otherwise since.
func (p *Plan) adopted(f *Facts) {
	var ids []string
	for _, predecessor := range p.Predecessors {
		ids = append(ids, predecessor.Adopted...)
	}
	for _, a := range f.Cloud.Addresses {
		marked := slices.ContainsFunc(f.Services, func(s corev1.Service) bool { return addresses.Marked(&a, &s) })
		if marked && slices.Contains(ids, a.ID) {
			p.Adopted = append(p.Adopted, &a)
		}
	}
}

// needed reports whether anything is left to do.
func (p *Plan) needed() bool {
	if p.Undo {
		stopped := func(old family.Predecessor) bool { return old.Ready == 0 }
		return len(p.Own.Workloads)+len(p.Services) > 0 || slices.ContainsFunc(p.Predecessors, stopped)
	}
	return p.Order != ""
}
