// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// UndoPlan is the way back from a takeover, complete enough to be shown and agreed to. It holds no secret.
type UndoPlan struct {
	SchemaVersion int `json:"schemaVersion"`
	// Ours are csccm's workloads, which end first: kind namespace/name.
	Ours []string `json:"ours"`
	// Lease is held while no controller acts.
	Lease lease.Name `json:"lease"`
	// Predecessors are what starts again, with the number of Pods that it wanted.
	Predecessors []family.Predecessor `json:"predecessors"`
	// Rules get their names of before.
	Rules []rules.Step `json:"rules"`
	// Annotations get their values of before.
	Annotations []PinBack `json:"annotations"`
	// Stays is what is not set back, and why.
	Stays    []string  `json:"stays,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
	State    State     `json:"state"`

	ours     []family.Predecessor
	recorded []string // Services with the annotation
	project  string   // id of the rules' project
}

// PinBack is an annotation that csccm set and an undo sets back.
type PinBack struct {
	Service    string  `json:"service"`
	Annotation string  `json:"annotation"`
	Before     *string `json:"before"` // null: it is removed
}

func (b *PinBack) String() string {
	if b.Before == nil {
		return "is removed"
	}
	return fmt.Sprintf("is %q again", *b.Before)
}

// NewUndoPlan decides by what Detect found, which includes what the takeover kept on Services and workloads. It is pure.
func NewUndoPlan(f *Facts) *UndoPlan {
	p := &UndoPlan{
		SchemaVersion: 1, State: StatePlanned, Lease: f.Own.Lease, project: f.project,
		Ours: []string{}, Predecessors: []family.Predecessor{}, Rules: []rules.Step{}, Annotations: []PinBack{},
	}
	for i := range f.Own.Workloads {
		own := &f.Own.Workloads[i]
		p.Ours = append(p.Ours, own.String())
		p.ours = append(p.ours, *own)
		if !own.Helm {
			p.Problems = append(p.Problems, Problem{
				own.String() + " is of no Helm release: what applied it would start it again beside the old controller",
				"take csccm's chart out of what applies it, delete " + own.String() + ", then run the command again",
			})
		}
	}
	p.services(f)
	p.predecessors(f)
	return p
}

// services are the rules that still have the names that the takeover gave them, and the annotations that it set.
func (p *UndoPlan) services(f *Facts) {
	now := map[string]*rules.Rule{}
	for i := range f.Rules {
		now[f.Rules[i].ID] = &f.Rules[i]
	}
	for i := range f.Services {
		svc := &f.Services[i]
		was, key := beforeOf(svc), svc.Namespace+"/"+svc.Name
		if was == nil {
			continue
		}
		p.recorded = append(p.recorded, key)
		for _, id := range slices.Sorted(maps.Keys(was.Rules)) {
			r, name := now[id], was.Rules[id]
			switch {
			case r == nil:
				p.Stays = append(p.Stays, fmt.Sprintf("rule %s is gone by now", name))
			case r.Name == name: // never renamed, or back already
			case rules.ParseName(r.Name).Family != rules.FamilyUpstream:
				p.Stays = append(p.Stays, fmt.Sprintf("rule %s, which was %s, has a third name by now and keeps it", r.Name, name))
			default:
				p.Rules = append(p.Rules, rules.Step{
					Action: rules.ActionRename, RuleID: id, From: r.Name, To: name, Protocol: cmp.Or(r.Protocol, plan.ProtocolTCP),
					Algorithm: r.Algorithm, PublicIP: r.PublicIP, Port: r.PublicPort, Service: key,
				})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(was.Annotations)) {
			c := was.Annotations[name]
			value, set := svc.Annotations[name]
			switch {
			case set == (c.Was != nil) && (!set || value == *c.Was): // back already
			case set && value == c.Set:
				p.Annotations = append(p.Annotations, PinBack{key, name, c.Was})
			default:
				p.Stays = append(p.Stays, fmt.Sprintf("%s: somebody changed annotation %s since; it stays", key, name))
			}
		}
	}
}

// predecessors are the controllers that a takeover stopped.
func (p *UndoPlan) predecessors(f *Facts) {
	for _, old := range slices.Concat(f.Predecessors, f.Kept) {
		switch {
		case !old.Replaceable():
		case old.Wanted > 0 && (len(p.ours) > 0 || len(p.Rules) > 0):
			p.Problems = append(p.Problems, Problem{
				fmt.Sprintf("%s runs already, before csccm's controller has ended and the rules have its names", &old),
				fmt.Sprintf("stop it first (%s), then run the command again", noPods(old.Kind)),
			})
		case old.Wanted == 0 && old.Before > 0, old.Starting:
			if old.Wanted = max(old.Wanted, old.Before); len(p.ours) == 0 && old.Lease != nil {
				p.Lease = *old.Lease
			}
			p.Predecessors = append(p.Predecessors, old)
		}
	}
	if len(p.Predecessors) == 0 && len(p.Problems) == 0 && len(p.ours)+len(p.recorded) > 0 {
		p.Problems = append(p.Problems, Problem{
			"no controller that a takeover stopped is in the cluster: it was deleted, or there was none",
			fmt.Sprintf("apply the old controller's manifest again with no Pods (%s), then run the command again", noPods("Deployment")),
		})
	}
}

// noPods is what keeps a workload without Pods, in the form that an undo recognises.
func noPods(kind string) string {
	if kind == "DaemonSet" {
		return "nodeSelector " + family.StoppedSelector + `: "true"`
	}
	return "replicas: 0, and annotation " + family.ReplicasAnnotation + `: "1"`
}

// Needed reports whether anything is left to do.
func (p *UndoPlan) Needed() bool {
	return len(p.Ours)+len(p.Rules)+len(p.recorded)+len(p.Predecessors) > 0
}

// Undoer carries the way back out. The order keeps two controllers from acting at once: ours ends, then csccm alone gives
// rules and annotations back what they had, then the old one starts. An undo that ended early is continued by running it
// again.
type Undoer struct {
	*Taker
	plan *UndoPlan
}

// NewUndoer carries out a plan that rests on what Detect found at the same source. Of the options Accept and Pin are not heeded.
func NewUndoer(s Source, p *UndoPlan, o Options) *Undoer {
	return &Undoer{NewTaker(s, &Plan{Own: family.Own{Lease: p.Lease}, Rules: rules.Plan{Steps: p.Rules}, project: p.project}, o), p}
}

// Steps are all of the way back.
func (u *Undoer) Steps() []engine.Step {
	return []engine.Step{step("swap back", u.swap), step("start of the old controller", u.start)}
}

// swap ends our controller and gives rules and annotations back what they had, while csccm holds the lease.
func (u *Undoer) swap(ctx context.Context) error {
	p := u.plan
	if err := Blocked(p.Problems); err != nil {
		return err
	}
	return u.whileHolding(ctx, len(p.ours)+len(p.recorded) > 0, p.ours, func() error {
		if err := u.endOurs(ctx); err != nil {
			return err
		}
		if err := u.rules(ctx); err != nil {
			return err
		}
		return u.unpin(ctx)
	})
}

// endOurs deletes our workloads, which an install or an upgrade makes again, and waits for their last Pod: also for those
// that an undo that was killed has left.
func (u *Undoer) endOurs(ctx context.Context) error {
	u.Progress.Step("Ending csccm's controller")
	apps, with := u.Kube.AppsV1(), metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	for _, own := range u.plan.ours {
		del := apps.Deployments(own.Namespace).Delete
		if own.Kind == "DaemonSet" {
			del = apps.DaemonSets(own.Namespace).Delete
		}
		if err := del(ctx, own.Name, with); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", &own, err)
		}
	}
	all := &family.Predecessor{Kind: "release", Namespace: u.Namespace, Name: u.Release, Selector: map[string]string{
		cluster.NameLabel: cluster.ChartName, cluster.InstanceLabel: u.Release,
	}}
	if err := u.awaitNoPods(ctx, all); err != nil {
		return err
	}
	u.Progress.Done("its last Pod is gone")
	return nil
}

// unpin gives annotations their values of before, and takes away what the takeover kept.
func (u *Undoer) unpin(ctx context.Context) error {
	for _, service := range u.plan.recorded {
		values := map[string]*string{BeforeAnnotation: nil}
		for i := range u.plan.Annotations {
			if b := &u.plan.Annotations[i]; b.Service == service {
				values[b.Annotation] = b.Before
				u.Progress.Info("%s: %s %s", service, b.Annotation, b)
			}
		}
		if err := u.annotate(ctx, service, values); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// start gives the old controllers their Pods back and waits until they work.
func (u *Undoer) start(ctx context.Context) error {
	const again = "; run the command again to go on, or csccm install, which takes its place again"
	for i := range u.plan.Predecessors {
		old := &u.plan.Predecessors[i]
		u.Progress.Step("Starting %s", old)
		notes := fmt.Sprintf(`"metadata":{"annotations":{%q:null,%q:null,%q:"true"}}`, family.ReplicasAnnotation, family.KeptAnnotation, family.StartingAnnotation)
		if err := u.patch(ctx, old, fmt.Sprintf(`{%s,"spec":{"replicas":%d}}`, notes, old.Wanted),
			fmt.Sprintf(`{%s,"spec":{"template":{"spec":{"nodeSelector":{%q:null}}}}}`, notes, family.StoppedSelector)); err != nil {
			return fmt.Errorf("starting %s: %w", old, err)
		}
		// Without an election only a Pod that is ready tells that it works.
		ready, err := engine.Poll(ctx, u.Clock, stopPoll, stopTimeout, func() (bool, error) {
			f, err := family.Find(ctx, u.Kube, u.Release, u.Namespace)
			return err == nil && slices.ContainsFunc(f.Predecessors, func(x family.Predecessor) bool { return x.String() == old.String() && x.Ready > 0 }), err
		})
		if err == nil && !ready {
			err = report.Remedied(fmt.Errorf("no Pod of %s is ready after %s", old, stopTimeout), "look at its Pods and its log"+again)
		}
		if err != nil {
			return err
		}
		u.Progress.Done("ready")
		if old.Lease != nil {
			u.Plan.Own.Lease = *old.Lease
			if err := u.awaitLeader(ctx); err != nil {
				if ctx.Err() != nil {
					return err
				}
				return report.Remedied(err, "look at the log of the old controller's Pods"+again)
			}
		}
		done := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, family.StartingAnnotation)
		if err := u.patch(ctx, old, done, done); err != nil {
			return fmt.Errorf("starting %s: %w", old, err)
		}
	}
	return nil
}

// WriteText prints the plan for a person.
func (p *UndoPlan) WriteText(out io.Writer, style report.Style) error {
	var b strings.Builder
	b.WriteString("Back to before the takeover\n")
	for _, own := range p.Ours {
		fmt.Fprintf(&b, "Ends first: %s\n", own)
	}
	for i := range p.Predecessors {
		old := &p.Predecessors[i]
		again := "with " + english.Plural(int(old.Wanted), "Pod", "") + " again"
		if old.Kind == "DaemonSet" {
			again = "on its nodes again"
		}
		fmt.Fprintf(&b, "Starts then: %s (%s, image %s), %s\n", old, old.Family, old.Image, again)
	}
	for i := range p.Annotations {
		fmt.Fprintf(&b, "Annotation: %s: %s %s\n", p.Annotations[i].Service, p.Annotations[i].Annotation, &p.Annotations[i])
	}
	for _, stays := range p.Stays {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, stays))
	}
	for _, problem := range p.Problems {
		b.WriteString(style.Indented(style.Symbol(report.SymbolFailed)+" ", style.SymbolWidth()+1, problem.Text))
	}
	if len(p.Rules) > 0 {
		_ = rules.WriteBack(&b, style, p.Rules)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
