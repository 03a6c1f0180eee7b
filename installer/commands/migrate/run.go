// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate is the command that gives the rules of older providers the names that csccm uses, and takes that back.
package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/inventory"
)

// BeforeAnnotation keeps on a Service the names that its rules had, by id. It is set before any rule is renamed, so that an undo
// needs nothing else; the first name of a rule stays.
const BeforeAnnotation = "csccm.io/before-migrate-rules"

// migration is one run of the command.
type migration struct {
	*engine.Env
	cloud   *cloud.Cloud
	project string
	plan    *engine.Plan
	steps   []rules.Step
	records map[string]*string // values of the annotation by Service; nil removes it
	touched int                // steps that a provider that still works would take back
}

// Run renames the rules of older providers, or goes back to the names that the Services keep.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, undo bool) error {
	m := &migration{Env: e, cloud: cs, plan: e.NewPlan(), records: map[string]*string{}}
	inv := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone, NodeVMs: cs.Config.NodeVMs})
	var err error
	nodes := cluster.List(ctx, &err, e.Cluster.Kube.CoreV1().Nodes().List).Items
	services := cluster.List(ctx, &err, e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	if err != nil {
		return e.Cluster.Explain(err)
	}
	if m.project, err = inv.ProjectID(ctx); err != nil {
		return err
	}
	have, err := rules.Read(ctx, cs.Client, m.project)
	if err != nil {
		return err
	}
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return err
	}
	steps := []engine.Step{{Name: "record of the names", Do: m.record}, {Name: "rules", Do: m.apply}}
	back := "Undo:  csccm migrate-rules --undo\n"
	if undo {
		m.planUndo(services, have)
		slices.Reverse(steps)
		back = ""
	} else {
		m.makePlan(services, rules.MakePlan(rules.Inventory{Rules: have, Services: services, NodeVMs: rules.NodeVMs(nodes, vms)}))
	}
	if len(m.steps) == 0 {
		steps = nil
	}
	changed := english.Plural(len(m.steps), "rule", "")
	return e.Run(ctx, engine.Operation{
		Name: "migrate-rules", What: "rename " + changed, Plan: m.plan, Check: m.allowed, Steps: steps,
		Question: prompt.Question{Help: "A renamed rule keeps its id, address, members and traffic. csccm migrate-rules --undo goes back."},
		Done: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s renamed\n%s", changed, back)
			return err
		},
	})
}

// recorded returns the names that rules of a Service had before a first run, by id.
func recorded(svc *corev1.Service) map[string]string {
	var was map[string]string
	if err := json.Unmarshal([]byte(svc.Annotations[BeforeAnnotation]), &was); err != nil || was == nil {
		return map[string]string{}
	}
	return was
}

func (m *migration) makePlan(services []corev1.Service, p rules.Plan) {
	m.steps = p.Steps
	foreign := 0
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == rules.VerdictForeign && !m.Verbose {
			foreign++
			continue
		}
		if it.Verdict == rules.VerdictRename && it.Family == rules.FamilyLeaseweb {
			m.touched++
		}
		m.plan.Add(string(it.Verdict), fmt.Sprintf("%s on %s:%d, %s, %s: %s",
			it.Name, it.PublicIP, it.Port, english.Plural(it.Members, "member", ""), cmp.Or(it.Service, "no Service"), it.Reason), it)
	}
	if foreign > 0 {
		m.plan.Add(string(rules.VerdictForeign), english.Plural(foreign, "rule", "")+" not named by a cloud provider for Kubernetes (-v lists them)", nil)
	}
	if len(p.Items) == 0 {
		m.plan.Add("rules", "none", nil)
	}
	for i := range services {
		name, was := services[i].Namespace+"/"+services[i].Name, recorded(&services[i])
		for _, s := range m.steps {
			if s.Service == name {
				was[s.RuleID] = cmp.Or(was[s.RuleID], s.Name)
				text, _ := json.Marshal(was) // strings always have a form
				m.records[name] = ptr.To(string(text))
			}
		}
	}
}

// planUndo makes the steps back, without those that are done already.
func (m *migration) planUndo(services []corev1.Service, have []rules.Rule) {
	for i := range services {
		name, was := services[i].Namespace+"/"+services[i].Name, recorded(&services[i])
		steps, stays := rules.Undo(&services[i], was, have)
		for _, s := range steps {
			m.plan.Add("rename", s.Describe(), s)
		}
		for _, text := range stays {
			m.plan.Warnings = append(m.plan.Warnings, name+": "+text)
		}
		if m.steps = append(m.steps, steps...); len(was) > 0 {
			m.records[name] = nil
		}
	}
	if len(m.steps) == 0 {
		m.plan.Add("Undo", "nothing to do: no rule has a name that migrate-rules gave it", nil)
	}
}

// allowed refuses to change the rules of a provider that still works: it would make them again.
func (m *migration) allowed(ctx context.Context) error {
	if m.touched == 0 {
		return nil
	}
	r := check.Run(ctx, &check.Env{Cluster: m.Cluster, Setup: check.Setup{Namespace: m.Cluster.Namespace, Release: m.Release}}, check.Selection{Only: []string{"CCM-003"}}, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Summary.OK == len(r.Checks) {
		return nil
	}
	var where []string
	for _, c := range r.Checks {
		for _, o := range c.Objects {
			where = append(where, o.String())
		}
	}
	return report.Refused("take its place with csccm takeover, or stop it first", "%s may still work with %s of the plan, and would make them again",
		cmp.Or(strings.Join(where, ", "), "another cloud controller manager (CCM-003 could not be judged)"), english.Plural(m.touched, "rule", ""))
}

// record writes the names that the rules had to their Services, or removes them.
func (m *migration) record(ctx context.Context, _ engine.Note) error {
	for _, service := range slices.Sorted(maps.Keys(m.records)) {
		if err := rules.Annotate(ctx, m.Cluster.Kube, service, map[string]*string{BeforeAnnotation: m.records[service]}); err != nil {
			return m.Cluster.Explain(err)
		}
	}
	return nil
}

func (m *migration) apply(ctx context.Context, note engine.Note) error {
	a := &rules.Applier{API: m.cloud.Client, ProjectID: m.project, Progress: m.Progress}
	for i := range m.steps {
		if err := a.Apply(ctx, m.steps[i]); err != nil {
			m.Progress.Fail("%v", err)
			// The cause is text alone: after ^C too, this says more than what the engine says of a step that was stopped.
			return &report.Error{
				What: fmt.Sprintf("%d of %s renamed: %v", i, english.Plural(len(m.steps), "rule", ""), err),
				Fix:  "run the command again to go on, or csccm migrate-rules --undo to go back",
			}
		}
		note("%s", m.steps[i].Describe())
	}
	return nil
}
