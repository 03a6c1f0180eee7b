// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
)

// Undoer carries the way back out. The order keeps two controllers from acting at once: ours ends, then csccm alone gives
// rules and annotations back what they had, then the old one starts. An undo that ended early is continued by running it
// again.
type Undoer struct {
	*Taker
	plan *UndoPlan
}

// NewUndoer carries out a plan that rests on the records and on what Detect found at the same source. Of the options
// Accept, Pin and KeepOld are not heeded.
func NewUndoer(s Source, p *UndoPlan, o Options) *Undoer {
	return &Undoer{NewTaker(s, &Plan{Own: Own{Lease: p.Lease}, Rules: migrate.Plan{Steps: p.Rules}, project: p.project}, o), p}
}

// Steps are all of the way back.
func (u *Undoer) Steps() []engine.Step {
	return []engine.Step{u.step("swap back", u.swap), u.step("start of the old controller", u.start), u.step("record", u.forget)}
}

// swap ends our controller and gives rules and annotations back what they had, while csccm holds the lease.
func (u *Undoer) swap(ctx context.Context) (err error) {
	p := u.plan
	if err := Blocked(p.Problems); err != nil {
		return err
	}
	left, err := leftHold(ctx, u.Kube, p.Lease)
	if err != nil {
		return err
	}
	if len(p.ours)+len(p.Rules)+len(p.Annotations) > 0 || left {
		var ended []string
		for _, own := range p.ours {
			ended = append(ended, own.Name)
		}
		end, herr := u.hold(ctx, p.Lease, ended)
		if herr != nil {
			return herr
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	if err := u.endOurs(ctx); err != nil {
		return err
	}
	if err := u.rules(ctx); err != nil {
		return err
	}
	return u.unpin(ctx)
}

// endOurs deletes our workloads, which an install or an upgrade makes again, and waits for their last Pod: also for those
// that an undo that was killed has left.
func (u *Undoer) endOurs(ctx context.Context) error {
	u.Progress.Step("Ending csccm's controller")
	for _, own := range u.plan.ours {
		if err := u.delete(ctx, object{own.Kind, own.Namespace, own.Name}); err != nil {
			return err
		}
	}
	all := &Predecessor{Kind: "release", Namespace: u.Namespace, Name: u.Release, selector: map[string]string{
		"app.kubernetes.io/name": chartName, "app.kubernetes.io/instance": u.Release,
	}}
	if err := u.awaitNoPods(ctx, all); err != nil {
		return err
	}
	u.Progress.Done("its last Pod is gone")
	return nil
}

// unpin gives annotations their values of before; one that was not there goes.
func (u *Undoer) unpin(ctx context.Context) error {
	for i := range u.plan.Annotations {
		pin := &u.plan.Annotations[i]
		if err := u.annotate(ctx, pin, pin.Before); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		u.Progress.Info("%s: %s %s", pin.Service, pin.Annotation, before(pin))
	}
	return nil
}

func before(pin *PinRecord) string {
	if pin.Before == nil {
		return "is removed"
	}
	return fmt.Sprintf("is %q again", *pin.Before)
}

// start gives the old controllers their Pods back and waits until they work.
func (u *Undoer) start(ctx context.Context) error {
	for i := range u.plan.Predecessors {
		old := &u.plan.Predecessors[i]
		if old.Wanted == 0 {
			continue // it was stopped before the takeover
		}
		u.Progress.Step("Starting %s", old)
		if err := u.scaleUp(ctx, old); err != nil {
			return fmt.Errorf("starting %s: %w", old, err)
		}
		if err := u.awaitReady(ctx, old); err != nil {
			return err
		}
		u.Progress.Done("ready")
		if old.Lease == nil {
			continue
		}
		u.Plan.Own.Lease = *old.Lease
		if err := u.awaitLeader(ctx); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return report.Remedied(err, "look at the log of the old controller's Pods; run the command again to go on, or csccm install, which takes its place again")
		}
	}
	return nil
}

func (u *Undoer) scaleUp(ctx context.Context, old *Predecessor) error {
	notes := fmt.Sprintf(`"metadata":{"annotations":{%q:null,%q:null}}`, replicasAnnotation, keptAnnotation)
	return u.patch(ctx, old, fmt.Sprintf(`{%s,"spec":{"replicas":%d}}`, notes, old.Wanted),
		fmt.Sprintf(`{%s,"spec":{"template":{"spec":{"nodeSelector":{%q:null}}}}}`, notes, stoppedSelector))
}

// awaitReady waits for a Pod that is ready: without an election nothing else tells that it works.
func (u *Undoer) awaitReady(ctx context.Context, old *Predecessor) error {
	ready, err := engine.Poll(ctx, u.Clock, stopPoll, stopTimeout, func() (bool, error) {
		f, err := FindControllers(ctx, u.Kube, u.Release, u.Namespace)
		return err == nil && slices.ContainsFunc(f.Predecessors, func(x Predecessor) bool { return x.String() == old.String() && x.ready > 0 }), err
	})
	if err == nil && !ready {
		err = report.Remedied(fmt.Errorf("no Pod of %s is ready after %s", old, stopTimeout), "look at its Pods and its log; run the command again to go on, or csccm install, which takes its place again")
	}
	return err
}

// forget empties the record in the cluster: what it says is so no longer. The file on the machine of the takeover stays.
func (u *Undoer) forget(ctx context.Context) error {
	maps := u.Kube.CoreV1().ConfigMaps(u.Namespace)
	c, err := maps.Get(ctx, RecordConfigMap, metav1.GetOptions{})
	if err == nil {
		c = c.DeepCopy()
		c.Data = nil
		_, err = maps.Update(ctx, c, metav1.UpdateOptions{FieldManager: "csccm"})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("emptying ConfigMap %s/%s: %w", u.Namespace, RecordConfigMap, err)
	}
	return nil
}

// WriteText prints the plan for a person.
func (p *UndoPlan) WriteText(out io.Writer, style report.Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Back to before the takeover of %s\n", p.Taken.UTC().Format(time.RFC3339))
	for _, own := range p.Ours {
		fmt.Fprintf(&b, "Ends first: %s\n", own)
	}
	for i := range p.Predecessors {
		if old := &p.Predecessors[i]; old.Wanted > 0 {
			fmt.Fprintf(&b, "Starts then: %s (%s, image %s), %s\n", old, old.Family, old.Image, started(old))
		}
	}
	for i := range p.Annotations {
		fmt.Fprintf(&b, "Annotation: %s: %s %s\n", p.Annotations[i].Service, p.Annotations[i].Annotation, before(&p.Annotations[i]))
	}
	for _, stays := range p.Stays {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, stays))
	}
	for _, problem := range p.Problems {
		b.WriteString(style.Indented(style.Symbol(report.SymbolFailed)+" ", style.SymbolWidth()+1, problem.Text))
	}
	if len(p.Rules) > 0 {
		_ = migrate.WriteBack(&b, style, p.Rules)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
