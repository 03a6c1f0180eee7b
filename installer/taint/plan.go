// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taint has existing nodes initialised by the cloud controller manager.
//
// The cloud-node-controller writes provider ID, zone, region and instance type
// only to nodes that carry the taint
// node.cloudprovider.kubernetes.io/uninitialized, and kubelets set it only when
// they register a new Node. So nodes that were there before need it set once.
// The controller looks at the taint's key alone: with the effect
// PreferNoSchedule it initialises a node just as well, and a controller that
// does not work blocks no scheduling meanwhile. NoExecute would evict every
// pod of the node; it is never set and stops the plan where it is found.
package taint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Key is the taint's key, Value and Effect what csccm sets with it.
const (
	Key    = node.TaintKey
	Value  = node.TaintValue
	Effect = node.TaintEffect
)

// State is where a node stands.
type State string

// The states.
const (
	StateDone    State = "initialised"   // has provider ID and labels
	StateWaiting State = "waiting"       // has the taint: the controller will initialise it
	StateNeeds   State = "needs taint"   // was there before the controller
	StateForeign State = "keeps foreign" // another provider's ID, which can never be changed
)

// does says in a plan what happens to a node.
var does = map[State]string{
	StateDone:    "is initialised",
	StateWaiting: "waits for the controller",
	StateForeign: "keeps its provider ID",
	StateNeeds:   "is initialised by a taint (PreferNoSchedule)",
}

// Facts is what a plan rests on.
type Facts struct {
	Nodes []corev1.Node
	VMs   *inventory.VMSnapshot
	// Region of the cloud-config; "" = the zone's name.
	Region string
	// LabelForm of the instance type, as the controller is told.
	LabelForm node.LabelForm
	// Cluster is what the gates of the whole cluster look at; nil leaves them out: an install has other checks for the
	// same.
	Cluster *ClusterFacts
	// Only, if not empty, names the nodes to plan for. Those that are initialised are initialised again.
	Only []string
	// SkipGates are passed over, by name; neverSkipped never are.
	SkipGates []string
}

// Item is a node in the plan.
type Item struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// VM, Zone and Type are what the node will get; empty without a VM.
	VM   string `json:"vm,omitempty"`
	Zone string `json:"zone,omitempty"`
	Type string `json:"type,omitempty"`
	// Notes are worth knowing but no obstacle.
	Notes []string `json:"notes,omitempty"`
}

// Problem is a gate that does not let the plan pass.
type Problem struct {
	Gate   string `json:"gate"`
	Node   string `json:"node,omitempty"` // "" = the cluster
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Plan says which nodes are to be tainted, in which order.
type Plan struct {
	Items []Item
	// Order has a worker first, which goes alone, where there is one; the control plane is last. Empty: nothing to
	// taint.
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

// AddTo adds the nodes, and the gates that do not let them pass, to the plan of a command.
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
		out.Add("Node",
			fmt.Sprintf("%s %s; VM %s, zone %s, %s", it.Name, what, cmp.Or(it.VM, none), cmp.Or(it.Zone, none),
				cmp.Or(it.Type, none)), it, notes...)
	}
	for _, pr := range p.Problems {
		out.Add("Gate", pr.Gate+": "+pr.Text, pr, "fix: "+pr.Remedy)
	}
}

// NewPlan decides. It is pure: the same facts give the same plan.
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

func (p *Plan) problem(gate node.Gate, nodeName, text, remedy string) {
	if name := string(gate); !slices.Contains(p.skip, name) || slices.Contains(neverSkipped, name) {
		p.Problems = append(p.Problems, Problem{name, nodeName, text, remedy})
	}
}

// judge fills the item and checks the node's gates.
func (p *Plan) judge(f Facts, n *corev1.Node, it *Item) {
	if slices.ContainsFunc(n.Spec.Taints, node.Evicts) {
		p.problem(GateNoExecute, n.Name,
			fmt.Sprintf("node %s carries %s with effect NoExecute, which evicts its pods", n.Name, Key),
			fmt.Sprintf("find out who sets it, then: `kubectl taint node %s %[2]s=%s:%s %[2]s:NoExecute-`", n.Name, Key,
				Value, Effect))
	}

	// A node that waits for its first initialisation is often not Ready for that
	// very reason: its network comes up after it.
	if !node.Ready(n) && it.State != StateWaiting {
		p.problem(node.GateReady, n.Name,
			fmt.Sprintf("node %s is not Ready; a node that is not Ready can be deleted when the controller starts",
				n.Name),
			"repair the node, or remove it from the cluster")
	}

	vm, err := node.Match(f.VMs, n)
	if err != nil {
		remedy := "name the project or zone that holds the VM, or give the VM the node's name"
		if _, ambiguous := errors.AsType[*node.AmbiguousError](err); ambiguous {
			remedy = "rename one of the VMs, or name the zone with --zone"
		}
		if _, malformed := errors.AsType[*node.ProviderIDError](err); malformed {
			remedy = node.RemedyProviderID
		}
		p.problem(node.GateVM, n.Name, err.Error(), remedy)
		return
	}

	it.VM, it.Zone = vm.Name, vm.ZoneName
	meta, err := node.Metadata(vm, node.Options{Node: n, Region: f.Region, LabelForm: f.LabelForm})
	if err != nil {
		p.problem(node.GateVM, n.Name, err.Error(), "look at the VM in CloudStack")
		return
	}

	it.Type = meta.InstanceType
	if it.State == StateForeign {
		it.Notes = append(it.Notes,
			fmt.Sprintf("keeps provider ID %s; its load balancer membership goes by name", n.Spec.ProviderID))
	}

	for _, r := range node.AddressRefusals(n, meta.NodeAddresses) {
		p.problem(r.Gate, n.Name, r.Text, r.Remedy)
	}

	for _, l := range []struct{ key, after string }{
		{corev1.LabelTopologyZone, meta.Zone}, {corev1.LabelTopologyRegion, meta.Region},
		{corev1.LabelInstanceTypeStable, meta.InstanceType},
	} {
		if now, ok := n.Labels[l.key]; ok && l.after != "" && now != l.after && it.State == StateNeeds {
			if c := (labelChange{l.key, now}); !slices.Contains(p.changes, c) {
				p.changes = append(p.changes, c)
			}
			it.Notes = append(it.Notes,
				fmt.Sprintf("label %s changes from %s to %s; volumes and pods bound to the old value stay bound to it",
					l.key, now, l.after))
		}
	}
}

func stateOf(n *corev1.Node) State {
	if node.HasTaint(n) {
		return StateWaiting
	}
	_, kind, err := node.ParseProviderID(n.Spec.ProviderID)
	if err != nil || kind != node.KindNone && !kind.IsCloudStack() {
		return StateForeign
	}
	if Initialised(n) {
		return StateDone
	}
	return StateNeeds
}

// Initialised reports whether a controller has written what it writes to a new node.
func Initialised(n *corev1.Node) bool { return lacks(n) == "" }

// Blocked is the error of a plan with problems; nil without one.
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
