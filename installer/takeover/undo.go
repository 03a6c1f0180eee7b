// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// PlanUndo plans the way back from a takeover by what Detect found, which includes what the takeover kept on Services and
// workloads. It is pure.
func PlanUndo(f *Facts) *Plan {
	p := &Plan{Undo: true, Own: f.Own, project: f.Project}
	for i := range f.Services {
		if was, recorded := rules.RecordOf(&f.Services[i], BeforeAnnotation); recorded {
			p.Services = append(p.Services, p.service(&f.Services[i], was, f.Rules))
		}
	}
	p.predecessors(f)
	for i := range p.Own.Workloads {
		if own := &p.Own.Workloads[i]; !own.Helm {
			p.Problem = report.Refused("take csccm's chart out of what applies it, delete "+own.String()+", then run the command again",
				"%s is of no Helm release: what applied it would start it again beside the old controller", own)
		}
	}
	return p
}

// pinnable are the annotations that a takeover sets.
var pinnable = []string{annotation.ProxyProtocol, annotation.Algorithm, annotation.SourceCIDRs, annotation.Mode}

// service plans for one Service the rules that still have the names that the takeover gave them, and the annotations that it set.
func (p *Plan) service(svc *corev1.Service, was rules.Record, now []cloudstack.LoadBalancerRule) ServicePlan {
	s := ServicePlan{Service: svc.Namespace + "/" + svc.Name, back: map[string]*string{BeforeAnnotation: nil}}
	steps, stays := rules.Undo(svc, was.Rules, now)
	for i := range steps {
		s.Rules, s.Address, s.Changes = append(s.Rules, steps[i].RuleID), steps[i].PublicIP, append(s.Changes, changeOf(&steps[i]))
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
			s.back[name], s.Changes = c.Was, append(s.Changes, fmt.Sprintf("~ set annotation %s=%q on the Service", name, *c.Was))
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
		case !old.Replaceable():
		case old.Wanted > 0 && (len(p.Own.Workloads) > 0 || len(p.Steps) > 0):
			p.Problem = report.Refused("stop it first, as the takeover did (docs/migrate.md#back), then run the command again",
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

// needed reports whether anything is left to do.
func (p *Plan) needed() bool {
	if p.Undo {
		stopped := func(old family.Predecessor) bool { return old.Ready == 0 }
		return len(p.Own.Workloads)+len(p.Services) > 0 || slices.ContainsFunc(p.Predecessors, stopped)
	}
	return p.Order != ""
}

// Back are the steps of an undo. Their order keeps two controllers from acting at once: ours ends, then csccm alone gives rules
// and annotations back what they had, then the old one starts. An undo that ended early is continued by running it again.
func (t *Taker) Back() []engine.Step {
	steps := []engine.Step{step("swap back", t.swap)}
	for i := range t.Plan.Predecessors {
		start := func(ctx context.Context) error { return t.start(ctx, &t.Plan.Predecessors[i]) }
		steps = append(steps, step("start of the old controller", start))
	}
	return steps
}

// start gives an old controller its Pods back and waits until it works.
func (t *Taker) start(ctx context.Context, old *family.Predecessor) error {
	t.Progress.Step("Starting %s", old)
	spec := fmt.Sprintf(`{"replicas":%d}`, old.Wanted)
	if old.Kind == "DaemonSet" {
		spec = fmt.Sprintf(`{"template":{"spec":{"nodeSelector":{%q:null}}}}`, family.StoppedSelector)
	}
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}},"spec":%s}`, family.ReplicasAnnotation, family.KeptAnnotation, spec)
	if err := t.patch(ctx, old, body); err != nil {
		return err
	}
	// Without an election only a Pod that is ready tells that it works.
	ready, err := engine.Poll(ctx, t.Clock, poll, stopTimeout, func() (bool, error) {
		f, err := family.Find(ctx, t.Cluster.Kube, t.Release, t.Cluster.Namespace)
		return err == nil && slices.ContainsFunc(f.Predecessors, func(x family.Predecessor) bool { return x.String() == old.String() && x.Ready > 0 }), err
	})
	if err == nil && !ready {
		err = fmt.Errorf("no Pod of %s is ready after %s", old, stopTimeout)
	}
	if err == nil {
		t.Progress.Done("ready")
	}
	if err == nil && old.Lease != nil {
		err = t.awaitLeader(ctx, *old.Lease)
	}
	if err != nil && ctx.Err() == nil {
		err = report.Remedied(err, "look at its Pods and their log; run the command again to go on, or csccm install, which takes its place again")
	}
	return err
}
