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
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Options are what the operator says of a takeover.
type Options struct {
	// Accept and Pin name Services (namespace/name, or All) whose changes are agreed to, or prevented by an annotation. Pin wins.
	Accept, Pin []string
	ClusterID   string // as the chart will be told; "" = as the controller chooses it
	Undo        bool   // go back to the old controller by what the takeover kept on the Services and on the old workload
}

// Taker plans a takeover or its undo, and carries it out.
type Taker struct {
	*engine.Env
	Options
	API    *cloudapi.Client
	Config *cloudstack.Config // of the controller
	Plan   *Plan
}

// Order says which controller is started or stopped first.
type Order string

// Orders.
const (
	OursFirst Order = "ours-first" // ours stands by on the lease that the old one holds
	OldFirst  Order = "old-first"  // the old one elects no leader, or on another lease
	Nothing   Order = "nothing"    // there is no other controller
)

// Problem keeps a takeover from happening.
type Problem struct {
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Plan is what a takeover or its undo would do, complete enough to be shown and agreed to. It holds no secret.
type Plan struct {
	SchemaVersion int                  `json:"schemaVersion"`
	Undo          bool                 `json:"undo,omitempty"`
	Predecessors  []family.Predecessor `json:"predecessors"` // which end, or with Undo start again
	Own           family.Own           `json:"own"`          // whose lease is held while no controller acts
	Order         Order                `json:"order,omitempty"`
	Why           string               `json:"why,omitempty"`    // of the order
	Values        map[string]string    `json:"values,omitempty"` // of the chart, that keep what new nodes would otherwise get differently
	Services      []ServicePlan        `json:"services"`
	Rules         rules.Plan           `json:"rules"` // renames, also back, and the deletion of surplus rules
	Problems      []Problem            `json:"problems,omitempty"`
	State         State                `json:"state,omitempty"` // of csccm takeover alone
	Next          string               `json:"next,omitempty"`  // command, of csccm takeover alone

	project string // id of the rules' project
}

// ServicePlan is one Service of type LoadBalancer.
type ServicePlan struct {
	Service     string       `json:"service"` // namespace/name
	Address     string       `json:"address,omitempty"`
	Rules       []string     `json:"rules,omitempty"` // ids of the current ones
	Differences []Difference `json:"differences,omitempty"`
	Changes     []Change     `json:"changes"`          // all that is made, changed or deleted for the Service, in this order
	Pinned      bool         `json:"pinned,omitempty"` // annotations keep what is there

	back map[string]*string // annotations that an undo writes; nil removes one
}

// needs returns the texts of the differences that need consent, and the annotations that keep what they can of the current state.
// pinnable is true when nothing that needs consent is left with them.
func (s *ServicePlan) needs() (texts []string, pins map[string]string, pinnable bool) {
	pins, pinnable = map[string]string{}, true
	for i := range s.Differences {
		d := &s.Differences[i]
		if !d.Consent {
			continue
		}
		texts = append(texts, d.Text)
		if d.Pin == nil {
			pinnable = false
		} else {
			pins[d.Pin.Annotation] = d.Pin.Value
		}
	}
	return texts, pins, pinnable
}

// undecided are the Services that need consent and have neither been accepted nor pinned.
func (p *Plan) undecided(o Options) []*ServicePlan {
	var out []*ServicePlan
	for i := range p.Services {
		s := &p.Services[i]
		texts, _, pinnable := s.needs()
		if len(texts) > 0 && !Named(o.Accept, s.Service) && (!pinnable || !Named(o.Pin, s.Service)) {
			out = append(out, s)
		}
	}
	return out
}

// All in a list of Services stands for every one.
const All = "all"

// Named reports whether a list of Services names one.
func Named(list []string, service string) bool {
	return slices.Contains(list, All) || slices.Contains(list, service)
}

// consents returns the names of Services that need consent, of those in which annotations cannot keep everything, and what changes.
func consents(services []*ServicePlan) (names, rest, changes []string) {
	for _, s := range services {
		texts, _, pinnable := s.needs()
		if names = append(names, s.Service); !pinnable {
			rest = append(rest, s.Service)
		}
		for _, text := range texts {
			changes = append(changes, s.Service+": "+text)
		}
	}
	return names, rest, changes
}

// noConsent is the error of a takeover that would change what nobody agreed to; nil without Services.
func noConsent(services []*ServicePlan) error {
	names, rest, changes := consents(services)
	if len(names) == 0 {
		return nil
	}
	list := strings.Join(names, ",")
	fix := fmt.Sprintf("keep the current state with --pin %s, or agree with --accept %s", list, list)
	if len(rest) > 0 {
		fix = fmt.Sprintf("agree with --accept %s, or correct the Services first; --pin keeps what an annotation can keep", list)
	}
	return &report.Error{What: "the takeover would change what runs: " + strings.Join(changes, "; "), Fix: fix, Code: report.ExitCheckFailed}
}

// Blocked is the error of a takeover that cannot begin; nil without problems.
func Blocked(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &report.Error{What: "nothing was changed: " + problems[0].Text, Fix: problems[0].Remedy, Code: report.ExitCheckFailed}
}

// Facts is what a plan rests on.
type Facts struct {
	family.Controllers
	Services   []corev1.Service
	Nodes      []corev1.Node
	VMs        *inventory.VMSnapshot
	Rules      []rules.Rule
	ClusterIDs []string // the cluster's ids in tags: the one that the controller will write, then former ones
	project    string   // id
}

// inventory is that of a project by name or id.
func (t *Taker) inventory(project string) *inventory.Inventory {
	return inventory.New(t.API, inventory.Options{ProjectID: project, Zone: t.Config.Zone, NodeVMs: t.Config.NodeVMs})
}

// Detect reads what a plan rests on. It changes nothing. Errors of the API server are as it sent them.
func (t *Taker) Detect(ctx context.Context) (*Facts, error) {
	kube := t.Cluster.Kube
	controllers, err := family.Find(ctx, kube, t.Release, t.Cluster.Namespace)
	if err != nil {
		return nil, err
	}
	f := &Facts{Controllers: *controllers}
	id := cluster.IdentityOf(f.Own.Words)
	id.Flag, id.Config, id.Former = cmp.Or(t.ClusterID, id.Flag), t.Config.ClusterID, t.Config.FormerClusterIDs
	if f.ClusterIDs, err = id.Resolve(ctx, kube); err != nil {
		return nil, err
	}
	f.Services = cluster.List(ctx, &err, kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	f.Nodes = cluster.List(ctx, &err, kube.CoreV1().Nodes().List).Items
	if err != nil {
		return nil, err
	}
	inv := t.inventory(t.Config.ProjectID)
	if f.project, err = inv.ProjectID(ctx); err != nil {
		return nil, err
	}
	if f.VMs, err = inv.VMs(ctx, 0); err != nil {
		return nil, fmt.Errorf("list virtual machines: %w", err)
	}
	f.Rules, err = rules.Read(ctx, t.API, f.project)
	return f, err
}

// MakePlan decides by the facts, and by what the controller would do. It changes nothing.
func (t *Taker) MakePlan(ctx context.Context, f *Facts) error {
	p := PlanOrder(&f.Controllers)
	p.Values, p.project = values(f), f.project
	p.Rules = rules.MakePlan(rules.Inventory{Rules: f.Rules, Services: f.Services, NodeVMs: rules.NodeVMs(f.Nodes, f.VMs)}, rules.Selection{})
	c, err := t.comparison(f, &p.Rules)
	if err != nil {
		return err
	}
	for _, svc := range tenants.Balanced(f.Services) {
		s, err := c.service(ctx, svc, Named(t.Pin, svc.Namespace+"/"+svc.Name))
		if err != nil {
			return fmt.Errorf("plan Service %s: %w", s.Service, err)
		}
		p.Services = append(p.Services, s)
	}
	t.Plan = p
	return nil
}

// PlanOrder decides who is started or stopped first, and what keeps it from happening. It is pure.
func PlanOrder(c *family.Controllers) *Plan {
	p := &Plan{
		SchemaVersion: 1, Predecessors: c.Predecessors, Own: c.Own, Services: []ServicePlan{},
		Order: Nothing, Why: "no other cloud controller manager is there",
	}
	for i := range p.Predecessors {
		old := &p.Predecessors[i]
		switch {
		case old.Family == family.Other:
			p.Problems = append(p.Problems, Problem{
				fmt.Sprintf("%s (image %s) is a cloud controller manager that csccm does not know", old, old.Image),
				"if it is not needed: " + old.Deletion(),
			})
		case p.Order == OldFirst:
		case old.Wanted == 0:
			if p.Order == Nothing {
				p.Order, p.Why = OldFirst, old.String()+" is stopped already"
			}
		case old.Lease == nil:
			p.Order, p.Why = OldFirst, old.String()+" elects no leader: it has to end before another one starts"
		case *old.Lease != p.Own.Lease:
			p.Order, p.Why = OldFirst, fmt.Sprintf("%s holds lease %s, ours would hold %s: it has to end before ours starts", old, old.Lease, p.Own.Lease)
		default:
			p.Order, p.Why = OursFirst, fmt.Sprintf("both use lease %s: ours stands by until the old one has ended", old.Lease)
		}
	}
	return p
}

// values keeps the forms that the cluster's nodes carry: jobs and volumes are bound to their labels, and
// Cluster API finds its machines by provider ID.
func values(f *Facts) map[string]string {
	count := map[string]int{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		scheme, _, _ := strings.Cut(n.Spec.ProviderID, ":")
		count[scheme]++
		vm, err := node.Match(f.VMs, n)
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
