// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate implements csccm migrate-rules, which gives the rules of older providers the names that csccm uses,
// and can restore the old names.
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
)

// BeforeAnnotation records on a Service the names of its rules before the renaming.
const BeforeAnnotation = "csccm.io/before-migrate-rules"

// migration is one run of the command.
type migration struct {
	*engine.Env
	*rules.Facts
	plan     *engine.Plan
	steps    []rules.Step
	recorded []string            // Services that have BeforeAnnotation
	renames  int                 // steps that another active provider would undo; 0 for an undo
	others   *family.Controllers // nil for an undo
}

// Run renames the rules of older providers. With undo it restores the names recorded on the Services.
func Run(ctx context.Context, e *engine.Env, cs *access.Cloud, undo bool) error {
	m := &migration{Env: e, plan: e.NewPlan()}

	var err error
	if m.Facts, err = rules.Read(ctx, e.Cluster.Kube, cs); err != nil {
		return err
	}

	apply := engine.Step{Name: "rules", Do: func(ctx context.Context) error {
		a := &rules.Applier{
			API:      cs.Client,
			Project:  m.Project,
			Progress: e.Progress,
			Note:     e.Note,
			Undo:     "csccm migrate-rules --undo",
		}
		return a.Apply(ctx, m.steps)
	}}

	var steps []engine.Step
	back := ""
	if undo {
		m.planUndo()
		steps = []engine.Step{apply, {Name: "record of the names", Do: m.removeRecords}}
	} else {
		if err := m.makePlan(ctx, cs); err != nil {
			return err
		}

		steps = []engine.Step{{Name: "record of the names", Do: m.record}, apply}
		back = "Undo:  csccm migrate-rules --undo\n"
	}

	if len(m.steps) == 0 {
		steps = nil
	}

	changed := report.Count(len(m.steps), "rule")
	return e.Run(ctx, engine.Operation{
		Name:  "migrate-rules",
		What:  "rename " + changed,
		Plan:  m.plan,
		Check: m.allowed,
		Steps: steps,
		Question: prompt.Question{
			Help: "A renamed rule keeps its id, address, members and traffic. csccm migrate-rules --undo goes back.",
		},
		Done: func() string { return changed + " renamed\n" + back },
	})
}

// makePlan plans the renames.
func (m *migration) makePlan(ctx context.Context, cs *access.Cloud) error {
	var named []string
	for _, r := range m.Rules {
		if rules.ParseName(r.Name).Family != rules.FamilyForeign {
			named = append(named, r.ID)
		}
	}

	members, err := rules.ReadMembers(ctx, cs.Client, named)
	if err != nil {
		return err
	}

	m.others, err = family.Find(ctx, m.Cluster.Kube, m.Clock, m.Release, m.Cluster.Namespace)
	if err != nil {
		return err
	}

	p := rules.MakePlan(m.Rules, m.Services, family.ClassesOf(m.others.Own.Words).Handles, members,
		rules.NodeVMs(m.Nodes, m.VMs))
	m.steps, m.renames = p.Steps, len(p.Steps)

	foreign := 0 // rules that are not listed
	for _, it := range p.Items {
		if it.Verdict == rules.VerdictForeign && !m.Verbose {
			foreign++
			continue
		}

		m.plan.Add(string(it.Verdict), fmt.Sprintf(
			"%s on %s:%d, %s, %s: %s",
			it.Name, it.PublicIP, it.Port, report.Count(it.Members, "member"), cmp.Or(it.Service, "no Service"),
			it.Reason,
		), &it)
	}

	if foreign > 0 {
		m.plan.Add(string(rules.VerdictForeign),
			report.Count(foreign, "rule")+" not named by a cloud provider for Kubernetes (-v lists them)", nil)
	}

	if len(p.Items) == 0 {
		m.plan.Add("rules", "none", nil)
	}

	return nil
}

// planUndo plans the renames back to the recorded names, without those that are already done.
func (m *migration) planUndo() {
	for _, svc := range m.Services {
		was, recorded := rules.RecordOf(&svc, BeforeAnnotation)
		if !recorded {
			continue
		}

		name := rules.Key(&svc)
		steps, skipped := rules.Undo(&svc, was.Rules, m.Rules)
		for _, s := range steps {
			m.plan.Add("rename", s.Describe(), s)
		}

		for _, text := range skipped {
			m.plan.Warnings = append(m.plan.Warnings, name+": "+text)
		}

		m.steps, m.recorded = append(m.steps, steps...), append(m.recorded, name)
	}

	if len(m.steps) == 0 {
		m.plan.Add("Undo", "nothing to do: no rule has a name that migrate-rules gave it", nil)
	}
}

// allowed returns an error if another controller is active, because that controller would undo the renames.
func (m *migration) allowed(context.Context) error {
	if m.renames == 0 {
		return nil
	}

	var where []string
	for _, r := range m.others.Rivals {
		if r.Family != family.Balancer {
			where = append(where, r.String())
		}
	}

	if len(where) == 0 {
		return nil
	}

	return report.Refused(
		"replace it with csccm takeover, or stop it first",
		"another controller is running, and would revert %s of the plan: %s",
		report.Count(m.renames, "rule"), strings.Join(where, "; "),
	)
}

// record writes the current names of the rules into BeforeAnnotation of their Services.
func (m *migration) record(ctx context.Context) error {
	_, err := rules.Keep(ctx, m.Cluster.Kube, BeforeAnnotation, m.steps, nil)
	return err
}

// removeRecords removes BeforeAnnotation from the Services.
func (m *migration) removeRecords(ctx context.Context) error {
	for _, service := range m.recorded {
		if err := rules.Annotate(ctx, m.Cluster.Kube, service, map[string]*string{BeforeAnnotation: nil}); err != nil {
			return err
		}
	}
	return nil
}
