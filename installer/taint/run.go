// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/node"
)

// Options of a run.
type Options struct {
	Limits
	Nodes     []string // taint only these nodes, even if they are initialised; empty means all that need it
	SkipGates []string
}

// Run taints nodes, so that the controller initialises them.
func Run(ctx context.Context, e *engine.Env, cs *access.Cloud, o Options) error {
	facts, err := gather(ctx, e, cs)
	if err != nil {
		return err
	}

	for _, name := range o.Nodes {
		if !slices.ContainsFunc(facts.Nodes, func(n corev1.Node) bool { return n.Name == name }) {
			return report.Usage("kubectl get nodes lists them", "there is no node %s", name)
		}
	}

	facts.SkipGates, facts.Only = o.SkipGates, o.Nodes
	p, out := NewPlan(*facts), e.NewPlan()
	p.AddTo(out)
	out.Warnings = append(out.Warnings, facts.Cluster.Warnings...)
	op := engine.Operation{
		Name:  "taint",
		Back:  "csccm taint --undo reverts it",
		Plan:  out,
		Check: func(context.Context) error { return p.Blocked() },
		Done: func() string {
			return fmt.Sprintf("Initialised: %s. Undo:  csccm taint --undo\n", strings.Join(p.Order, ", "))
		},
	}

	if len(p.Order) == 0 {
		out.Add("Nodes", "none needs the taint", nil)
		return e.Run(ctx, op)
	}

	op.What = fmt.Sprintf("taint %s, %s first and alone", report.Count(len(p.Order), "node"), p.Order[0])
	op.Steps = []engine.Step{{Name: "nodes", Do: func(ctx context.Context) error {
		return (&Executor{e, o.Limits}).Initialise(ctx, p)
	}}}

	return e.Run(ctx, op)
}

// gather reads the facts of a plan.
func gather(ctx context.Context, e *engine.Env, cs *access.Cloud) (*Facts, error) {
	read, err := rules.Read(ctx, e.Cluster.Kube, cs)
	if err != nil {
		return nil, err
	}

	f := &Facts{Nodes: read.Nodes, VMs: read.VMs, Region: cs.Config.Region}
	others, err := family.Find(ctx, e.Cluster.Kube, e.Clock, e.Release, e.Cluster.Namespace)
	if err != nil {
		return nil, err
	}

	if f.LabelForm, err = node.ParseLabelForm(others.Own.InstanceTypeFormat); err != nil {
		return nil, err
	}

	if f.Cluster, err = gatherCluster(ctx, e, others.Own.Lease); err != nil {
		return nil, err
	}

	for _, r := range others.Rivals {
		if r.Family == family.Balancer { // writes only load balancers, not nodes
			f.Cluster.Warnings = append(f.Cluster.Warnings, r.String())
			continue
		}

		f.Cluster.add(gateOther, "another cloud controller manager is running: %s", &r)
	}

	handled := family.ClassesOf(others.Own.Words).Handles
	if old := len(rules.MakePlan(read.Rules, read.Services, handled, nil, nil).Steps); old > 0 {
		f.Cluster.add(gateRules, "%d load balancer rules have names of older providers", old)
	}

	return f, nil
}
