// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
)

// Undoer carries the way back out. The order keeps two controllers from acting at once: ours ends, then csccm alone gives
// rules and annotations back what they had, then the old one starts. An undo that ended early is continued by running it
// again.
type Undoer struct {
	taker   *Taker
	plan    *UndoPlan
	release string
}

// NewUndoer carries out a plan that rests on the records and on what Detect found at the same source. Of the options
// Accept, Pin and KeepOld are not heeded.
func NewUndoer(ctx context.Context, s Source, p *UndoPlan, o Options) (*Undoer, error) {
	t, err := NewTaker(ctx, s, &Plan{Own: Own{Lease: p.Lease}}, o)
	if err != nil {
		return nil, err
	}
	return &Undoer{taker: t, plan: p, release: s.Release}, nil
}

// Journal is the path of the journal of the rules; "" when none were changed.
func (u *Undoer) Journal() string { return u.taker.Journal() }

// Steps are all of the way back.
func (u *Undoer) Steps() []engine.Step {
	t := u.taker
	return []engine.Step{t.step("swap back", u.swap), t.step("start of the old controller", u.start), t.step("record", u.forget)}
}

// swap ends our controller and gives rules and annotations back what they had, while csccm holds the lease.
func (u *Undoer) swap(ctx context.Context) (err error) {
	t, p := u.taker, u.plan
	if err := Blocked(p.Problems); err != nil {
		return err
	}
	left, err := leftHold(ctx, t.Kube, p.Lease)
	if err != nil {
		return err
	}
	if len(p.ours)+len(p.Rules)+len(p.Annotations) > 0 || left {
		end, herr := t.hold(ctx, p.Lease)
		if herr != nil {
			return herr
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	if err := u.endOurs(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(t.Dir, 0o700); err != nil { // for the journal of the rules
		return err
	}
	t.Plan.Rules.Steps = p.Rules
	if err := t.rules(ctx); err != nil {
		return err
	}
	return u.unpin(ctx)
}

// endOurs deletes our workloads, which an install or an upgrade makes again, and waits for their last Pod: also for those
// that an undo that was killed has left.
func (u *Undoer) endOurs(ctx context.Context) error {
	t, apps := u.taker, u.taker.Kube.AppsV1()
	background := metav1.DeletePropagationBackground
	t.Progress.Step("Ending csccm's controller")
	for i := range u.plan.ours {
		own := &u.plan.ours[i]
		var err error
		if own.Kind == "DaemonSet" {
			err = apps.DaemonSets(own.Namespace).Delete(ctx, own.Name, metav1.DeleteOptions{PropagationPolicy: &background})
		} else {
			err = apps.Deployments(own.Namespace).Delete(ctx, own.Name, metav1.DeleteOptions{PropagationPolicy: &background})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("ending %s: %w", own, err)
		}
	}
	all := &Predecessor{Kind: "release", Namespace: t.Namespace, Name: u.release, selector: map[string]string{
		"app.kubernetes.io/name": chartName, "app.kubernetes.io/instance": u.release,
	}}
	if err := t.awaitNoPods(ctx, all); err != nil {
		return err
	}
	t.Progress.Done("its last Pod is gone")
	return nil
}

// unpin gives annotations their values of before; one that was not there goes.
func (u *Undoer) unpin(ctx context.Context) error {
	for i := range u.plan.Annotations {
		pin := &u.plan.Annotations[i]
		namespace, name, _ := strings.Cut(pin.Service, "/")
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{pin.Annotation: pin.Before}}})
		if err != nil {
			return err
		}
		_, err = u.taker.Kube.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "csccm"})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("annotating Service %s: %w", pin.Service, err)
		}
		u.taker.info("%s: %s %s", pin.Service, pin.Annotation, before(pin))
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
		u.taker.Progress.Step("Starting %s", old)
		if err := u.scaleUp(ctx, old); err != nil {
			return fmt.Errorf("starting %s: %w", old, err)
		}
		if err := u.awaitReady(ctx, old); err != nil {
			return err
		}
		u.taker.Progress.Done("ready")
		if old.Lease == nil {
			continue
		}
		u.taker.Plan.Own.Lease = *old.Lease
		if err := u.taker.awaitLeader(ctx); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return report.Remedied(err, "look at the log of the old controller's Pods; run the command again to go on, or csccm install, which takes its place again")
		}
	}
	return nil
}

func (u *Undoer) scaleUp(ctx context.Context, old *Predecessor) error {
	apps, o := u.taker.Kube.AppsV1(), metav1.PatchOptions{FieldManager: "csccm"}
	notes := fmt.Sprintf(`"metadata":{"annotations":{%q:null,%q:null}}`, replicasAnnotation, keptAnnotation)
	var err error
	if old.Kind == "DaemonSet" {
		patch := fmt.Appendf(nil, `{%s,"spec":{"template":{"spec":{"nodeSelector":{%q:null}}}}}`, notes, stoppedSelector)
		_, err = apps.DaemonSets(old.Namespace).Patch(ctx, old.Name, types.MergePatchType, patch, o)
	} else {
		patch := fmt.Appendf(nil, `{%s,"spec":{"replicas":%d}}`, notes, old.Wanted)
		_, err = apps.Deployments(old.Namespace).Patch(ctx, old.Name, types.MergePatchType, patch, o)
	}
	return err
}

// awaitReady waits for a Pod that is ready: without an election nothing else tells that it works.
func (u *Undoer) awaitReady(ctx context.Context, old *Predecessor) error {
	t := u.taker
	deadline := t.Clock.After(stopTimeout)
	for {
		f := &Facts{Own: Own{Lease: DefaultLease}}
		if err := FindControllers(ctx, t.Kube, u.release, t.Namespace, f); err != nil {
			return err
		}
		for i := range f.Predecessors {
			if x := &f.Predecessors[i]; x.String() == old.String() && x.ready > 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			return report.Remedied(fmt.Errorf("no Pod of %s is ready after %s", old, stopTimeout), "look at its Pods and its log; run the command again to go on, or csccm install, which takes its place again")
		case <-t.Clock.After(stopPoll):
		}
	}
}

// forget empties the record in the cluster: what it says is so no longer. The file on the machine of the takeover stays.
func (u *Undoer) forget(ctx context.Context) error {
	maps := u.taker.Kube.CoreV1().ConfigMaps(u.taker.Namespace)
	c, err := maps.Get(ctx, RecordConfigMap, metav1.GetOptions{})
	if err == nil {
		c = c.DeepCopy()
		c.Data = nil
		_, err = maps.Update(ctx, c, metav1.UpdateOptions{FieldManager: "csccm"})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("emptying ConfigMap %s/%s: %w", u.taker.Namespace, RecordConfigMap, err)
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
		old := &p.Predecessors[i]
		if old.Wanted == 0 {
			continue
		}
		fmt.Fprintf(&b, "Starts then: %s (%s, image %s), %s\n", old, old.Family, old.Image, started(old))
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
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if len(p.Rules) == 0 {
		return nil
	}
	return migrate.WriteBack(out, style, p.Rules)
}
