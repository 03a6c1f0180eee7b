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
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/engine/report"
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

// Facts is what a plan rests on.
type Facts struct {
	Nodes []corev1.Node
	VMs   *inventory.VMSnapshot
	// Region of the cloud-config; "" = the zone's name.
	Region string
	// OtherControllers names cloud controller managers at work beside ours.
	OtherControllers []string
	// Cluster is what the gates of the whole cluster look at; nil leaves them out: an install has
	// other checks for the same.
	Cluster *ClusterFacts
	// LabelForm of the instance type, as the controller is told.
	LabelForm node.LabelForm
	// Only, if not empty, names the nodes to plan for. Those that are initialised are initialised again.
	Only []string
	// ReplaceNoExecute has the effect NoExecute of the taint replaced, where a node has it.
	ReplaceNoExecute bool
	// SkipGates are passed over, by name; GateNoExecute and GatePermission never are.
	SkipGates []string
}

// Item is a node in the plan.
type Item struct {
	Name         string `json:"name"`
	ControlPlane bool   `json:"controlPlane"`
	State        State  `json:"state"`
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
	Items []Item `json:"items"`
	// Canary goes first and alone: a worker where there is one. "" = nothing to taint.
	Canary string `json:"canary,omitempty"`
	// Rest follows: workers, then the control plane.
	Rest []string `json:"rest,omitempty"`
	// Soften are nodes whose taint has the effect NoExecute, which is replaced by PreferNoSchedule.
	Soften   []string  `json:"soften,omitempty"`
	Problems []Problem `json:"problems,omitempty"`

	skip    []string
	changes []labelChange
}

// Needed reports whether any node's taints change.
func (p *Plan) Needed() bool { return p.Canary != "" || len(p.Soften) > 0 }

// Waiting are the nodes that already carry the taint.
func (p *Plan) Waiting() []string {
	var names []string
	for _, it := range p.Items {
		if it.State == StateWaiting {
			names = append(names, it.Name)
		}
	}
	return names
}

// NewPlan decides. It is pure: the same facts give the same plan.
func NewPlan(f Facts) *Plan {
	p := &Plan{skip: f.SkipGates}
	var workers, controlPlane []string
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if len(f.Only) > 0 && !slices.Contains(f.Only, n.Name) {
			continue
		}
		it := Item{Name: n.Name, ControlPlane: node.ControlPlane(n), State: stateOf(n)}
		if len(f.Only) > 0 && it.State == StateDone {
			it.State = StateNeeds
		}
		p.judge(f, n, &it)
		p.Items = append(p.Items, it)
		if it.State != StateNeeds {
			continue
		}
		if it.ControlPlane {
			controlPlane = append(controlPlane, n.Name)
		} else {
			workers = append(workers, n.Name)
		}
	}
	slices.SortFunc(p.Items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(workers)
	slices.Sort(controlPlane)
	order := slices.Concat(workers, controlPlane)
	if len(order) == 0 {
		p.Problems = slices.DeleteFunc(p.Problems, func(pr Problem) bool { return pr.Gate != GateNoExecute })
		return p
	}
	p.Canary, p.Rest = order[0], order[1:]
	for _, other := range f.OtherControllers {
		p.problem(GateOtherController, "", fmt.Sprintf("another cloud controller manager is at work: %s", other),
			"stop it first; two controllers would both write to the nodes")
	}
	if f.Cluster != nil {
		p.judgeCluster(f.Cluster)
	}
	return p
}

// The gates.
const (
	GateNoExecute       = "no-execute"
	GateVM              = string(node.GateVM)
	GateReady           = string(node.GateReady)
	GateInternalIP      = string(node.GateInternalIP)
	GateNodeIP          = string(node.GateNodeIP)
	GateOtherController = "other-controller"
	GateController      = "controller"            // ours runs and leads
	GateLabels          = string(node.GateLabels) // volumes or Pods are bound to a label that changes
	GateRollout         = "rollout"
	GateWebhook         = "webhook"
	GateRules           = "rules"
	GatePermission      = "permission"
)

// Gates are all gates that can be passed over.
func Gates() []string {
	return []string{
		GateVM, GateReady, GateInternalIP, GateNodeIP, GateOtherController, GateController, GateLabels, GateRollout, GateWebhook, GateRules,
	}
}

func (p *Plan) problem(gate, nodeName, text, remedy string) {
	if slices.Contains(p.skip, gate) && gate != GateNoExecute && gate != GatePermission {
		return
	}
	p.Problems = append(p.Problems, Problem{gate, nodeName, text, remedy})
}

// judge fills the item and checks the node's gates.
func (p *Plan) judge(f Facts, n *corev1.Node, it *Item) {
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key != Key || t.Effect != corev1.TaintEffectNoExecute:
		case f.ReplaceNoExecute:
			p.Soften = append(p.Soften, n.Name)
			it.Notes = append(it.Notes, "the taint's effect NoExecute is replaced by PreferNoSchedule")
		default:
			p.problem(GateNoExecute, n.Name, fmt.Sprintf("node %s carries %s with effect NoExecute, which evicts its pods", n.Name, Key),
				"find out who sets it, then: csccm taint --replace-no-execute")
		}
	}
	// A node that waits for its first initialisation is often not Ready for that
	// very reason: its network comes up after it.
	if !node.Ready(n) && it.State != StateWaiting {
		p.problem(GateReady, n.Name, fmt.Sprintf("node %s is not Ready; a node that is not Ready can be deleted when the controller starts", n.Name),
			"repair the node, or remove it from the cluster")
	}
	vm, err := node.Match(f.VMs, n)
	if err != nil {
		remedy := "name the project or zone that holds the VM, or give the VM the node's name"
		var ambiguous *node.AmbiguousError
		if errors.As(err, &ambiguous) {
			remedy = "rename one of the VMs, or name the zone with --zone"
		}
		p.problem(GateVM, n.Name, err.Error(), remedy)
		return
	}
	it.VM, it.Zone = vm.Name, vm.ZoneName
	meta, err := node.Metadata(vm, node.Options{Node: n, Region: f.Region, LabelForm: f.LabelForm})
	if err != nil {
		p.problem(GateVM, n.Name, err.Error(), "look at the VM in CloudStack")
		return
	}
	it.Type = meta.InstanceType
	if it.State == StateForeign {
		it.Notes = append(it.Notes, fmt.Sprintf("keeps provider ID %s; its load balancer membership goes by name", n.Spec.ProviderID))
	}
	for _, r := range node.AddressRefusals(n, meta.NodeAddresses) {
		p.problem(string(r.Gate), n.Name, r.Text, r.Remedy)
	}
	for _, l := range []struct{ key, after string }{
		{corev1.LabelTopologyZone, meta.Zone}, {corev1.LabelTopologyRegion, meta.Region}, {corev1.LabelInstanceTypeStable, meta.InstanceType},
	} {
		if now, ok := n.Labels[l.key]; ok && l.after != "" && now != l.after && it.State == StateNeeds {
			if c := (labelChange{l.key, now}); !slices.Contains(p.changes, c) {
				p.changes = append(p.changes, c)
			}
			it.Notes = append(it.Notes, fmt.Sprintf("label %s changes from %s to %s; volumes and pods bound to the old value stay bound to it", l.key, now, l.after))
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
	return &report.Error{What: text, Fix: p.Problems[0].Remedy, Code: report.ExitCheckFailed}
}
