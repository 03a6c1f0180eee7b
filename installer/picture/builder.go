// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/model"
)

// builder collects a snapshot. Its indexes keep the work proportional to the number of objects.
type builder struct {
	*Page
	objects  map[string]*model.Object
	links    []model.Link
	compared []model.Node
	planned  []model.Plan // of Services for which the controller would do something, or which it refuses

	handled  []*corev1.Service
	plans    []*plan.Service // by name
	members  map[string][]string
	next     map[string]time.Time // when the controller tries a Service again, by namespace/name
	owners   map[string]string    // id of the Service's object by UID, by load balancer name, and by "namespace/name"
	changes  map[string]string    // what is planned for a rule or port forwarding, by its id
	recorded map[string]string    // id of the Service's object by the id of a port forwarding that its plan calls its own
	found    map[string][]finding
	byName   map[string]string // id of an object on the map by what doctor calls it
	nodeOfVM map[string]string // id of the node's object by the VM's id
	usedVMs  map[string]bool
}

// finding is what doctor says of an object.
type finding struct {
	text   string
	health model.Health
}

func newBuilder(p *Page) *builder {
	b := &builder{
		Page: p, objects: map[string]*model.Object{}, owners: map[string]string{}, changes: map[string]string{}, recorded: map[string]string{},
		members: p.Members(), next: decide.NextTries(p.Logs), found: map[string][]finding{}, byName: map[string]string{},
		nodeOfVM: map[string]string{}, usedVMs: map[string]bool{},
	}
	for i := range p.Services {
		svc := &p.Services[i]
		if !service.Handles(svc) {
			continue
		}
		id := serviceID(svc.Namespace + "/" + svc.Name)
		b.handled = append(b.handled, svc)
		b.owners[svc.Namespace+"/"+svc.Name] = id
		if svc.UID != "" {
			b.owners[string(svc.UID)], b.owners[lbplan.LBName(string(svc.UID))] = id, id
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Planned)) {
		planned := p.Planned[name]
		b.plans = append(b.plans, planned)
		for _, a := range ptr.Deref(planned.Actual, lbplan.Actual{}).Addresses {
			for _, f := range a.OwnForwards() { // by their tags or by the Service's record
				b.recorded[f.ID] = serviceID(name)
			}
		}
		for i := range planned.Actions {
			if act := &planned.Actions[i]; act.Port != 0 && act.ItemID != "" {
				b.changes[act.ItemID] = act.Label()
			}
		}
	}
	known := p.Findings
	if known == nil {
		known = p.Checks
	}
	for i := range known {
		r := &known[i]
		if r.Outcome != check.Failed && r.Outcome != check.Warning {
			continue
		}
		for _, o := range r.Objects {
			f := finding{r.Code + ": " + strings.TrimSuffix(r.Title+", "+o.Message, ", "), model.HealthWarning}
			switch {
			case r.Code == "LB-003":
				f.health = model.HealthOrphan
			case r.Outcome == check.Failed:
				f.health = model.HealthError
			}
			b.found[nameOf(&o)] = append(b.found[nameOf(&o)], f)
		}
	}
	return b
}

// nameOf is what doctor calls an object, the key of found and byName.
func nameOf(o *check.Object) string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

func serviceID(name string) string              { return "service/" + name }
func nodeID(name string) string                 { return "node/" + name }
func cloudID(kind model.Kind, id string) string { return string(kind) + "/" + id }

// add puts an object on the map, once.
func (b *builder) add(o model.Object) *model.Object {
	if known := b.objects[o.ID]; known != nil {
		return known
	}
	if o.Health == "" {
		o.Health = model.HealthOK
	}
	b.objects[o.ID] = &o
	return &o
}

func (b *builder) link(from, to, label string) {
	b.links = append(b.links, model.Link{From: from, To: to, Label: label})
}

// worst orders healths: what an object is called if several apply.
var worst = []model.Health{model.HealthOK, model.HealthPending, model.HealthWarning, model.HealthForeign, model.HealthOrphan, model.HealthError}

// worsen sets the health if it is worse than the one so far, and adds the reason.
func worsen(o *model.Object, to model.Health, why string) {
	if slices.Index(worst, to) > slices.Index(worst, o.Health) {
		o.Health = to
	}
	if why != "" && !slices.Contains(o.Why, why) {
		o.Why = append(o.Why, why)
	}
}

// diagnose adds what doctor found about an object, which it calls key.
func (b *builder) diagnose(o *model.Object, key string) {
	b.byName[key] = o.ID
	for _, f := range b.found[key] {
		worsen(o, f.health, f.text)
	}
}

// orphaned reports whether doctor calls an object one of no Service.
func (b *builder) orphaned(key string) bool {
	return slices.ContainsFunc(b.found[key], func(f finding) bool { return f.health == model.HealthOrphan })
}

// csccm is a command line for this cluster.
func (b *builder) csccm(command string) string {
	return strings.TrimSpace("csccm " + command + " " + b.Options)
}

// owner is the Service that a rule belongs to: by its tags, or by the name that one of the providers gives.
func (b *builder) owner(r *cloudstack.LoadBalancerRule) string {
	name := rules.ParseName(r.Name)
	return b.owners[cmp.Or(r.Tags[lbplan.TagServiceUID], name.LB, name.Namespace+"/"+name.Service)]
}

// forwardOwner is the Service that a port forwarding belongs to. It has no name: its tags say so or, where the controller
// may not tag, the Service's record, which only the plan has compared with the forwarding.
func (b *builder) forwardOwner(f *cloudstack.PortForwarding) string {
	if uid := f.Tags[lbplan.TagServiceUID]; uid != "" {
		return b.owners[uid]
	}
	return b.recorded[f.ID]
}
