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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/addresses"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
	"github.com/csccm/csccm/pkg/cloudstack"
)

const (
	leaderTimeout = time.Minute
	stopTimeout   = 2 * time.Minute
	interval      = 250 * time.Millisecond
)

// step returns a step of the engine. Every step does only what is missing, so a takeover that was interrupted continues
// when the command is run again.
func step(name string, do func(ctx context.Context) error) engine.Step {
	return engine.Step{Name: "takeover: " + name, Do: do}
}

// WayBack tells the user how to go back when a takeover has failed midway.
const WayBack = "csccm takeover --undo brings the old controller back"

// Before returns the steps before the chart is installed.
func (t *Taker) Before() []engine.Step {
	steps := []engine.Step{step("record of the current state", t.record)}
	if t.oldEndsFirst() {
		steps = append(steps, guarded(step("swap", t.swap))...)
	}

	return steps
}

// After returns the steps once csccm's Pods run.
func (t *Taker) After() []engine.Step {
	leads := func(ctx context.Context) error { return t.awaitLeader(ctx, t.Plan.Own.Lease) }
	steps := []engine.Step{
		step("new leader", leads),
		step("rules", t.verify),
		step("addresses", t.adopt),
		step("mark on the old controller", t.markReplaced),
	}
	if !t.oldEndsFirst() {
		steps = append([]engine.Step{step("swap", t.swap)}, steps...)
	}

	return guarded(steps...)
}

// Around adds the steps of the takeover before and after those that install the chart and wait for its Pods.
func (t *Taker) Around(install []engine.Step) []engine.Step {
	if t.oldEndsFirst() {
		install = guarded(install...)
	}
	return slices.Concat(t.Before(), install, t.After())
}

// guarded sets WayBack on steps that run when the old controller may already be stopped.
func guarded(steps ...engine.Step) []engine.Step {
	for i := range steps {
		steps[i].Back = WayBack
	}
	return steps
}

// oldEndsFirst reports whether the old controller is stopped before csccm's controller is installed.
func (t *Taker) oldEndsFirst() bool { return t.Plan.Order == OldFirst && t.Plan.Own.Ready == 0 }

// Back returns the steps of an undo. Their order keeps two controllers from acting at the same time: all controllers
// end, then csccm restores rules and annotations, then the old controller starts. An undo that was
// interrupted continues when the command is run again.
func (t *Taker) Back() []engine.Step {
	steps := []engine.Step{step("swap back", t.swap)}
	for _, predecessor := range t.Plan.Predecessors {
		start := func(ctx context.Context) error { return t.start(ctx, &predecessor) }
		steps = append(steps, step("start of the old controller", start))
	}
	return steps
}

// Consent asks at the terminal about the Services whose changes still need consent. It returns an error if the plan may
// not be carried out.
func (t *Taker) Consent(ctx context.Context) error {
	names, _ := t.Plan.undecided(t.Options)
	if len(names) == 0 || t.Plan.Problem != nil || !t.Asks() {
		return t.check()
	}

	answer, err := t.Prompt.Ask(ctx, prompt.Question{
		Message: "Services that would change: " + strings.Join(names, ", "),
		Flag:    "--accept or --pin",
		Choices: []prompt.Choice{
			{Value: "pin", Label: "keep the current state where annotations can, and agree to the rest"},
			{Value: "accept", Label: "agree to the changes"},
			{Value: "stop", Label: "stop here"},
		},
	})
	if err != nil {
		return err
	}

	if answer == "pin" {
		t.Pin = append(t.Pin, names...)
	}

	if answer != "stop" {
		t.Accept = append(t.Accept, names...)
	}

	return t.check()
}

// AskAddresses asks at the terminal whether csccm's controller may release the addresses that the old one acquired.
func (t *Taker) AskAddresses(ctx context.Context) error {
	services := t.Plan.adopting()
	if t.Adopt != "" || len(services) == 0 || t.Plan.Problem != nil || !t.Asks() {
		return nil //nolint:nilerr // a plan with a problem is not carried out, and says so itself
	}

	answer, err := t.Prompt.Ask(ctx, prompt.Question{
		Message: report.Count(len(services), "address") + " that the old controller acquired",
		Flag:    "--adopt-addresses",
		Default: "yes",
		Choices: []prompt.Choice{
			{Value: "yes", Label: "release them when their Services are deleted"},
			{Value: "no", Label: "leave them allocated; csccm adopt can do it later"},
		},
	})
	t.Adopt = answer
	return err
}

// check returns an error if the plan may not be carried out.
func (t *Taker) check() error {
	if t.Plan.Problem != nil {
		return t.Plan.Problem
	}

	// A misspelled name in Pin would pin nothing, and --accept all would then accept the change.
	for _, name := range slices.Concat(t.Accept, t.Pin) {
		if name != All && !slices.ContainsFunc(t.Plan.Services, func(s ServicePlan) bool { return s.Service == name }) {
			return report.Usage(
				"correct the name: the plan lists the Services; kubectl get services --all-namespaces shows all",
				"--accept or --pin names %s, which is not a LoadBalancer Service of this controller; nothing "+
					"was changed", name,
			)
		}
	}

	names, changes := t.Plan.undecided(t.Options)
	if len(names) == 0 {
		return nil
	}

	list := strings.Join(names, ",")
	return report.CheckFailed(
		fmt.Sprintf("accept it with --accept %s, or keep what an annotation can keep with --pin %s", list, list),
		"the takeover would change how Services are served: %s", strings.Join(changes, "; "),
	)
}

// swap ends one controller and renames the rules for the other one. An undo also restores the annotations of Services.
// csccm holds the lease during the swap if the other controller may already wait for it.
func (t *Taker) swap(ctx context.Context) error {
	if err := t.check(); err != nil {
		return err
	}

	p := t.Plan
	ending, hold := p.running, len(p.running) > 0 && (p.Order == OursFirst || p.Own.Installed)
	if p.Undo {
		ending = slices.Concat(p.running, p.Own.Workloads)
		hold = len(p.Own.Workloads)+len(p.Services) > 0
	}

	return t.whileHolding(ctx, hold, ending, func() error {
		err := t.stop(ctx, p.running)
		if err == nil && p.Undo {
			err = t.remove(ctx)
		}

		if err != nil {
			return err
		}

		a := &rules.Applier{
			API:      t.Cloud.Client,
			Project:  p.project,
			Progress: t.Progress,
			Note:     t.Note,
			Undo:     "csccm takeover --undo",
		}
		if err := a.Apply(ctx, p.Steps); err != nil {
			return err
		}

		for _, s := range p.Services {
			if len(s.back) > 0 {
				if err := rules.Annotate(ctx, t.Cluster.Kube, s.Service, s.back); err != nil &&
					!apierrors.IsNotFound(err) {
					return err
				}
			}
		}

		return t.unadopt(ctx)
	})
}

// stop scales the old controllers to zero (a DaemonSet gets a node selector that matches no node), and waits until
// their Pods no longer exist.
func (t *Taker) stop(ctx context.Context, old []family.Predecessor) error {
	for _, p := range old {
		t.Progress.Step("Stopping %s", &p)

		body := fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, family.StoppedSelector)
		if p.Kind != "DaemonSet" {
			body = fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}},"spec":{"replicas":0}}`,
				family.ReplicasAnnotation, p.Wanted)
		}

		err := t.patch(ctx, &p, body)
		if err == nil && len(p.Selector) > 0 {
			err = t.ended(ctx, p.String(), p.Namespace,
				metav1.ListOptions{LabelSelector: labels.SelectorFromSet(p.Selector).String()})
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// remove deletes the workloads of csccm's controller, which an install or an upgrade creates again. It waits until no
// Pod of the release exists, including Pods whose workload an earlier, interrupted undo deleted.
func (t *Taker) remove(ctx context.Context) error {
	t.Progress.Step("Stopping csccm's controller")
	for _, own := range t.Plan.Own.Workloads {
		del := t.Cluster.Kube.AppsV1().Deployments(own.Namespace).Delete
		if own.Kind == "DaemonSet" {
			del = t.Cluster.Kube.AppsV1().DaemonSets(own.Namespace).Delete
		}

		err := del(ctx, own.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", &own, err)
		}
	}

	return t.ended(ctx, "release "+t.Release, t.Cluster.Namespace, cluster.OfRelease(t.Release))
}

// ended waits until no Pod of a workload exists.
func (t *Taker) ended(ctx context.Context, workload, namespace string, pods metav1.ListOptions) error {
	if err := rollout.AwaitEnd(ctx, t.Env, workload, namespace, pods); err != nil {
		return fmt.Errorf("%w; nothing was changed in CloudStack", err)
	}

	t.Progress.Done("its last Pod has ended")
	return nil
}

// whileHolding calls do. If hold is set, or if the lease is held by a csccm that was killed, it holds the lease
// meanwhile, so that no controller leads. ended are the controllers whose Pods no longer exist when do returns.
func (t *Taker) whileHolding(ctx context.Context, hold bool, ended []family.Predecessor, do func() error) error {
	name := t.Plan.Own.Lease
	l, err := lease.Get(ctx, t.Cluster.Kube, name)
	if err != nil {
		return err
	}

	if !hold && !lease.ByCSCCM(lease.Holder(l)) {
		return do()
	}

	t.Progress.Step("Holding lease %s", name)
	end, err := lease.Hold(ctx, t.Cluster.Kube, t.Clock, name,
		cloudapi.Names(ended, func(p *family.Predecessor) string { return p.Name }))
	if err != nil {
		return err
	}

	t.Progress.Done("no controller leads meanwhile")
	return errors.Join(do(), end())
}

// awaitLeader waits until a controller leads.
func (t *Taker) awaitLeader(ctx context.Context, name lease.Name) error {
	t.Progress.Step("Waiting for the new controller to lead")

	holder := ""
	leads, err := poll.Until(ctx, t.Clock, interval, leaderTimeout, func() (bool, error) {
		l, err := lease.Get(ctx, t.Cluster.Kube, name)
		age, lasts, hasHolder := lease.Age(l, t.Clock)
		holder = lease.Holder(l)
		return hasHolder && age <= lasts && !lease.ByCSCCM(holder), err
	})

	if err == nil && !leads {
		err = report.Errorf(
			"look at the controller's log; "+WayBack,
			"no controller leads after %s: lease %s, last holder %q", leaderTimeout, name, holder,
		)
	} else if err == nil {
		t.Progress.Done("%s", holder)
	}

	return err
}

// verify reads the rules again, and returns an error if a rule that should have been kept no longer exists.
func (t *Taker) verify(ctx context.Context) error {
	have, err := t.Cloud.Client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: t.Plan.project})
	if err != nil {
		return fmt.Errorf("reading the rules again: %w", err)
	}

	t.Progress.Step("Rules and addresses")

	reserved := 0
	var lost []string
	for _, s := range t.Plan.Services {
		for _, id := range s.Rules {
			if slices.ContainsFunc(have, func(r cloudstack.LoadBalancerRule) bool {
				return r.ID == id && r.PublicIP != ""
			}) {
				reserved++
			} else if len(s.needs(false)) == 0 { // the plan of the Service has no change that would explain it
				lost = append(lost, fmt.Sprintf("%s of Service %s", id, s.Service))
			}
		}
	}

	if len(lost) > 0 {
		return fmt.Errorf("these rules should have been kept but no longer exist: %v", lost)
	}

	t.Progress.Done("ids kept: %d", reserved)
	return nil
}

// start starts an old controller again, and waits until it works.
func (t *Taker) start(ctx context.Context, old *family.Predecessor) error {
	t.Progress.Step("Starting %s", old)

	spec := fmt.Sprintf(`{"replicas":%d}`, old.Wanted)
	if old.Kind == "DaemonSet" {
		spec = fmt.Sprintf(`{"template":{"spec":{"nodeSelector":{%q:null}}}}`, family.StoppedSelector)
	}

	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null,%q:null}},"spec":%s}`,
		family.ReplicasAnnotation, family.ReplacedAnnotation, family.AdoptedAnnotation, spec)
	if err := t.patch(ctx, old, body); err != nil {
		return err
	}

	// A controller without leader election works if one of its Pods stays ready: without a readiness probe, a Pod is
	// ready as soon as it runs, also if it ends at once.
	since := t.Clock.Now()
	ready, err := poll.Until(ctx, t.Clock, interval, stopTimeout, func() (bool, error) {
		found, err := family.Replaceable(ctx, t.Cluster.Kube)
		ready := slices.ContainsFunc(found, func(x family.Predecessor) bool {
			return x.String() == old.String() && x.Ready > 0
		})
		if !ready {
			since = t.Clock.Now()
		}
		return ready && (old.Lease != nil || t.Clock.Since(since) >= rollout.Steady), err
	})

	if err == nil && !ready {
		err = fmt.Errorf("no Pod of %s stays ready within %s", old, stopTimeout)
	}

	if err == nil {
		t.Progress.Done("ready")
	}

	if err == nil && old.Lease != nil {
		err = t.awaitLeader(ctx, *old.Lease)
	}

	if err != nil && ctx.Err() == nil {
		err = report.Remedied(err,
			"look at its Pods and their log; run the command again to continue, or csccm install, which takes its "+
				"place again")
	}

	return err
}

// patch patches a workload. It is no error if the workload does not exist.
func (t *Taker) patch(ctx context.Context, p *family.Predecessor, body string) error {
	err := rollout.Patch(ctx, t.Cluster.Kube, p.Kind, p.Namespace, p.Name, []byte(body))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("changing %s: %w", p, err)
	}

	return nil
}

// markReplaced marks the old workloads as kept, so that a later takeover does not find them as other controllers.
func (t *Taker) markReplaced(ctx context.Context) error {
	for _, predecessor := range t.Plan.Predecessors {
		if err := t.patch(ctx, &predecessor,
			fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, family.ReplacedAnnotation)); err != nil {
			return err
		}
	}
	return nil
}

// adopt tags the addresses that the old controller acquired as csccm's. It reads CloudStack again, because somebody
// may have added other rules to an address since the plan was made. It records the ids of the addresses on the old
// workload, for an undo. If the role may not tag, it warns and leaves the addresses as they are.
func (t *Taker) adopt(ctx context.Context) error {
	services := t.Plan.adopting()
	if len(services) == 0 || t.Adopt == "no" {
		return nil
	}

	now, err := t.Detect(ctx)
	if err != nil {
		return err
	}

	var ids []string
	items := slices.DeleteFunc(
		t.Plan.openAddresses(now.Cloud, now.Services, &rules.Plan{}),
		func(it addresses.Item) bool { return !it.Undoubted() || !slices.Contains(services, it.Service) },
	)
	for _, item := range items {
		ids = append(ids, item.AddressID)
	}

	for _, old := range t.Plan.Predecessors {
		all := strings.Join(slices.Compact(slices.Sorted(slices.Values(slices.Concat(old.Adopted, ids)))), ",")
		if err := t.patch(ctx, &old,
			fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, family.AdoptedAnnotation, all)); err != nil {
			return err
		}
	}

	for i := range items {
		t.Progress.Step("Marking %s as csccm's", &items[i])
		if err := t.tagged(addresses.Tag(ctx, t.Cloud.Client, &items[i]), "csccm adopt "+items[i].Service); err != nil {
			return fmt.Errorf("tag %s: %w", &items[i], err)
		}
	}

	return nil
}

// unadopt removes the tags that a takeover set on addresses.
func (t *Taker) unadopt(ctx context.Context) error {
	for _, a := range t.Plan.Adopted {
		t.Progress.Step("Removing csccm's tags from address %s", a.Address)
		if err := t.tagged(addresses.Untag(ctx, t.Cloud.Client, a), "deleteTags"); err != nil {
			return fmt.Errorf("untag address %s: %w", a.Address, err)
		}
	}
	return nil
}

// tagged returns the error of a call about tags. If the role does not allow the call, it only warns, because traffic
// does not depend on tags.
func (t *Taker) tagged(err error, later string) error {
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		t.Progress.Warn("%v; later: %s, with the keys of a user who may", err, later)
		return nil
	}

	return err
}

// BeforeAnnotation records on a Service, before a takeover changes them, the names of its rules and its annotations.
const BeforeAnnotation = "csccm.io/before-takeover"

// record writes BeforeAnnotation and the pins on each Service, in one patch. The old controllers ignore the values of
// the pins, so nothing changes until the new controller leads.
func (t *Taker) record(ctx context.Context) error {
	if err := t.check(); err != nil {
		return err
	}

	t.Progress.Step("Record of the current state")

	pins := map[string]map[string]string{}
	for _, s := range t.Plan.Services {
		wanted := s.pins()
		if len(wanted) == 0 || !Named(t.Pin, s.Service) {
			continue
		}

		pins[s.Service] = wanted
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			t.Progress.Info("%s: %s=%q", s.Service, name, wanted[name])
		}
	}

	n, err := rules.Keep(ctx, t.Cluster.Kube, BeforeAnnotation, t.Plan.Steps, pins)
	if err == nil {
		t.Progress.Done("in annotations of %s", report.Count(n, "Service"))
	}

	return err
}
