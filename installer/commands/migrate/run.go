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
	"os"
	"strings"

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
	Undo    string // journal to undo
	Verbose bool   // show the rules of others too

	back []rules.Record // of the journal to undo
}

// ReadUndo reads the journal to undo; that needs no connection.
func (o *Options) ReadUndo() error {
	if o.Undo == "" {
		return nil
	}
	text, err := os.ReadFile(o.Undo)
	var records []json.RawMessage
	if err == nil {
		records, err = journal.Records(string(text))
	}
	if err == nil {
		o.back, err = rules.ReadRecords(records)
	}
	if err != nil {
		return &report.Error{What: "--undo " + o.Undo, Err: err, Fix: "name the journal that the run to undo has named, which you may read", Code: report.ExitUsage}
	}
	return nil
}

// Result is what -o json and yaml write.
type Result struct {
	SchemaVersion int          `json:"schemaVersion"`
	DryRun        bool         `json:"dryRun"`
	Rules         []rules.Item `json:"rules"`
	Steps         []rules.Step `json:"steps"`
	// Done is how many of the steps are done.
	Done    int    `json:"done"`
	Journal string `json:"journal,omitempty"`
	// Emptied are addresses that carry no rule once the steps are done.
	Emptied []rules.Address `json:"emptied,omitempty"`
}

// migration is one run of the command.
type migration struct {
	e       *engine.Env
	o       Options
	cloud   *cloud.Cloud
	project string
	plan    rules.Plan
	gone    []string // what an undo cannot do
	result  Result
}

// Run renames the rules of older providers, or undoes what a journal records.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	m := &migration{e: e, o: o, cloud: cs}
	inv := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone, NodeVMs: cs.Config.NodeVMs})
	var err error
	if m.project, err = inv.ProjectID(ctx); err != nil {
		return err
	}
	if o.Undo != "" {
		err = m.planUndo(ctx)
	} else {
		err = m.makePlan(ctx, inv)
	}
	if err != nil {
		return err
	}
	m.result = Result{SchemaVersion: 1, DryRun: true, Rules: m.plan.Items, Steps: m.plan.Steps, Emptied: m.result.Emptied}
	op := engine.Operation{
		Name: "migrate-rules", What: rules.Sum(m.plan.Steps, false), Plan: &m.result, Show: m.show, Check: m.allowed,
		Question: prompt.Question{Help: "A renamed rule keeps its id, address, members and traffic. A journal makes it possible to go back."},
	}
	if len(m.plan.Steps) > 0 {
		op.Steps = []engine.Step{{Name: "rules", Do: m.apply}}
		op.Done = func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s; journal: %s\nUndo:  %s\n", rules.Sum(m.plan.Steps, true), e.Journal, m.undoLine())
			return err
		}
	}
	return e.Run(ctx, op)
}

func (m *migration) makePlan(ctx context.Context, inv *inventory.Inventory) error {
	var err error
	kube := m.e.Cluster.Kube.CoreV1()
	nodes := cluster.List(ctx, &err, kube.Nodes().List).Items
	in := rules.Inventory{Services: cluster.List(ctx, &err, kube.Services(metav1.NamespaceAll).List).Items}
	if err != nil {
		return m.e.Cluster.Explain(err)
	}
	if in.Rules, err = rules.Read(ctx, m.cloud.Client, m.project); err != nil {
		return err
	}
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return err
	}
	in.NodeVMs = rules.NodeVMs(nodes, vms)
	m.plan = rules.MakePlan(in, m.o.Selection)
	if unknown := m.plan.UnknownLoadBalancers; len(unknown) > 0 {
		return report.Usage(fmt.Sprintf("--lb %s: no rule is of that load balancer", strings.Join(unknown, ", ")),
			"name the part of a rule's name that stands before the protocol and the port; csccm migrate-rules --dry-run shows the rules")
	}
	m.result.Emptied = rules.Emptied(in.Rules, m.plan.Steps)
	return nil
}

// planUndo makes the steps back from a journal, without those that are done already.
func (m *migration) planUndo(ctx context.Context) error {
	for i := range m.o.back {
		if r := &m.o.back[i]; r.APIURL != m.cloud.Config.APIURL || r.ProjectID != m.project {
			return report.Usage(fmt.Sprintf("--undo %s: it is about %s, project %q; the credentials are for %s, project %q",
				m.o.Undo, r.APIURL, r.ProjectID, m.cloud.Config.APIURL, m.project),
				"name the journal of this CloudStack, or give its credentials with --cloud-config")
		}
	}
	have, err := rules.Read(ctx, m.cloud.Client, m.project)
	if err != nil {
		return err
	}
	m.plan.Items = []rules.Item{}
	m.plan.Steps, m.gone = rules.Remaining(rules.Undo(m.o.back), have)
	return nil
}

// allowed refuses to change the rules of a provider that still works: it would make them again.
func (m *migration) allowed(ctx context.Context) error {
	touched := m.plan.Deletions()
	for i := range m.plan.Items {
		if it := &m.plan.Items[i]; it.Family == rules.FamilyLeaseweb && it.Verdict == rules.VerdictRename {
			touched++
		}
	}
	if touched == 0 {
		return nil
	}
	r := check.Run(ctx, &check.Env{Cluster: m.e.Cluster, Setup: check.Setup{Namespace: m.e.Cluster.Namespace, Release: m.e.Release}}, check.Selection{Only: []string{"CCM-003"}}, nil)
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
	return &report.Error{
		What: fmt.Sprintf("%s may still work with %s of the plan, and would make them again: nothing was changed", cmp.Or(strings.Join(where, ", "), "another cloud controller manager (CCM-003 could not be judged)"), rules.CountRules(touched)),
		Fix:  "take its place with csccm takeover, or stop it first", Code: report.ExitCheckFailed,
	}
}

func (m *migration) apply(ctx context.Context, note engine.Note) error {
	m.result.DryRun, m.result.Journal = false, m.e.Journal
	note("journal: %s", m.e.Journal)
	a := &rules.Applier{API: m.cloud.Client, Jobs: m.cloud.Client.Jobs(), ProjectID: m.project, Progress: m.e.Progress}
	a.Record = func(s rules.Step) error {
		return m.e.Record(rules.Record{APIURL: m.cloud.Config.APIURL, ProjectID: m.project, Step: s})
	}
	var err error
	if m.result.Done, err = a.Apply(ctx, m.plan.Steps); err != nil {
		m.e.Progress.Fail("%v", err)
		// The cause is text alone: after ^C too, this says more than what the engine says of a step that was stopped.
		return &report.Error{
			What: fmt.Sprintf("%s of %d done: %v", rules.CountRules(m.result.Done), len(m.plan.Steps), err),
			Fix:  "run the command again to go on, or undo with: " + m.undoLine(),
		}
	}
	return nil
}

// undoLine is the command that undoes what the journal records.
func (m *migration) undoLine() string {
	return "csccm migrate-rules --undo " + report.ShellLine(m.e.Journal)
}
