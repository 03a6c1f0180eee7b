// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
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

// Run has nodes initialised by the controller.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	facts, err := gather(ctx, e, cs)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	for _, name := range o.Nodes {
		if !slices.ContainsFunc(facts.Nodes, func(n corev1.Node) bool { return n.Name == name }) {
			return report.Usage(fmt.Sprintf("there is no node %s", name), "kubectl get nodes lists them")
		}
	}
	facts.SkipGates, facts.Only, facts.ReplaceNoExecute = o.SkipGates, o.Nodes, o.ReplaceNoExecute
	p := NewPlan(*facts)
	r := &Result{SchemaVersion: 1, Plan: p, DryRun: true}
	x := &Executor{Env: e, PerNode: o.PerNode, MaxParallel: o.MaxParallel}
	op := engine.Operation{
		Name: "taint", Back: "csccm taint --undo goes back", Plan: r, Show: func(w io.Writer) error { return p.show(w, e.StyleOf(w)) },
		Check: func(context.Context) error { return p.Blocked() },
	}
	var what []string
	if len(p.Soften) > 0 {
		what = append(what, "replace the effect NoExecute of "+strings.Join(p.Soften, ", "))
		op.Steps = append(op.Steps, engine.Step{Name: "effect of taints", Do: func(ctx context.Context, note engine.Note) error {
			r.DryRun = false
			err := x.Soften(ctx, p)
			if err == nil {
				note("PreferNoSchedule instead of NoExecute: %s", strings.Join(p.Soften, ", "))
				e.Progress.Info("the taint evicts no Pod any more: %s", strings.Join(p.Soften, ", "))
			}
			return e.Cluster.Explain(err)
		}})
	}
	if p.Canary != "" {
		what = append(what, "taint "+english.Plural(1+len(p.Rest), "node", ""))
		op.Steps = append(op.Steps, engine.Step{Name: "nodes", Do: func(ctx context.Context, note engine.Note) error {
			r.DryRun = false
			err := x.Initialise(ctx, p)
			if r.Done = x.done; len(r.Done) > 0 {
				note("initialised %s", strings.Join(r.Done, ", "))
			}
			return err
		}})
		op.Done = func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Initialised: %s. Back:  csccm taint --undo\n", strings.Join(r.Done, ", "))
			return err
		}
	}
	op.What = strings.Join(what, ", ")
	if p.Canary != "" {
		op.Question.Message = fmt.Sprintf("%s%s, %s first and alone", strings.ToUpper(op.What[:1]), op.What[1:], p.Canary)
	}
	return e.Run(ctx, op)
}

// gather reads what all gates look at.
func gather(ctx context.Context, e *engine.Env, cs *cloud.Cloud) (*Facts, error) {
	c, release := e.Cluster, e.Release
	var err error
	nodes := cluster.List(ctx, &err, c.Kube.CoreV1().Nodes().List).Items
	services := cluster.List(ctx, &err, c.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	if err != nil {
		return nil, err
	}
	inv := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone, NodeVMs: cs.Config.NodeVMs})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	f := &Facts{Nodes: nodes, VMs: vms, Region: cs.Config.Region}
	others, err := family.Find(ctx, c.Kube, release, c.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range others.Predecessors {
		if p := &others.Predecessors[i]; p.Wanted > 0 {
			f.OtherControllers = append(f.OtherControllers, p.String())
		}
	}
	if f.LabelForm, err = node.ParseLabelForm(others.Own.InstanceTypeFormat); err != nil {
		return nil, err
	}
	for i := range nodes {
		if kubelet.RunsCloudController(&nodes[i]) {
			f.OtherControllers = append(f.OtherControllers, "the built-in one of the k3s or RKE2 server "+nodes[i].Name)
		}
	}
	if f.Cluster, err = GatherCluster(ctx, c.Kube, c.Namespace, release, others.Own.Lease, e.Clock); err != nil {
		return nil, err
	}
	// Rules of the cluster's Services that still have names of older providers.
	project, err := inv.ProjectID(ctx)
	if err != nil {
		return nil, err
	}
	have, err := rules.Read(ctx, cs.Client, project)
	old := rules.MakePlan(rules.Inventory{Rules: have, Services: services}, rules.Selection{})
	f.Cluster.OldRules = old.Count(rules.VerdictRename)
	return f, err
}

// show prints the plan for a person.
func (p *Plan) show(w io.Writer, style report.Style) error {
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
