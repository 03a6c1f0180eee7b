// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taint sets a taint on existing nodes, so that the cloud controller manager initialises them.
//
// The cloud-node-controller writes provider ID, zone, region and instance type only to nodes with the taint
// node.cloudprovider.kubernetes.io/uninitialized. Kubelets set this taint only when they register a new Node, so csccm
// sets it once on nodes that existed before the controller. The controller only looks at the key of the taint. csccm
// sets the effect PreferNoSchedule, so that scheduling is not blocked if the controller does not work. The effect
// NoExecute would evict every Pod of the node: csccm never sets it, and a node that has the taint with NoExecute stops
// the plan.
package taint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Key is the key of the taint. Value and Effect are those of the taint that csccm sets.
const (
	Key    = node.TaintKey
	Value  = node.TaintValue
	Effect = node.TaintEffect
)

// State is the state of a node with regard to initialisation.
type State string

// The states.
const (
	StateDone    State = "initialised"   // has provider ID and labels
	StateWaiting State = "waiting"       // has the taint, the controller will initialise it
	StateNeeds   State = "needs taint"   // existed before the controller
	StateForeign State = "keeps foreign" // has the provider ID of another provider, which cannot be changed
)

// does describes in a plan what happens to a node.
var does = map[State]string{
	StateDone:    "is initialised",
	StateWaiting: "waits for the controller",
	StateForeign: "keeps its provider ID",
	StateNeeds:   "is initialised by a taint (PreferNoSchedule)",
}

// Facts are the input of a plan.
type Facts struct {
	Nodes []corev1.Node
	VMs   *inventory.VMSnapshot
	// Region is the region in the cloud-config; "" means the name of the zone.
	Region string
	// LabelForm is the form of the instance type label that the controller uses.
	LabelForm node.LabelForm
	// Cluster holds the facts for the gates of the whole cluster. nil skips these gates, for an install, which has
	// checks for them.
	Cluster *ClusterFacts
	// Only, if not empty, names the nodes to plan for. They are initialised again if they are initialised already.
	Only []string
	// SkipGates are the names of gates to skip; gates in neverSkipped are not skipped.
	SkipGates []string
}

// Item is a node in the plan.
type Item struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// VM is the VM of the node; Zone and Type are the values that its labels get. All are empty without a VM.
	VM   string `json:"vm,omitempty"`
	Zone string `json:"zone,omitempty"`
	Type string `json:"type,omitempty"`
	// Notes are shown, but do not stop the plan.
	Notes []string `json:"notes,omitempty"`
}

// Problem is a gate that does not hold.
type Problem struct {
	Gate   string `json:"gate"`
	Node   string `json:"node,omitempty"` // "" for a gate of the cluster
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Plan says which nodes are to be tainted, in which order.
type Plan struct {
	Items []Item
	// Order are the nodes to taint, workers first and the control plane last. The first node is tainted alone.
	Order    []string
	Problems []Problem

	skip    []string
	changes []labelChange
}

// In returns the names of the nodes in a state.
func (p *Plan) In(s State) (names []string) {
	for _, it := range p.Items {
		if it.State == s {
			names = append(names, it.Name)
		}
	}
	return names
}

// AddTo adds the nodes and the problems to the plan of a command.
func (p *Plan) AddTo(out *engine.Plan) {
	const none = "none"
	for _, it := range p.Items {
		what := does[it.State]
		if len(p.Order) > 0 && it.Name == p.Order[0] {
			what += ", first"
		}

		var notes []string
		for _, n := range it.Notes {
			notes = append(notes, "! "+n)
		}

		out.Add(
			"Node",
			fmt.Sprintf(
				"%s %s; VM %s, zone %s, %s",
				it.Name, what, cmp.Or(it.VM, none), cmp.Or(it.Zone, none), cmp.Or(it.Type, none),
			),
			it, notes...,
		)
	}

	for _, pr := range p.Problems {
		out.Add("Gate", pr.Gate+": "+pr.Text, pr, "fix: "+pr.Remedy)
	}
}

// NewPlan makes a plan. It is a pure function of the facts.
func NewPlan(f Facts) *Plan {
	p := &Plan{skip: f.SkipGates}

	var workers, controlPlane []string
	for _, n := range f.Nodes {
		if len(f.Only) > 0 && !slices.Contains(f.Only, n.Name) {
			continue
		}

		it := Item{Name: n.Name, State: stateOf(&n)}
		if len(f.Only) > 0 && it.State == StateDone {
			it.State = StateNeeds
		}

		p.judge(f, &n, &it)
		p.Items = append(p.Items, it)

		switch {
		case it.State != StateNeeds:
		case node.ControlPlane(&n):
			controlPlane = append(controlPlane, n.Name)
		default:
			workers = append(workers, n.Name)
		}
	}

	slices.SortFunc(p.Items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(workers)
	slices.Sort(controlPlane)
	if p.Order = slices.Concat(workers, controlPlane); len(p.Order) == 0 {
		// Without a node to taint, only a taint that evicts Pods is still a problem.
		p.Problems = slices.DeleteFunc(p.Problems, func(pr Problem) bool { return pr.Gate != GateNoExecute })
		return p
	}

	if f.Cluster != nil {
		for _, g := range clusterGates {
			texts := f.Cluster.Found[g.name]
			if g.name == string(node.GateLabels) {
				texts = boundToLabels(f.Cluster, p.changes)
			}

			for _, text := range texts {
				p.problem(node.Gate(g.name), "", text, g.remedy)
			}
		}
	}

	return p
}

// problem adds a problem, unless its gate is skipped.
func (p *Plan) problem(gate node.Gate, nodeName, text, remedy string) {
	if name := string(gate); !slices.Contains(p.skip, name) || slices.Contains(neverSkipped, name) {
		p.Problems = append(p.Problems, Problem{name, nodeName, text, remedy})
	}
}

// judge sets the fields of an item and checks the gates of its node.
func (p *Plan) judge(f Facts, n *corev1.Node, it *Item) {
	if slices.ContainsFunc(n.Spec.Taints, node.Evicts) {
		p.problem(
			GateNoExecute, n.Name,
			fmt.Sprintf("node %s carries %s with effect NoExecute, which evicts its pods", n.Name, Key),
			fmt.Sprintf(
				"find out who sets it, then: `kubectl taint node %s %[2]s=%s:%s %[2]s:NoExecute-`",
				n.Name, Key, Value, Effect,
			),
		)
	}

	// A node that waits for its first initialisation is often not Ready yet, because its network starts only after the
	// initialisation.
	if !node.Ready(n) && it.State != StateWaiting {
		p.problem(
			node.GateReady, n.Name,
			fmt.Sprintf(
				"node %s is not Ready; a node that is not Ready can be deleted when the controller starts", n.Name,
			),
			"repair the node, or remove it from the cluster",
		)
	}

	vm, err := node.Match(f.VMs, n)
	if err != nil {
		var remedy string
		switch node.ReasonOf(err) {
		case node.ReasonAmbiguousVM:
			remedy = "rename one of the VMs, or name the zone with --zone"
		case node.ReasonInvalidProviderID:
			remedy = node.RemedyProviderID
		default:
			remedy = "name the project or zone that holds the VM, or give the VM the node's name"
		}

		p.problem(node.GateVM, n.Name, err.Error(), remedy)
		return
	}

	it.VM, it.Zone = vm.Name, vm.ZoneName
	meta := node.Metadata(&vm, n, node.Options{Region: f.Region, LabelForm: f.LabelForm})
	it.Type = meta.InstanceType
	if it.State == StateForeign {
		it.Notes = append(it.Notes,
			fmt.Sprintf("keeps provider ID %s; its load balancer membership goes by name", n.Spec.ProviderID))
	}

	for _, r := range node.AddressRefusals(n, meta.NodeAddresses) {
		p.problem(r.Gate, n.Name, r.Text, r.Remedy)
	}

	for _, l := range []struct{ key, after string }{
		{corev1.LabelTopologyZone, meta.Zone},
		{corev1.LabelTopologyRegion, meta.Region},
		{corev1.LabelInstanceTypeStable, meta.InstanceType},
	} {
		if now, ok := n.Labels[l.key]; ok && l.after != "" && now != l.after && it.State == StateNeeds {
			if c := (labelChange{l.key, now}); !slices.Contains(p.changes, c) {
				p.changes = append(p.changes, c)
			}

			it.Notes = append(it.Notes, fmt.Sprintf(
				"label %s changes from %s to %s; volumes and pods bound to the old value stay bound to it",
				l.key, now, l.after,
			))
		}
	}
}

// stateOf returns the state of a node.
func stateOf(n *corev1.Node) State {
	if node.HasTaint(n) {
		return StateWaiting
	}

	if n.Spec.ProviderID != "" && !node.HasVMID(n) {
		return StateForeign
	}

	if Initialised(n) {
		return StateDone
	}

	return StateNeeds
}

// Initialised reports whether a controller has initialised the node.
func Initialised(n *corev1.Node) bool { return missingPart(n) == "" }

// Blocked returns an error if the plan has problems.
func (p *Plan) Blocked() error {
	if len(p.Problems) == 0 {
		return nil
	}

	text := "existing nodes cannot be initialised safely: " + p.Problems[0].Text
	if n := len(p.Problems) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}

	return report.CheckFailed(p.Problems[0].Remedy, "%s", text)
}
