// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/pkg/cloudstack"
)

const (
	leaderTimeout = time.Minute
	leaderPoll    = 500 * time.Millisecond
)

// Options are what the operator says of a takeover.
type Options struct {
	Clock    clock.Clock
	Progress report.Progress
	// Accept and Pin name Services (namespace/name, or All) whose changes are agreed to, or kept from
	// happening by an annotation. Pin wins.
	Accept, Pin []string
	// ClusterID as the chart will be told; "" = as the controller chooses it.
	ClusterID string
}

// Taker carries a plan out.
type Taker struct {
	Options
	Source
	Plan *Plan
}

// NewTaker carries out a plan that rests on what Detect found at the same source.
func NewTaker(s Source, p *Plan, o Options) *Taker { return &Taker{Options: o, Source: s, Plan: p} }

// step makes a step of the engine. Each looks first and does only what is missing, so a takeover that ended early is
// continued by running it again.
func step(name string, do func(ctx context.Context) error) engine.Step {
	return engine.Step{Name: name, Do: func(ctx context.Context, _ engine.Note) error { return do(ctx) }}
}

// Before are the steps before the chart is installed.
func (t *Taker) Before() []engine.Step {
	steps := []engine.Step{step("record of what was", t.record)}
	if t.oldEndsFirst() {
		steps = append(steps, step("swap", t.swap))
	}
	return steps
}

// After are the steps once csccm's Pods run.
func (t *Taker) After() []engine.Step {
	steps := []engine.Step{step("new leader", t.awaitLeader), step("rules", t.verify), step("mark on the old controller", t.markKept)}
	if !t.oldEndsFirst() {
		steps = append([]engine.Step{step("swap", t.swap)}, steps...)
	}
	return steps
}

func (t *Taker) oldEndsFirst() bool { return t.Plan.Order == OldFirst && !t.Plan.Own.Installed }

// Check returns why the plan may not be carried out.
func (t *Taker) Check() error {
	if err := Blocked(t.Plan.Problems); err != nil {
		return err
	}
	// A pin with a wrong name would keep nothing, and --accept all would then agree to the change.
	if unknown := t.Plan.unknown(t.Accept, t.Pin); len(unknown) > 0 {
		return report.Usage(
			"--accept or --pin names what is no Service of type LoadBalancer of the controller's: "+strings.Join(unknown, ", ")+"; nothing was changed",
			"correct the name: the plan lists the Services; kubectl get services --all-namespaces shows all")
	}
	if open := t.Plan.Undecided(t.Accept, t.Pin); len(open) > 0 {
		return noConsent(open)
	}
	return nil
}

// Ask has the person at the terminal decide about every Service that needs consent and has none.
func (t *Taker) Ask(ctx context.Context, p prompt.Prompter) error {
	for _, s := range t.Plan.Undecided(t.Accept, t.Pin) {
		var choices []prompt.Choice
		if pins := s.Pins(); pins != nil {
			var sets []string
			for _, name := range slices.Sorted(maps.Keys(pins)) {
				sets = append(sets, fmt.Sprintf("%s=%q", name, pins[name]))
			}
			choices = append(choices, prompt.Choice{Value: "pin", Label: "keep the current state (sets " + strings.Join(sets, ", ") + ")"})
		}
		choices = append(choices, prompt.Choice{Value: "accept", Label: "agree to the change"}, prompt.Choice{Value: "stop", Label: "stop here"})
		answer, err := p.Select(ctx, prompt.Question{Message: "Service " + s.Service, Flag: "--accept or --pin " + s.Service, Help: strings.Join(s.consents(), "; ")}, choices)
		switch {
		case err != nil:
			return err
		case answer == "pin":
			t.Pin = append(t.Pin, s.Service)
		case answer == "accept":
			t.Accept = append(t.Accept, s.Service)
		default:
			return noConsent([]*ServicePlan{s})
		}
	}
	return nil
}

// swap ends the old controller and gives the rules the names that ours knows. Where ours stands by
// already, csccm holds the lease meanwhile.
func (t *Taker) swap(ctx context.Context) error {
	running := t.Plan.Running()
	hold := len(running) > 0 && (t.Plan.Order == OursFirst || t.Plan.Own.Installed)
	return t.whileHolding(ctx, hold, running, func() error {
		for i := range running {
			t.Progress.Step("Stopping %s", &running[i])
			if err := t.stop(ctx, &running[i]); err != nil {
				return err
			}
			t.Progress.Done("its last Pod is gone")
		}
		return t.rules(ctx)
	})
}

// whileHolding calls do, and keeps every controller from leading meanwhile if hold is set or a csccm that was killed holds the
// lease. The Pods of ended are gone when do returns.
func (t *Taker) whileHolding(ctx context.Context, hold bool, ended []family.Predecessor, do func() error) error {
	name := t.Plan.Own.Lease
	l, err := lease.Get(ctx, t.Kube, name)
	if err != nil {
		return err
	}
	if !hold && !lease.ByCSCCM(lease.Holder(l)) {
		return do()
	}
	var names []string
	for i := range ended {
		names = append(names, ended[i].Name)
	}
	t.Progress.Step("Holding lease %s", name)
	end, err := lease.Hold(ctx, t.Kube, t.Clock, name, names)
	if err != nil {
		return err
	}
	t.Progress.Done("no controller leads meanwhile")
	return errors.Join(do(), end())
}

func (t *Taker) rules(ctx context.Context) error {
	steps := t.Plan.Rules.Steps
	if len(steps) == 0 {
		return nil
	}
	t.Progress.Step("Rules to change in place: %d", len(steps))
	a := &rules.Applier{API: t.API, Jobs: t.API.Jobs(), ProjectID: t.Plan.project}
	if done, err := a.Apply(ctx, steps); err != nil {
		return report.Remedied(fmt.Errorf("%d of %d rules: %w", done, len(steps), err), "run the same command again to go on, or go back with: csccm takeover --undo")
	}
	t.Progress.Done("")
	return nil
}

// awaitLeader waits until one of our Pods leads.
func (t *Taker) awaitLeader(ctx context.Context) error {
	t.Progress.Step("Waiting for the new controller to lead")
	name, text := t.Plan.Own.Lease, ""
	leads, err := engine.Poll(ctx, t.Clock, leaderPoll, leaderTimeout, func() (bool, error) {
		text = "nobody holds it"
		l, err := lease.Get(ctx, t.Kube, name)
		age, lasts, held := lease.Age(l, t.Clock)
		switch {
		case err != nil:
			text = err.Error()
		case held:
			text = fmt.Sprintf("%s holds it, renewed %s ago", lease.Holder(l), age.Round(time.Second))
			if age <= lasts && !lease.ByCSCCM(lease.Holder(l)) {
				t.Progress.Done("%s", lease.Holder(l))
				return true, nil
			}
		}
		return false, nil
	})
	if err == nil && !leads {
		err = report.Remedied(fmt.Errorf("no controller leads after %s: lease %s, %s", leaderTimeout, name, text), "look at the controller's log; csccm takeover --undo goes back to the old one")
	}
	return err
}

// verify reads the rules again: those that were to stay have their ids and addresses.
func (t *Taker) verify(ctx context.Context) error {
	have, err := t.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: t.Plan.project})
	if err != nil {
		return fmt.Errorf("reading the rules again: %w", err)
	}
	now := map[string]string{}
	for i := range have {
		now[have[i].ID] = have[i].PublicIP
	}
	t.Progress.Step("Rules and addresses")
	kept := 0
	var lost []string
	for i := range t.Plan.Services {
		s := &t.Plan.Services[i]
		changes := slices.ContainsFunc(s.Differences, func(d Difference) bool {
			return d.Consent && (d.Kind == KindGap || d.Kind == KindPortRemoved || d.Kind == KindAddress)
		})
		for _, id := range s.Rules {
			switch ip, there := now[id]; {
			case there && ip != "":
				kept++
			case !changes:
				lost = append(lost, fmt.Sprintf("%s of Service %s", id, s.Service))
			}
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("rules are gone that were to stay: %v", lost)
	}
	t.Progress.Done("ids kept: %d", kept)
	return nil
}

const (
	stopPoll    = 250 * time.Millisecond
	stopTimeout = 2 * time.Minute
)

var byCSCCM = metav1.PatchOptions{FieldManager: "csccm"}

// patch changes a workload: one body for a Deployment, another for a DaemonSet.
func (t *Taker) patch(ctx context.Context, p *family.Predecessor, deployment, daemonSet string) error {
	apps, merge := t.Kube.AppsV1(), types.MergePatchType
	var err error
	switch p.Kind {
	case "Deployment":
		_, err = apps.Deployments(p.Namespace).Patch(ctx, p.Name, merge, []byte(deployment), byCSCCM)
	case "DaemonSet":
		_, err = apps.DaemonSets(p.Namespace).Patch(ctx, p.Name, merge, []byte(daemonSet), byCSCCM)
	default:
		err = fmt.Errorf("csccm cannot change a %s", p.Kind)
	}
	return err
}

// stop scales a predecessor to nothing and waits until its last Pod is gone.
func (t *Taker) stop(ctx context.Context, p *family.Predecessor) error {
	before := ""
	if p.Wanted > 0 {
		before = fmt.Sprintf(`"metadata":{"annotations":{%q:"%d"}},`, family.ReplicasAnnotation, p.Wanted)
	}
	err := t.patch(ctx, p, "{"+before+`"spec":{"replicas":0}}`, fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, family.StoppedSelector))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", p, err)
	}
	return t.awaitNoPods(ctx, p)
}

// markKept ends the takeover: later ones find no other controller.
func (t *Taker) markKept(ctx context.Context) error {
	mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, family.KeptAnnotation)
	for i := range t.Plan.Predecessors {
		p := &t.Plan.Predecessors[i]
		if err := t.patch(ctx, p, mark, mark); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking %s as kept: %w", p, err)
		}
	}
	return nil
}

func (t *Taker) awaitNoPods(ctx context.Context, p *family.Predecessor) error {
	if len(p.Selector) == 0 {
		return nil
	}
	var left []corev1.Pod
	ended, err := engine.Poll(ctx, t.Clock, stopPoll, stopTimeout, func() (bool, error) {
		pods, err := t.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(p.Selector).String()})
		if err != nil {
			return false, fmt.Errorf("waiting for the Pods of %s to end: %w", p, err)
		}
		left = pods.Items
		return len(left) == 0, nil
	})
	if err == nil && !ended {
		err = fmt.Errorf("Pod %s of %s does not end; nothing was changed in CloudStack", left[0].Name, p) //nolint:staticcheck // Pod is a name
	}
	return err
}
