// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package picture converts what was read from a cluster and its CloudStack to the snapshot that the page of `csccm ui`
// shows. It has no side effects: equal facts give equal snapshots.
package picture

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Page is the input of a snapshot: what doctor has read, or parts of it. What was not read is zero; Missing has the
// reasons.
type Page struct {
	*check.Facts
	Title string
	// Options are the flags that make csccm use the same cluster, for the commands that the page shows.
	Options string
	Checks  []check.Result
	// Findings are the last known results of the checks, for the colours of objects. They are kept if a check cannot
	// run at the moment.
	Findings []check.Result
	// Sources are Kubernetes and CloudStack, with the state of reading from them.
	Sources []model.Source
	Missing []model.Missing
	// Clean removes secrets from text; nil for none.
	Clean func(string) string
}

// OfInspection returns the page for a run of doctor.
func OfInspection(f *check.Facts, r *check.Report) Page {
	p := Page{Title: Title(r.Cluster.Context), Checks: r.Checks, Findings: r.Checks, Facts: f}
	for _, part := range []check.Source{check.Nodes, check.Services, check.VMs} {
		if err := f.Err(part); err != nil {
			p.Missing = append(p.Missing, model.Missing{Part: "objects", Reason: err.Error(), Remedy: "see the checks"})
		}
	}

	if f.Planned == nil {
		p.Missing = append(p.Missing,
			model.Missing{
				Part:   "plans",
				Reason: "what the controller would do could not be read",
				Remedy: "see the checks",
			})
	}

	return p
}

// Title returns the heading of the page for a context of a kubeconfig.
func Title(context string) string {
	return strings.TrimSpace("Cluster "+context) + " in CloudStack"
}

// Of returns the snapshot.
func Of(p *Page) model.Snapshot {
	b := newBuilder(p)
	b.services()
	b.nodes()
	b.addresses()
	b.rules()
	b.forwards()
	b.ghosts()
	b.machines()
	out := model.Snapshot{
		SchemaVersion: model.SchemaVersion,
		At:            p.At,
		Title:         p.Title,
		Plans:         b.planned,
		Checks:        b.checks(),
		Nodes:         b.compared,
		Timeline:      b.timeline(),
		Missing:       slices.Clone(p.Missing),
		Sources:       slices.Clone(p.Sources),
		Controller:    b.controller(),
		Views:         []string{"checks", "plan", "timeline", "nodes"},
	}

	for _, o := range b.objects {
		out.Objects = append(out.Objects, *o)
	}

	for _, l := range b.links {
		if b.objects[l.From] != nil &&
			(b.objects[l.To] != nil || strings.HasPrefix(l.To, model.GroupID(model.KindNode, ""))) {
			out.Links = append(out.Links, l)
		}
	}

	clean(reflect.ValueOf(&out), func(text string) string {
		if p.Clean != nil {
			text = p.Clean(text) // removes secrets
		}
		return terminal.Line(text) // browsers also interpret Unicode direction marks
	})

	return out.Sorted()
}

// ids are the struct fields that hold IDs, made of CloudStack ids and of names of Kubernetes objects. They are not
// cleaned.
var ids = []string{"ID", "From", "To", "Service", "Object"}

// clean applies text to all strings in a part of a snapshot.
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
		if is := text(v.String()); is != v.String() { // write only changes: snapshots share some strings
			v.SetString(is)
		}

	default:
	}
}

// cleanFact cleans a value together with its name, because the name can show that the value is a secret.
func cleanFact(f model.Fact, text func(string) string) model.Fact {
	if value, unchanged := strings.CutPrefix(text(f.Name+": "+f.Value), f.Name+": "); unchanged {
		return model.Fact{Name: f.Name, Value: value}
	}
	return model.Fact{Name: text(f.Name), Value: text(f.Value)}
}

// maxEntries limits the timeline.
const maxEntries = 200

func (b *builder) checks() []model.Check {
	var out []model.Check
	for _, r := range b.Checks {
		c := model.Check{
			Code:     r.Code,
			Title:    r.Title,
			Category: r.Category,
			Status:   string(r.Outcome),
			Message:  r.Message,
			Remedy:   r.Remedy,
			Link:     r.Hint,
		}
		if r.Outcome == check.Failed {
			c.Status = "error"
		}
		for _, o := range r.Objects {
			c.Objects = append(c.Objects,
				model.About{ID: b.byName[nameOf(&o)], Text: strings.TrimSuffix(o.String()+": "+o.Message, ": ")})
		}
		out = append(out, c)
	}

	return out
}

// timeline returns what happened, newest first: Events about Services and Nodes, and leader changes.
func (b *builder) timeline() []model.Entry {
	var out []model.Entry
	holders := map[string]string{} // message about the leader, by lease
	for _, l := range b.Leases {
		if check.IsElection(&l) && l.Spec.AcquireTime != nil {
			entry := model.Entry{
				At:      l.Spec.AcquireTime.UTC(),
				Kind:    "leader",
				Reason:  "LeaderElection",
				Message: *l.Spec.HolderIdentity + " became leader",
			}
			out, holders[l.Name] = append(out, entry), entry.Message
		}
	}

	for _, e := range b.Events {
		entry := model.Entry{
			At:      check.EventTime(&e).UTC(),
			Kind:    "event",
			Reason:  e.Reason,
			Message: e.Message,
			Warning: e.Type == "Warning",
			Count:   int(e.Count),
		}

		about := e.InvolvedObject.Name
		switch e.InvolvedObject.Kind {
		case "Service":
			about = serviceID(e.InvolvedObject.Namespace + "/" + about)
			if b.objects[about] == nil && e.Reason != "Orphan" && !strings.Contains(e.Reason, "LoadBalancer") {
				continue // the Service is not of type LoadBalancer
			}
		case "Node":
			about = nodeID(about)
		case "Lease": // of another component, or a repetition of what the lease says
			if message, election := holders[about]; !election || message == e.Message {
				continue
			}
			entry.Kind = "leader"
		default:
			continue
		}

		if e.Reason == string(lbplan.ReasonDriftRepaired) {
			entry.Kind = "drift"
		}

		if b.objects[about] != nil {
			entry.Object = about
		} else if entry.Kind != "leader" {
			entry.Message = fmt.Sprintf("%s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}

		out = append(out, entry)
	}

	slices.SortStableFunc(out, func(x, y model.Entry) int { return y.At.Compare(x.At) })
	return out[:min(len(out), maxEntries)]
}

// controller returns the Pods of the controller and its leader; nil if there is neither.
func (b *builder) controller() *model.Controller {
	c := &model.Controller{Replicas: len(b.Pods)}
	for _, p := range b.Pods {
		if cluster.PodReady(&p) {
			c.Ready++
		}
		_, tag, _ := strings.Cut(path.Base(p.Spec.Containers[0].Image), ":")
		tag, _, _ = strings.Cut(tag, "@")
		if !slices.Contains(strings.Split(c.Version, ", "), tag) {
			c.Version = strings.TrimPrefix(c.Version+", "+tag, ", ")
		}
	}

	if l := check.Leader(b.Leases); l != nil {
		c.Leader = *l.Spec.HolderIdentity
		c.Renewed = l.Spec.RenewTime.UTC()
		c.Duration = int(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))
	}

	if *c == (model.Controller{}) {
		return nil
	}

	return c
}

// builder collects a snapshot. Its indexes keep the work proportional to the number of objects.
type builder struct {
	*Page
	objects  map[string]*model.Object
	links    []model.Link
	compared []model.Node
	planned  []model.Plan // of Services with actions or a refusal

	handled []*corev1.Service
	members map[string][]string
	next    map[string]time.Time // time of the controller's next try, by namespace/name
	owners  map[string]string    // id of the Service's object by UID, by load balancer name, and by "namespace/name"
	changes map[string]string    // planned change of a rule or port forwarding, by its id
	// recorded is the id of the Service's object, by the id of a port forwarding that the plan attributes to the
	// Service.
	recorded map[string]string
	found    map[string][]finding
	byName   map[string]string // id of an object on the map, by doctor's name for it
	nodeOfVM map[string]string // id of the node's object, by the VM's id
	usedVMs  map[string]bool
}

// finding is a problem that doctor found with an object.
type finding struct {
	text   string
	health model.Health
}

func newBuilder(p *Page) *builder {
	b := &builder{
		Page:     p,
		objects:  map[string]*model.Object{},
		owners:   map[string]string{},
		changes:  map[string]string{},
		recorded: map[string]string{},
		members:  members(p.Facts),
		next:     check.NextTries(p.Logs),
		found:    map[string][]finding{},
		byName:   map[string]string{},
		nodeOfVM: map[string]string{},
		usedVMs:  map[string]bool{},
	}

	for _, svc := range p.Services {
		if !p.Classes().Handles(&svc) {
			continue
		}
		name := rules.Key(&svc)
		id := serviceID(name)
		b.handled = append(b.handled, &svc)
		b.owners[name] = id
		if svc.UID != "" {
			b.owners[string(svc.UID)], b.owners[lbplan.LBName(string(svc.UID))] = id, id
		}
	}

	for name, planned := range p.Planned {
		for _, a := range ptr.Deref(planned.Actual, lbplan.Actual{}).Addresses {
			for _, f := range a.OwnForwards() { // port forwardings of the Service, by their tags or by its record
				b.recorded[f.ID] = serviceID(name)
			}
		}
		for _, act := range planned.Actions {
			if act.Port != 0 && act.ItemID != "" {
				b.changes[act.ItemID] = act.Label()
			}
		}
	}

	for _, r := range p.Findings {
		if r.Outcome != check.Failed && r.Outcome != check.Warning {
			continue
		}
		for _, o := range r.Objects {
			f := finding{r.Code + ": " + strings.TrimSuffix(r.Title+", "+o.Message, ", "), model.HealthWarning}
			switch {
			case r.Code == "LB-003", r.Code == "LB-004":
				f.health = model.HealthOrphan
			case r.Outcome == check.Failed:
				f.health = model.HealthError
			}
			b.found[nameOf(&o)] = append(b.found[nameOf(&o)], f)
		}
	}

	return b
}

// nameOf returns doctor's name for an object, the key of found and byName.
func nameOf(o *check.Object) string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

func serviceID(name string) string              { return "service/" + name }
func nodeID(name string) string                 { return "node/" + name }
func cloudID(kind model.Kind, id string) string { return string(kind) + "/" + id }

// add adds an object to the map, unless the map has it already.
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

// worst lists the healths from the best to the worst: the worst one that applies to an object is shown.
var worst = []model.Health{
	model.HealthOK, model.HealthPending, model.HealthWarning, model.HealthForeign, model.HealthOrphan,
	model.HealthError,
}

// worsen sets the health if it is worse than the current one, and adds the reason.
func worsen(o *model.Object, to model.Health, why string) {
	if slices.Index(worst, to) > slices.Index(worst, o.Health) {
		o.Health = to
	}
	if why != "" && !slices.Contains(o.Why, why) {
		o.Why = append(o.Why, why)
	}
}

// diagnose adds doctor's findings about an object; key is doctor's name for it.
func (b *builder) diagnose(o *model.Object, key string) {
	b.byName[key] = o.ID
	for _, f := range b.found[key] {
		worsen(o, f.health, f.text)
	}
}

// orphaned reports whether doctor found that an object belongs to no Service.
func (b *builder) orphaned(key string) bool {
	return slices.ContainsFunc(b.found[key], func(f finding) bool { return f.health == model.HealthOrphan })
}

// csccm returns a csccm command for this cluster.
func (b *builder) csccm(command string) string {
	return strings.TrimSpace("csccm " + command + " " + b.Options)
}

// owner returns the Service that a rule belongs to, by its tags, or by its name in the form of any provider.
func (b *builder) owner(r *cloudstack.LoadBalancerRule) string {
	name := rules.ParseName(r.Name)
	return b.owners[cmp.Or(r.Tags[lbplan.TagServiceUID], name.LB, name.Namespace+"/"+name.Service)]
}

// forwardOwner returns the Service that a port forwarding belongs to. Port forwardings have no names, so the tags
// decide. If the controller may not set tags, the Service's record decides, which only the plan compares with port
// forwardings.
func (b *builder) forwardOwner(f *cloudstack.PortForwarding) string {
	if uid := f.Tags[lbplan.TagServiceUID]; uid != "" {
		return b.owners[uid]
	}
	return b.recorded[f.ID]
}

// members returns the ids of the VMs behind each rule whose members were read, by rule id.
func members(f *check.Facts) map[string][]string {
	out := map[string][]string{}
	for rule, list := range f.OddMembers {
		for _, member := range list {
			out[rule] = append(out[rule], member.VMID)
		}
	}

	for _, p := range f.Planned {
		for _, address := range ptr.Deref(p.Actual, lbplan.Actual{}).Addresses {
			for _, rule := range address.Rules {
				out[rule.ID] = nil
				for _, m := range rule.Members {
					vm, _ := lbplan.SplitMember(m)
					out[rule.ID] = append(out[rule.ID], vm)
				}
			}
		}
	}

	return out
}
