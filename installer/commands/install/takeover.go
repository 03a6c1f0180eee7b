// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/node"
)

// findControllers looks for another provider for CloudStack. One that an earlier takeover kept, with
// no Pods, is none.
func (in *Installer) findControllers(ctx context.Context) error {
	f := &takeover.Facts{Own: takeover.Own{Lease: takeover.DefaultLease}}
	if err := takeover.FindControllers(ctx, in.Cluster.Kube, in.Options.Release, in.Cluster.Namespace, f); err != nil {
		return in.Cluster.Explain(err)
	}
	in.facts.controllers = withoutKept(f)
	for i := range f.Predecessors {
		if p := &f.Predecessors[i]; p.Family != takeover.Other {
			in.Progress.Info("found %s, another provider for CloudStack (%s, image %s)", p, p.Family, p.Image)
		}
	}
	return nil
}

func withoutKept(f *takeover.Facts) *takeover.Facts {
	f.Predecessors = slices.DeleteFunc(f.Predecessors, func(p takeover.Predecessor) bool { return p.Kept })
	return f
}

// takesOver reports whether this install takes another provider's place. A controller that csccm does
// not know is left to the checks.
func (in *Installer) takesOver() bool {
	return slices.ContainsFunc(in.facts.controllers.Predecessors, func(p takeover.Predecessor) bool { return p.Family != takeover.Other })
}

// replaces are the workloads whose place this install takes, which the checks before it then let pass.
func (in *Installer) replaces() []check.Object {
	var out []check.Object
	for i := range in.facts.controllers.Predecessors {
		p := &in.facts.controllers.Predecessors[i]
		if p.Family == takeover.Apache || p.Family == takeover.Leaseweb {
			out = append(out, check.Object{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name})
		}
	}
	return out
}

// planControllers says, by the cluster alone, who would be replaced in which order; an error is what
// keeps it from happening, known before anything is made in CloudStack.
func (in *Installer) planControllers(context.Context) error {
	if !in.takesOver() {
		return nil
	}
	f := *in.facts.controllers
	f.Own.Lease = takeover.LeaseOf(in.plan.manifest)
	in.plan.Takeover = takeover.NewPlan(&f) //nolint:contextcheck // decides by the facts, and waits for nothing
	if len(in.plan.Takeover.Problems) > 0 {
		return takeover.Blocked(in.plan.Takeover.Problems)
	}
	if in.provision != nil && in.provision.Changes() {
		in.Progress.Info("what changes of which Service is seen with the new user's keys and asked then; without consent the user in CloudStack stays, for the next run")
	}
	return nil
}

// planTakeover compares, now that there are keys, the current state of each Service with what the new
// controller would make of it. Chart values that keep the nodes' forms join those of the operator.
func (in *Installer) planTakeover(ctx context.Context) error {
	if !in.takesOver() {
		return nil
	}
	in.Progress.Step("What the other provider has made")
	o := &in.Options
	source := takeover.Source{
		Kube: in.Cluster.Kube, API: in.cloud, Config: in.config, Release: o.Release, Namespace: in.Cluster.Namespace, ClusterID: o.ClusterID,
	}
	f, err := takeover.Detect(ctx, source)
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.facts.controllers = withoutKept(f)
	f.Own.Lease = takeover.LeaseOf(in.plan.manifest)
	plan := takeover.NewPlan(f) //nolint:contextcheck // as above
	plan.Pin(o.Pin)
	in.plan.Takeover = plan
	if err := in.addValues(ctx, plan.Values); err != nil {
		return err
	}
	in.taker, err = takeover.NewTaker(ctx, source, plan, takeover.Options{
		Server: in.Cluster.Server, Clock: in.Clock, Progress: in.Progress, Accept: o.Accept, Pin: o.Pin, KeepOld: o.KeepOld, Dir: o.SnapshotDir,
	})
	if err != nil {
		return err
	}
	in.Progress.Done("%s, %s", count(len(plan.Services), "Service"), count(ruleCount(plan), "rule"))
	return nil
}

func ruleCount(p *takeover.Plan) int {
	n := 0
	for i := range p.Services {
		n += len(p.Services[i].Rules)
	}
	return n
}

// addValues gives the chart what the operator did not set, and renders it again.
func (in *Installer) addValues(ctx context.Context, values map[string]string) error {
	set := in.effectiveValues()
	more := map[string]any{}
	for name, value := range values {
		if _, given := set[name]; !given {
			more[name] = value
		}
	}
	if len(more) == 0 {
		return nil
	}
	in.Options.Values = helm.MergeValues(in.Options.Values, more)
	return in.planChart(ctx)
}

// effectiveValues are the values that the release will have.
func (in *Installer) effectiveValues() map[string]any {
	if r := in.facts.release; r != nil && r.Deployed() {
		return helm.MergeValues(r.Values, in.Options.Values)
	}
	return in.Options.Values
}

// labelForm is how the controller will write instance types.
func (in *Installer) labelForm() (node.LabelForm, error) {
	form, _ := in.effectiveValues()["instanceTypeFormat"].(string)
	return node.ParseLabelForm(form)
}

// consent has somebody agree to what the takeover changes.
func (in *Installer) consent(ctx context.Context) error {
	if in.taker == nil {
		return nil
	}
	if len(in.plan.Takeover.Problems) == 0 && !in.Options.Yes && !in.Options.DryRun && !in.env.Structured() && in.Interactive {
		if err := in.taker.Ask(ctx, in.Prompt); err != nil {
			return err
		}
		in.Options.Accept, in.Options.Pin = in.taker.Accept, in.taker.Pin // for the flag line
	}
	return in.taker.Check()
}

// takeoverSteps are those of the takeover, each with its entry in the journal.
func (in *Installer) takeoverSteps(list func(*takeover.Taker) []engine.Step) []engine.Step {
	if in.taker == nil {
		return nil
	}
	steps := list(in.taker)
	for i := range steps {
		do := steps[i].Do
		steps[i].Name = "takeover: " + steps[i].Name
		steps[i].Do = func(ctx context.Context, note engine.Note) error {
			// Record and journal are kept where the controller will be.
			if err := credentials.EnsureNamespace(ctx, in.Cluster.Kube, in.Cluster.Namespace); err != nil {
				return in.Cluster.Explain(err)
			}
			in.session.Publish(ctx)
			return do(ctx, note)
		}
	}
	return steps
}
