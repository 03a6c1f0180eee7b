// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// taintFlags are the flags of taint alone.
type taintFlags struct {
	cloudConfig, release string
	skipGates            []string
	maxParallel          int
	perNode              time.Duration
	undo                 bool
	nodes                []string
	replaceNoExecute     bool
	dryRun               dryRun
	look                 bool // --dry-run, read
	snapshot, dir        string
}

func newTaintCommand(g *globals) *cobra.Command {
	f := &taintFlags{}
	cmd := &cobra.Command{
		Use:   "taint",
		Short: "Have existing nodes initialised by the controller, one first, without moving a Pod",
		Long: `taint has nodes initialised that were in the cluster before the controller. The
controller writes provider ID, zone, region and instance type only to nodes with
the taint ` + taint.Key + `, which
kubelets set on new nodes alone. csccm sets it with the effect PreferNoSchedule:
no Pod is moved, and nothing is kept from being scheduled.

Before the first node every gate must pass, or be passed over by its name with
--skip-gate. One worker goes first and alone, the control plane last. A node that
is not initialised in time loses csccm's own taint again, and csccm stops.

--node names the nodes to work on. A node that is named and was initialised before is
initialised again, which writes zone, region and instance type anew.

What the nodes were is kept in a file and in a ConfigMap; --undo sets the labels
back. A provider ID stays: the API server lets nobody change one.` + serverIsClient,
		Example: `  # look only
  csccm taint --dry-run

  # labels again as CloudStack has them, of these nodes
  csccm taint --node worker-1,worker-2

  # five nodes at a time after the first
  csccm taint --max-parallel 5 --yes

  # labels as they were
  csccm taint --undo`,
		Args:        noArgs,
		Annotations: outputs("text", "json", "yaml"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	flags.StringVar(&f.release, "release", install.DefaultRelease, "name of csccm's Helm release")
	flags.StringSliceVar(&f.nodes, "node", nil, "only this node, also if it was initialised before; may be repeated")
	flags.BoolVar(&f.replaceNoExecute, "replace-no-execute", false, "where a node has the taint with the effect NoExecute, which evicts Pods, make it PreferNoSchedule")
	flags.StringSliceVar(&f.skipGates, "skip-gate", nil, "pass over this gate: "+strings.Join(taint.Gates(), ", "))
	flags.IntVar(&f.maxParallel, "max-parallel", 1, "nodes at a time, after the first")
	flags.DurationVar(&f.perNode, "node-timeout", taint.DefaultPerNode, "how long the controller may take for a node")
	addDryRun(cmd, &f.dryRun)
	flags.BoolVar(&f.undo, "undo", false, "set back the labels of the nodes that csccm tainted, and take its own taints away")
	flags.StringVar(&f.snapshot, "snapshot", "", "with --undo: file of the snapshot (default the ConfigMap in the cluster)")
	flags.StringVar(&f.dir, "snapshot-dir", "", "folder for the snapshot (default the user's state folder)")
	completeFlag(cmd, "node", completeFrom(g, nodeNames))
	completeFlag(cmd, "skip-gate", cobra.FixedCompletions(taint.Gates(), cobra.ShellCompDirectiveNoFileComp))
	completeFlag(cmd, "release", cobra.NoFileCompletions)
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error { return runTaint(ctx, g, f) })
	return cmd
}

// validate checks what needs no connection.
func (f *taintFlags) validate(g *globals) error {
	var err error
	if f.look, err = f.dryRun.readWith(g.yes); err != nil {
		return err
	}
	switch {
	case f.maxParallel < 1:
		return usagef("--max-parallel %d must be 1 or more", f.maxParallel)
	case f.snapshot != "" && !f.undo:
		return usagef("--snapshot is for --undo")
	case f.undo && (len(f.nodes) > 0 || f.replaceNoExecute):
		return usagef("--undo goes back by the snapshot alone: leave out --node and --replace-no-execute")
	}
	if err := positive("--node-timeout", f.perNode); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, gate := range taint.Gates() {
		known[gate] = true
	}
	for _, gate := range f.skipGates {
		if !known[gate] {
			return usagef("--skip-gate %q is none of %s", gate, strings.Join(taint.Gates(), ", "))
		}
	}
	return nil
}

// taintResult is what -o json and yaml write.
type taintResult struct {
	SchemaVersion int `json:"schemaVersion"`
	*taint.Plan
	DryRun   bool     `json:"dryRun"`
	Snapshot string   `json:"snapshot,omitempty"`
	Done     []string `json:"done,omitempty"` // nodes that were initialised
}

func runTaint(ctx context.Context, g *globals, f *taintFlags) error {
	format, err := g.wantOutput("text", "json", "yaml")
	if err != nil {
		return err
	}
	if err := f.validate(g); err != nil {
		return err
	}
	if f.undo {
		return undoTaint(ctx, g, f, format)
	}
	c, cs, err := g.connect(ctx, f.cloudConfig)
	if err != nil {
		return err
	}
	defer cs.close()
	facts, nodes, err := taintFacts(ctx, c, cs, f.release)
	if err != nil {
		return c.Explain(err)
	}
	for _, name := range f.nodes {
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
			return &remediedError{usagef("--node %s: there is no such node", name), "kubectl get nodes lists them"}
		}
	}
	facts.SkipGates, facts.Only, facts.ReplaceNoExecute = f.skipGates, f.nodes, f.replaceNoExecute
	r := &taintResult{SchemaVersion: 1, Plan: taint.NewPlan(*facts), DryRun: true}
	if format == "text" {
		if err := showTaint(g, r.Plan); err != nil {
			return err
		}
	}
	err = carryOutTaint(ctx, g, f, c, r, nodes, format)
	if format != "text" {
		if werr := report.Encode(g.out, format, r); err == nil {
			err = werr
		}
	}
	return err
}

// taintFacts reads what all gates look at.
func taintFacts(ctx context.Context, c *cluster.Cluster, cs *cloud, release string) (*taint.Facts, []corev1.Node, error) {
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	inv := inventory.New(cs.client, inventory.Options{ProjectID: cs.config.ProjectID, Zone: cs.config.Zone})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	f := &taint.Facts{Nodes: list.Items, VMs: vms, Region: cs.config.Region}
	others := &takeover.Facts{Own: takeover.Own{Lease: takeover.DefaultLease}}
	if err := takeover.FindControllers(ctx, c.Kube, release, c.Namespace, others); err != nil {
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
	for i := range list.Items {
		if kubelet.RunsCloudController(&list.Items[i]) {
			f.OtherControllers = append(f.OtherControllers, "the built-in one of the k3s or RKE2 server "+list.Items[i].Name)
		}
	}
	lease := taint.Lease{Namespace: others.Own.Lease.Namespace, Name: others.Own.Lease.Name}
	if f.Cluster, err = taint.GatherCluster(ctx, c.Kube, c.Namespace, release, lease, clock.RealClock{}); err != nil {
		return nil, nil, err
	}
	f.Cluster.OldRules, err = oldRules(ctx, c, cs, inv)
	return f, list.Items, err
}

// oldRules counts the rules of the cluster's Services that still have names of older providers.
func oldRules(ctx context.Context, c *cluster.Cluster, cs *cloud, inv *inventory.Inventory) (int, error) {
	project, err := inv.ProjectID(ctx)
	if err != nil {
		return 0, err
	}
	services, err := c.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	rules, err := migrate.Read(ctx, cs.client, project)
	if err != nil {
		return 0, err
	}
	plan := migrate.MakePlan(migrate.Inventory{Rules: rules, Services: services.Items}, migrate.Selection{})
	return plan.Count(migrate.VerdictRename), nil
}

func carryOutTaint(ctx context.Context, g *globals, f *taintFlags, c *cluster.Cluster, r *taintResult, nodes []corev1.Node, format string) error {
	if len(r.Problems) > 0 {
		return &taint.BlockedError{Problems: r.Problems}
	}
	if !r.Needed() || f.look {
		return nil
	}
	n := len(r.Rest)
	if r.Canary != "" {
		n++
	}
	if err := agreeToTaint(ctx, g, r, n, format); err != nil {
		return err
	}
	text := format == "text"
	dir := f.dir
	if dir == "" {
		dir = stateDir(g.getenv)
	}
	snapshot := taint.TakeSnapshot(nodes, c.Server, time.Now())
	var err error
	if r.Snapshot, err = snapshot.Write(dir); err != nil {
		return err
	}
	if err := snapshot.Keep(ctx, c.Kube, c.Namespace); err != nil {
		return c.Explain(err)
	}
	progress := g.progress()
	defer progress.Close()
	progress.Info("the nodes as they were: %s, and ConfigMap %s/%s", r.Snapshot, c.Namespace, taint.SnapshotConfigMap)
	r.DryRun = false
	reported := make(chan string, n)
	e := &taint.Executor{Kube: c.Kube, PerNode: f.perNode, MaxParallel: f.maxParallel, Report: func(name string, took time.Duration) {
		reported <- name
		progress.Info("node %s initialised after %s", name, took.Round(10*time.Millisecond))
	}}
	if err := e.Soften(ctx, r.Plan); err != nil {
		return c.Explain(err)
	}
	for _, name := range r.Soften {
		progress.Info("node %s: the taint evicts no Pod any more", name)
	}
	if r.Canary == "" {
		return nil
	}
	progress.Step("Node %s, alone at first", r.Canary)
	err = e.Canary(ctx, r.Plan)
	if err == nil && len(r.Rest) > 0 {
		progress.Step("%d more", len(r.Rest))
		err = e.Rest(ctx, r.Plan)
	}
	close(reported)
	for name := range reported {
		r.Done = append(r.Done, name)
	}
	if err != nil {
		progress.Fail("")
		if ctx.Err() != nil {
			return &remediedError{err, "run the same command again: it continues with the other nodes; csccm taint --undo goes back"}
		}
		return err
	}
	progress.Done("")
	if text {
		_, err = fmt.Fprintf(g.out, "Initialised: %s. Back:  csccm taint --undo\n", strings.Join(r.Done, ", "))
	}
	return err
}

// agreeToTaint asks for the change of n nodes' taints and of the effects that are replaced.
func agreeToTaint(ctx context.Context, g *globals, r *taintResult, n int, format string) error {
	var what []string
	if len(r.Soften) > 0 {
		what = append(what, "replace the effect NoExecute of "+strings.Join(r.Soften, ", "))
	}
	question := ""
	if n > 0 {
		what = append(what, "taint "+plural.Count(n, "node"))
		question = fmt.Sprintf(", %s first and alone", r.Canary)
	}
	text := strings.Join(what, ", ")
	return g.agreed(ctx, format, text, prompt.Question{Message: strings.ToUpper(text[:1]) + text[1:] + question})
}

// showTaint prints the plan for a person.
func showTaint(g *globals, p *taint.Plan) error {
	style := g.style(g.out)
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
	if err := t.Write(g.out, style); err != nil {
		return err
	}
	_, err := fmt.Fprint(g.out, b.String())
	return err
}
