// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover replaces another provider for CloudStack by csccm's controller: Apache's provider (from its
// manifest, or as CloudStack Kubernetes Service deploys it), Leaseweb's fork (from its chart), and what the provider
// inside old Kubernetes versions left behind.
//
//   - Detect reads the cluster and CloudStack, and returns Facts.
//   - MakePlan makes a Plan from Facts: what would change for each Service, and what pins can keep. PlanUndo plans the
//     way back.
//   - Before and After return the steps before the chart is installed, and those once its Pods run. Back returns the
//     steps of an undo. The workload of the old controller is kept, without Pods.
//
// Two controllers never act at the same time. If the old controller uses the same lease as csccm's, csccm's controller
// starts first and waits for the lease. csccm then holds the lease itself while it stops the old controller and renames
// the rules, and releases it for its own controller. Otherwise the old controller is stopped before csccm's starts.
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

// Options of a takeover.
type Options struct {
	// Accept names Services (namespace/name, or All) whose changes the operator agrees to. Pin names Services whose
	// changes annotations prevent, where they can; Pin takes precedence.
	Accept, Pin []string
	ClusterID   string // as in the chart's values; "" means the default of the controller
	// Adopt is "yes" or "no": whether to tag the addresses that the old controller acquired as csccm's, so that they
	// are released with their Services. Empty asks, and means yes without a terminal.
	Adopt string
	Undo  bool // go back to the old controller, by what the takeover recorded on Services and on the old workload
}

// Taker plans a takeover or its undo, and carries it out.
type Taker struct {
	*engine.Env
	Options
	Cloud *access.Cloud // with the controller's credentials
	Plan  *Plan
}

// Order says whether csccm's controller starts before the old one stops; "" if there is no other controller.
type Order string

// Orders.
const (
	OursFirst Order = "ours-first" // csccm's starts first and waits for the lease that the old one holds
	OldFirst  Order = "old-first"  // the old one stops first, because it uses no lease, or another one
)

// Plan is what a takeover or its undo will do. It contains no secrets.
type Plan struct {
	Undo         bool
	Predecessors []family.Predecessor // controllers to stop, or with Undo to start again
	Own          family.Own           // csccm's controller; csccm holds its lease during the swap
	Order        Order
	Why          string            // reason for Order
	Values       map[string]string // chart values that keep the form of labels and provider IDs for new nodes
	Services     []ServicePlan
	Steps        []rules.Step           // renames of rules
	Addresses    []addresses.Item       // addresses that csccm's controller would not release with their Services yet
	Adopted      []*cloudstack.PublicIP // with Undo: addresses that the takeover tagged as csccm's
	Warnings     []string
	Problem      error // prevents the takeover

	running    []family.Predecessor // old controllers that are stopped first
	project    string               // id of the project of the rules
	clusterIDs []string             // current and former cluster ids of csccm's controller
}

// AddTo adds the plan to that of a command.
func (p *Plan) AddTo(out *engine.Plan) {
	part := "Stop"
	if p.Undo {
		part = "Start"
		for _, old := range p.running {
			out.Add("Stop", old.String()+", which would act beside csccm's controller", &old)
		}
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
		if p.Undo { // Rules then contains only those that are renamed, so their number is left out
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

// addAddresses adds which addresses will be released with their Services, and which will not.
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
		out.Add(
			"Address",
			fmt.Sprintf("address %s of Service %s is no longer marked as csccm's", a.Address, a.Tags[plan.TagService]),
			a.Address,
		)
	}
}

// adopting returns the Services whose addresses were certainly acquired by the old controller.
func (p *Plan) adopting() (services []string) {
	for _, it := range p.Addresses {
		if it.Undoubted() {
			services = append(services, it.Service)
		}
	}
	return services
}

// ServicePlan is the plan for one Service of type LoadBalancer.
type ServicePlan struct {
	Service     string       `json:"service"` // namespace/name
	Address     string       `json:"address,omitempty"`
	Rules       []string     `json:"rules,omitempty"` // ids of the current rules
	Differences []Difference `json:"differences,omitempty"`
	// Changes describes all that is created, changed or deleted for the Service, in order.
	Changes []string `json:"changes"`
	Pinned  bool     `json:"pinned,omitempty"` // pins keep the current state where they can

	back map[string]*string // annotations that an undo sets; nil removes the annotation
}

// needs returns the differences that need consent. If pinned is set, it leaves out those that a pin prevents.
func (s *ServicePlan) needs(pinned bool) (texts []string) {
	for _, d := range s.Differences {
		if d.Consent && (d.Pin == nil || !pinned) {
			texts = append(texts, d.Text)
		}
	}
	return texts
}

// pins returns the annotations of all pins.
func (s *ServicePlan) pins() map[string]string {
	out := map[string]string{}
	for _, difference := range s.Differences {
		if pin := difference.Pin; pin != nil {
			out[pin.Annotation] = pin.Value
		}
	}

	return out
}

// undecided returns the Services with changes that need consent and are neither accepted nor prevented by pins, and
// these changes.
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

// All in a list of Services means every Service.
const All = "all"

// Named reports whether a list of Services contains a Service, or All.
func Named(list []string, service string) bool {
	return slices.Contains(list, All) || slices.Contains(list, service)
}

// Facts are the input of a plan.
type Facts struct {
	*family.Controllers
	*rules.Facts
	Cloud *addresses.Facts
}

// Detect reads the facts for a plan. It changes nothing, and returns errors of the API server as they are.
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

// MakePlan plans a takeover from the facts and from a preview of what csccm's controller would do. It changes nothing.
func (t *Taker) MakePlan(ctx context.Context, f *Facts) error {
	p := PlanOrder(f.Controllers)
	p.Values, p.project = values(f), f.Project

	c, err := t.comparison(ctx, f)
	if err != nil {
		return err
	}

	p.Steps, p.clusterIDs = c.rules.Steps, append([]string{c.clusterID}, t.Cloud.Config.FormerClusterIDs...)
	p.Addresses = p.openAddresses(f.Cloud, f.Services, &c.rules)

	// The old controller serves all Services without a class, even if csccm's controller does not.
	for _, svc := range check.Balanced(f.Services, append(f.Own.Words, "--load-balancer-classless=true")) {
		s, err := c.service(ctx, svc, Named(t.Pin, rules.Key(svc)))
		if err != nil {
			return fmt.Errorf("plan Service %s: %w", s.Service, err)
		}

		if len(s.Rules) > 0 || c.classes.Wants(svc) {
			p.Services = append(p.Services, s)
		}
	}

	t.Plan = p
	return nil
}

// openAddresses returns the addresses of the Services that are not tagged as csccm's yet. It judges the rules by the
// names that the plan gives them.
func (p *Plan) openAddresses(cloud *addresses.Facts, services []corev1.Service, names *rules.Plan) []addresses.Item {
	f := &addresses.Facts{
		ClusterIDs: p.clusterIDs,
		Services:   services,
		Addresses:  cloud.Addresses,
		Rules:      renamedRules(cloud.Rules, names),
		Forwards:   cloud.Forwards,
	}

	return slices.DeleteFunc(
		addresses.MakePlan(f, check.Balanced(services, p.Own.Words), true),
		func(it addresses.Item) bool { return it.Address == "" || it.Verdict == addresses.Done },
	)
}

// PlanOrder decides which controller is started or stopped first, and finds problems that prevent the takeover. It is a
// pure function.
func PlanOrder(c *family.Controllers) *Plan {
	const oldFirst = "the old controller ends before csccm's starts: "
	p := &Plan{Predecessors: c.Predecessors, Own: c.Own}
	for _, old := range p.Predecessors {
		// A DaemonSet has a Pod as soon as a node matches, unless a takeover has stopped it.
		if old.Wanted > 0 || old.Kind == "DaemonSet" && old.Before == 0 {
			p.running = append(p.running, old)
		}
	}

	if len(p.Predecessors) > 0 && len(p.running) == 0 {
		p.Order, p.Why = OldFirst, oldFirst+p.Predecessors[0].String()+" is stopped already"
	}

	for _, old := range p.running {
		switch {
		case p.Order == OldFirst: // one reason is enough
		case old.Lease == nil:
			p.Order, p.Why = OldFirst, oldFirst+old.String()+" elects no leader"
		case *old.Lease != p.Own.Lease:
			p.Order, p.Why = OldFirst, fmt.Sprintf(
				"%s%s holds lease %s, csccm's would hold %s", oldFirst, &old, old.Lease, p.Own.Lease,
			)
		case old.Port != "" && old.Port == p.Own.Port && p.Own.Ready == 0:
			p.Order, p.Why = OldFirst, fmt.Sprintf(
				"%sboth listen on port %s of the node (chart value securePort)", oldFirst, old.Port,
			)
		default:
			p.Order, p.Why = OursFirst, fmt.Sprintf(
				"csccm's controller starts before the old one ends: both use lease %s", old.Lease,
			)
		}
	}

	for _, r := range c.Rivals {
		switch {
		case r.Family.Replaceable(): // a predecessor, see above
		case r.Family == family.Balancer:
			p.Warnings = append(p.Warnings, r.String())
		case p.Problem == nil:
			p.Problem = report.Refused(
				r.Fix,
				"a cloud controller manager that csccm does not know, or cannot replace, is running: %s", &r,
			)
		}
	}

	return p
}

// values returns the chart values that keep the form of instance type labels and provider IDs that most nodes have.
// Jobs and volumes may select nodes by these labels, and Cluster API finds its machines by provider ID.
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
		case short == long: // says nothing about the form
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

// PlanUndo plans the undo of a takeover, from what the takeover recorded on Services and workloads. It is a pure
// function.
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
			p.Problem = report.Refused(
				"remove csccm's chart from the tool that applies it, delete "+own.String()+", then run the command "+
					"again",
				"%s belongs to no Helm release: the tool that applied it would start it again beside the old "+
					"controller", &own,
			)
		}
	}

	return p
}

// pinnable are the annotations that a takeover sets.
var pinnable = []string{annotation.ProxyProtocol, annotation.Algorithm, annotation.SourceCIDRs, annotation.Mode}

// service plans the undo for one Service: it renames the rules that still have the names from the takeover, and
// restores the annotations that still have the values from the takeover.
func (p *Plan) service(svc *corev1.Service, was rules.Record, now []cloudstack.LoadBalancerRule) ServicePlan {
	s := ServicePlan{Service: rules.Key(svc), back: map[string]*string{BeforeAnnotation: nil}}
	steps, skipped := rules.Undo(svc, was.Rules, now)
	for _, step := range steps {
		s.Rules, s.Address, s.Changes = append(s.Rules, step.RuleID), step.PublicIP, append(s.Changes, changeOf(&step))
	}

	p.Steps = append(p.Steps, steps...)
	for _, name := range slices.Sorted(maps.Keys(was.Annotations)) {
		c := was.Annotations[name]
		value, set := svc.Annotations[name]
		switch {
		case !slices.Contains(pinnable, name): // not from a takeover: whoever may edit the Service can write the record
		case set == (c.Was != nil) && (!set || value == *c.Was): // already restored
		case set && value == c.Set && c.Was == nil:
			s.back[name], s.Changes = nil, append(s.Changes, "- remove annotation "+name+" from the Service")
		case set && value == c.Set:
			s.back[name], s.Changes = c.Was, append(s.Changes,
				fmt.Sprintf("~ set annotation %s=%q on the Service", name, *c.Was))
		default:
			skipped = append(skipped, fmt.Sprintf("somebody changed annotation %s since; it stays", name))
		}
	}

	for _, text := range skipped {
		p.Warnings = append(p.Warnings, s.Service+": "+text)
	}

	return s
}

// predecessors sets the controllers to start. One that runs while csccm's controller does, or while rules still have
// csccm's names, is stopped first: the takeover was interrupted before it stopped it, or somebody has started it.
func (p *Plan) predecessors(f *Facts) {
	for _, old := range slices.Concat(f.Predecessors, f.Replaced) {
		if old.Wanted > 0 && (len(p.Own.Workloads) > 0 || len(p.Steps) > 0) {
			p.running = append(p.running, old)
		}

		if old.Wanted+old.Before > 0 { // a takeover stopped it, or was about to; or an undo has started it
			if old.Wanted = max(old.Wanted, old.Before); len(p.Own.Workloads) == 0 && old.Lease != nil {
				p.Own.Lease = *old.Lease
			}
			p.Predecessors = append(p.Predecessors, old)
		}
	}

	if len(p.Predecessors) == 0 && p.Problem == nil && p.needed() {
		p.Problem = report.Refused(
			fmt.Sprintf(`apply the old controller's manifest again without Pods (replicas: 0, and annotation `+
				`%s: "1"), then run the command again`, family.ReplicasAnnotation),
			"no controller that a takeover stopped is in the cluster: it was deleted, or there was none",
		)
	}
}

// adopted sets the addresses that the takeover tagged and whose tags have not been changed since.
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
		stopped := func(old family.Predecessor) bool { return old.Before > 0 || old.Ready == 0 }
		return len(p.Own.Workloads)+len(p.Services) > 0 || slices.ContainsFunc(p.Predecessors, stopped)
	}

	return p.Order != ""
}
