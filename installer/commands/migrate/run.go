// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate is the command that gives the rules of older providers the names that csccm uses, and takes that back.
package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/journal"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/inventory"
)

// Options choose the rules.
type Options struct {
	rules.Selection
	Undo string // journal to undo

	back []record // of that journal
}

// record is what the journal keeps of a step before it is carried out.
type record struct {
	APIURL    string     `json:"apiUrl"`
	ProjectID string     `json:"projectId,omitempty"`
	Step      rules.Step `json:"step"` // with the Rule as it was, of a deletion
}

// ReadUndo reads the journal to undo; that needs no connection.
func (o *Options) ReadUndo() error {
	if o.Undo == "" {
		return nil
	}
	text, err := os.ReadFile(o.Undo)
	var all []json.RawMessage
	if err == nil {
		all, err = journal.Records(string(text))
	}
	o.back = make([]record, len(all))
	for i := range all {
		r := &o.back[i]
		known := json.Unmarshal(all[i], r) == nil && (r.Step.Rule != nil || r.Step.Action == rules.ActionRename)
		if !known || r.APIURL == "" {
			err = errors.New("not a journal of this csccm's migrate-rules")
		}
	}
	if err != nil {
		return &report.Error{What: "--undo " + o.Undo, Err: err, Fix: "name the journal that the run to undo has named, which you may read", Code: report.ExitUsage}
	}
	return nil
}

// migration is one run of the command.
type migration struct {
	*engine.Env
	Options
	cloud   *cloud.Cloud
	project string
	plan    *engine.Plan
	steps   []rules.Step
	touched int // steps that a provider that still works would take back
}

// Run renames the rules of older providers, or undoes what a journal records.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	m := &migration{Env: e, Options: o, cloud: cs, plan: e.NewPlan()}
	inv := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone, NodeVMs: cs.Config.NodeVMs})
	var err error
	if m.project, err = inv.ProjectID(ctx); err != nil {
		return err
	}
	have, err := rules.Read(ctx, cs.Client, m.project)
	switch {
	case err != nil:
	case o.Undo != "":
		err = m.planUndo(have)
	default:
		err = m.makePlan(ctx, inv, have)
	}
	if err != nil {
		return err
	}
	op := engine.Operation{
		Name: "migrate-rules", What: "change " + english.Plural(len(m.steps), "rule", ""), Plan: m.plan, Check: m.allowed,
		Question: prompt.Question{Help: "A renamed rule keeps its id, address, members and traffic. A journal makes it possible to go back."},
		Done: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s changed; journal: %s\nUndo:  %s\n", english.Plural(len(m.steps), "rule", ""), e.Journal, m.undoLine())
			return err
		},
	}
	if len(m.steps) > 0 {
		op.Steps = []engine.Step{{Name: "rules", Do: m.apply}}
	}
	return e.Run(ctx, op)
}

func (m *migration) makePlan(ctx context.Context, inv *inventory.Inventory, have []rules.Rule) error {
	var err error
	kube := m.Cluster.Kube.CoreV1()
	nodes := cluster.List(ctx, &err, kube.Nodes().List).Items
	in := rules.Inventory{Rules: have, Services: cluster.List(ctx, &err, kube.Services(metav1.NamespaceAll).List).Items}
	if err != nil {
		return m.Cluster.Explain(err)
	}
	for _, lb := range m.LoadBalancers {
		if !slices.ContainsFunc(have, func(r rules.Rule) bool { return rules.ParseName(r.Name).LB == lb }) {
			return report.Usage("--lb "+lb+": no rule is of that load balancer",
				"name the part of a rule's name that stands before the protocol and the port; csccm migrate-rules --dry-run shows the rules")
		}
	}
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return err
	}
	in.NodeVMs = rules.NodeVMs(nodes, vms)
	p := rules.MakePlan(in, m.Selection)
	m.steps = p.Steps
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == rules.VerdictForeign && !m.Verbose {
			continue
		}
		if it.Action == rules.ActionDelete || it.Action == rules.ActionRename && it.Family == rules.FamilyLeaseweb {
			m.touched++
		}
		m.plan.Add(cmp.Or(string(it.Action), string(it.Verdict)), fmt.Sprintf("%s on %s:%d, %s, %s: %s",
			it.Name, it.PublicIP, it.Port, english.Plural(it.Members, "member", ""), cmp.Or(it.Service, "no Service"), it.Reason), it)
	}
	if n := p.Count(rules.VerdictForeign); n > 0 && !m.Verbose {
		m.plan.Add(string(rules.VerdictForeign), english.Plural(n, "rule", "")+" not named by a cloud provider for Kubernetes (-v lists them)", nil)
	}
	if len(p.Items) == 0 {
		m.plan.Add("rules", "none", nil)
	}
	for _, ip := range p.Emptied() {
		m.plan.Warnings = append(m.plan.Warnings, "address "+ip+" has no load balancer rule any more and stays acquired: release it in CloudStack unless something else uses it")
	}
	return nil
}

// planUndo makes the steps back from a journal, without those that are done already.
func (m *migration) planUndo(have []rules.Rule) error {
	var recorded []rules.Step
	for i := range m.back {
		r := &m.back[i]
		if r.APIURL != m.cloud.Config.APIURL || r.ProjectID != m.project {
			return report.Usage(fmt.Sprintf("--undo %s: it is about %s, project %q; the credentials are for %s, project %q",
				m.Undo, r.APIURL, r.ProjectID, m.cloud.Config.APIURL, m.project),
				"name the journal of this CloudStack, or give its credentials with --cloud-config")
		}
		recorded = append(recorded, r.Step)
	}
	m.steps, m.plan.Warnings = rules.Undo(recorded, have)
	for i := range m.steps {
		m.plan.Add(string(m.steps[i].Action), m.steps[i].Describe(), m.steps[i])
	}
	if len(m.steps) == 0 {
		m.plan.Add("Undo", "nothing to do: what "+m.Undo+" records is as it was before", nil)
	}
	return nil
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

func (m *migration) apply(ctx context.Context, note engine.Note) error {
	note("journal: %s", m.Journal)
	a := &rules.Applier{API: m.cloud.Client, ProjectID: m.project, Progress: m.Progress, Record: func(s rules.Step) error {
		return m.Record(record{APIURL: m.cloud.Config.APIURL, ProjectID: m.project, Step: s})
	}}
	for i := range m.steps {
		if err := a.Apply(ctx, m.steps[i]); err != nil {
			m.Progress.Fail("%v", err)
			// The cause is text alone: after ^C too, this says more than what the engine says of a step that was stopped.
			return &report.Error{
				What: fmt.Sprintf("%d of %s changed: %v", i, english.Plural(len(m.steps), "rule", ""), err),
				Fix:  "run the command again to go on, or undo with: " + m.undoLine(),
			}
		}
		note("%s", m.steps[i].Describe())
	}
	return nil
}

// undoLine is the command that undoes what the journal records.
func (m *migration) undoLine() string {
	return "csccm migrate-rules --undo " + report.ShellLine(m.Journal)
}
