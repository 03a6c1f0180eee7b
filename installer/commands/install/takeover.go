// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/node"
)

// sourcePredecessor is the answer of the person at the terminal; the keys are then given ones.
const sourcePredecessor = "predecessor"

// predecessorChoice offers the credentials of the provider that is found, if there are any.
func (in *Installer) predecessorChoice(ctx context.Context) []prompt.Choice {
	_, from, err := takeover.FindCredentials(ctx, in.Cluster.Kube, in.facts.controllers.Predecessors)
	if err != nil {
		return nil
	}
	return []prompt.Choice{{Value: sourcePredecessor, Label: fmt.Sprintf("Use the keys of the other provider (%s)", from)}}
}

// usePredecessor takes the other provider's keys, and its settings where no flag says otherwise. They are verified as
// other keys are.
func (in *Installer) usePredecessor(ctx context.Context) error {
	c := &in.Credentials
	cfg, from, err := takeover.FindCredentials(ctx, in.Cluster.Kube, in.facts.controllers.Predecessors)
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.Progress.Info("credentials of the other provider: %s", from)
	c.Source, c.FromPredecessor = SourceKeys, true
	in.fill(cfg)
	if cfg.CAFile != "" && c.CAFile == "" {
		in.Progress.Warn("the other provider trusts the certificates in %s of its Pod; give them with --ca-file", cfg.CAFile)
	}
	return nil
}

// findControllers looks for another provider for CloudStack.
func (in *Installer) findControllers(ctx context.Context) error {
	f, err := family.Find(ctx, in.Cluster.Kube, in.Release, in.Cluster.Namespace)
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.facts.controllers = f
	for i := range f.Predecessors {
		if p := &f.Predecessors[i]; p.Family != family.Other {
			in.Progress.Info("found %s, another provider for CloudStack (%s, image %s)", p, p.Family, p.Image)
		}
	}
	return nil
}

// takesOver reports whether this install takes another provider's place. A controller that csccm does
// not know is left to the checks.
func (in *Installer) takesOver() bool {
	return slices.ContainsFunc(in.facts.controllers.Predecessors, func(p family.Predecessor) bool { return p.Family != family.Other })
}

// replaces are the workloads whose place this install takes, which the checks before it then let pass.
func (in *Installer) replaces() []check.Object {
	var out []check.Object
	for i := range in.facts.controllers.Predecessors {
		p := &in.facts.controllers.Predecessors[i]
		if p.Replaceable() {
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
	c := *in.facts.controllers
	c.Own.Lease = family.LeaseOfChart(in.plan.manifest)
	in.plan.Takeover = takeover.PlanOrder(&c)
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
	if !in.takesOver() || len(in.plan.Takeover.Problems) > 0 {
		return nil
	}
	in.Progress.Step("What the other provider has made")
	o := &in.Options
	t := &takeover.Taker{Env: in.Env, API: in.cloud, Config: in.config, Options: takeover.Options{Accept: o.Accept, Pin: o.Pin, ClusterID: o.ClusterID}}
	f, err := t.Detect(ctx)
	if err == nil {
		in.facts.controllers = &f.Controllers
		f.Own.Lease = family.LeaseOfChart(in.plan.manifest)
		err = t.MakePlan(ctx, f)
	}
	if err != nil {
		return in.Cluster.Explain(err)
	}
	plan := t.Plan
	in.plan.Takeover, in.taker = plan, t
	if err := in.addValues(ctx, plan.Values); err != nil {
		return err
	}
	in.Progress.Done("%s, %s", english.Plural(len(plan.Services), "Service", ""), english.Plural(ruleCount(plan), "rule", ""))
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
	in.Values = helm.MergeValues(in.Values, more)
	return in.planChart(ctx)
}

// effectiveValues are the values that the release will have.
func (in *Installer) effectiveValues() map[string]any {
	return helm.MergeValues(in.facts.values, in.Values)
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
	err := in.taker.Consent(ctx)
	in.Accept, in.Pin = in.taker.Accept, in.taker.Pin // for the flag line
	return err
}

// planConsent is consent for a dry run, which nobody is asked in. A run asks when the plan is shown.
func (in *Installer) planConsent(ctx context.Context) error {
	if !in.DryRun {
		return nil
	}
	return in.consent(ctx)
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
