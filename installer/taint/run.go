// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Options choose the nodes and how fast they follow each other.
type Options struct {
	Nodes            []string // only these, also if they were initialised before
	SkipGates        []string
	ReplaceNoExecute bool
	MaxParallel      int           // after the first
	PerNode          time.Duration // 0 = DefaultPerNode
}

// Result is what -o json and yaml write.
type Result struct {
	SchemaVersion int `json:"schemaVersion"`
	*Plan
	DryRun bool     `json:"dryRun"`
	Done   []string `json:"done,omitempty"` // nodes that were initialised
}

// run is one run of csccm taint.
type run struct {
	*engine.Env
	*Plan
	result   Result
	executor Executor
}

// Run has nodes initialised by the controller.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	facts, nodes, err := gather(ctx, e, cs)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	for _, name := range o.Nodes {
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
			return report.Usage(fmt.Sprintf("there is no node %s", name), "kubectl get nodes lists them")
		}
	}
	facts.SkipGates, facts.Only, facts.ReplaceNoExecute = o.SkipGates, o.Nodes, o.ReplaceNoExecute
	p := NewPlan(*facts)
	r := &run{Env: e, Plan: p, result: Result{SchemaVersion: 1, Plan: p, DryRun: true}}
	var mu sync.Mutex
	r.executor = Executor{Kube: e.Cluster.Kube, Clock: e.Clock, PerNode: o.PerNode, MaxParallel: o.MaxParallel, Report: func(name string, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		r.result.Done = append(r.result.Done, name)
		e.Progress.Info("node %s initialised after %s", name, took.Round(10*time.Millisecond))
	}}
	op := engine.Operation{
		Name: "taint", What: r.what(), Back: "csccm taint --undo goes back", Plan: &r.result, Show: r.show, Steps: r.steps(),
		Check: func(context.Context) error { return Blocked(r.Problems) },
	}
	if r.Canary != "" {
		op.Question.Message = fmt.Sprintf("%s%s, %s first and alone", strings.ToUpper(op.What[:1]), op.What[1:], r.Canary)
		op.Done = func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Initialised: %s. Back:  csccm taint --undo\n", strings.Join(r.result.Done, ", "))
			return err
		}
	}
	return e.Run(ctx, op)
}

// steps are the changes that the plan asks for.
func (r *run) steps() []engine.Step {
	var out []engine.Step
	if len(r.Soften) > 0 {
		out = append(out, engine.Step{Name: "effect of taints", Do: func(ctx context.Context, note engine.Note) error {
			r.result.DryRun = false
			if err := r.executor.Soften(ctx, r.Plan); err != nil {
				return r.Cluster.Explain(err)
			}
			for _, name := range r.Soften {
				note("node %s: PreferNoSchedule instead of NoExecute", name)
				r.Progress.Info("node %s: the taint evicts no Pod any more", name)
			}
			return nil
		}})
	}
	if r.Canary != "" {
		out = append(out, engine.Step{Name: "nodes", Do: func(ctx context.Context, note engine.Note) error {
			r.result.DryRun = false
			err := r.executor.Initialise(ctx, r.Plan, r.Progress)
			for _, name := range r.result.Done {
				note("node %s", name)
			}
			return err
		}})
	}
	return out
}

// what says what the steps do.
func (r *run) what() string {
	var what []string
	if len(r.Soften) > 0 {
		what = append(what, "replace the effect NoExecute of "+strings.Join(r.Soften, ", "))
	}
	if r.Canary != "" {
		what = append(what, "taint "+english.Plural(1+len(r.Rest), "node", ""))
	}
	return strings.Join(what, ", ")
}

// gather reads what all gates look at.
func gather(ctx context.Context, e *engine.Env, cs *cloud.Cloud) (*Facts, []corev1.Node, error) {
	c, release := e.Cluster, e.Release
	var err error
	nodes := cluster.List(ctx, &err, c.Kube.CoreV1().Nodes().List).Items
	services := cluster.List(ctx, &err, c.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	if err != nil {
		return nil, nil, err
	}
	inv := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone, NodeVMs: cs.Config.NodeVMs})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	f := &Facts{Nodes: nodes, VMs: vms, Region: cs.Config.Region}
	others, err := family.Find(ctx, c.Kube, release, c.Namespace)
	if err != nil {
		return nil, nil, err
	}
	for i := range others.Predecessors {
		if p := &others.Predecessors[i]; p.Wanted > 0 {
			f.OtherControllers = append(f.OtherControllers, p.String())
		}
	}
	if f.LabelForm, err = node.ParseLabelForm(others.Own.InstanceTypeFormat); err != nil {
		return nil, nil, err
	}
	for i := range nodes {
		if kubelet.RunsCloudController(&nodes[i]) {
			f.OtherControllers = append(f.OtherControllers, "the built-in one of the k3s or RKE2 server "+nodes[i].Name)
		}
	}
	if f.Cluster, err = GatherCluster(ctx, c.Kube, c.Namespace, release, others.Own.Lease, e.Clock); err != nil {
		return nil, nil, err
	}
	// Rules of the cluster's Services that still have names of older providers.
	project, err := inv.ProjectID(ctx)
	if err != nil {
		return nil, nil, err
	}
	have, err := rules.Read(ctx, cs.Client, project)
	old := rules.MakePlan(rules.Inventory{Rules: have, Services: services}, rules.Selection{})
	f.Cluster.OldRules = old.Count(rules.VerdictRename)
	return f, nodes, err
}

// show prints the plan for a person.
func (r *run) show(w io.Writer) error {
	e, p := r.Env, r.Plan
	style := e.StyleOf(w)
	t := report.Table{Header: []string{"NODE", "STATE", "VM", "ZONE", "TYPE"}}
	var b strings.Builder
	for _, it := range p.Items {
		state := string(it.State)
		if it.Name == p.Canary {
			state += ", first"
		}
		t.Add(it.Name, state, it.VM, it.Zone, it.Type)
		for _, n := range it.Notes {
			b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, it.Name+": "+n))
		}
	}
	for _, pr := range p.Problems {
		b.WriteString(style.Indented(style.Symbol(report.SymbolFailed)+" ", style.SymbolWidth()+1, pr.Gate+": "+pr.Text))
		b.WriteString(style.Indented("  fix: ", 7, pr.Remedy))
	}
	if !p.Needed() {
		b.WriteString("No node needs the taint.\n")
	}
	if err := t.Write(w, style); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, b.String())
	return err
}

// UndoResult is what -o json and yaml write of an undo.
type UndoResult struct {
	SchemaVersion int      `json:"schemaVersion"`
	DryRun        bool     `json:"dryRun"`
	Nodes         []Undone `json:"nodes"`
}

// Undo sets the nodes back that csccm tainted, as their annotations say.
func Undo(ctx context.Context, e *engine.Env) error {
	x := &Executor{Kube: e.Cluster.Kube, Clock: e.Clock}
	planned, err := x.PlanUndo(ctx)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	result := &UndoResult{SchemaVersion: 1, DryRun: true, Nodes: planned}
	show := func(w io.Writer) error { return result.show(e, w) }
	n := 0
	for i := range planned {
		if planned[i].Changes() {
			n++
		}
	}
	op := engine.Operation{
		Name: "taint-undo", What: "set back " + english.Plural(n, "node", ""),
		Question: prompt.Question{Message: "Set the labels of these nodes back"},
		Plan:     result, Show: show, Result: func() any { return result }, Done: show,
	}
	if n > 0 {
		op.Steps = []engine.Step{{Name: "labels and taints", Do: func(ctx context.Context, note engine.Note) error {
			undone, err := x.Undo(ctx)
			result.DryRun, result.Nodes = false, undone
			for i := range undone {
				if undone[i].Changes() {
					note("node %s", undone[i].Node)
				}
			}
			if err == nil {
				return nil
			}
			var werr error // what was done shows also after an error
			if e.Structured() {
				werr = report.Encode(e.Out, e.Output, result)
			} else {
				werr = show(e.Out)
			}
			return e.Cluster.Explain(errors.Join(err, werr))
		}}}
	}
	return e.Run(ctx, op)
}

// show prints what an undo does to each node, or did.
func (u *UndoResult) show(e *engine.Env, w io.Writer) error {
	style := e.StyleOf(w)
	title := "SET BACK"
	if u.DryRun {
		title = "TO SET BACK"
	}
	t := report.Table{Header: []string{"NODE", title, "STAYS"}}
	for i := range u.Nodes {
		n := &u.Nodes[i]
		lines := []string{}
		for _, l := range n.Labels {
			lines = append(lines, l.String())
		}
		if n.Taint {
			lines = append(lines, "taint "+Key+" is removed")
		}
		switch {
		case n.Skipped != "":
			lines = []string{"nothing: " + n.Skipped}
		case len(lines) == 0:
			lines = []string{"nothing"}
		}
		stays := ""
		if n.KeepsProviderID != "" {
			stays = "provider ID " + n.KeepsProviderID
		}
		t.Add(n.Node, strings.Join(lines, "; "), stays)
	}
	return t.Write(w, style)
}
