// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node/failover"
)

// The taint that makes Kubernetes' cloud-node-controller initialise an existing Node. It initialises only Nodes with
// this taint, and kubelets set it only with --cloud-provider=external, when they register a Node. It compares only the
// key. The effect PreferNoSchedule does not block scheduling if the controller fails. NoExecute would evict all Pods of
// the Node and is never set.
const (
	TaintKey    = cloudproviderapi.TaintExternalCloudProvider
	TaintValue  = "true"
	TaintEffect = corev1.TaintEffectPreferNoSchedule
)

// AnnotationTaintedAt is the time when csccm set the taint. csccm removes the taint only from Nodes with this
// annotation.
const AnnotationTaintedAt = "csccm.io/tainted-at"

// AnnotationAdoptedAt is the time when the controller set the taint on a Node that had joined without it and whose
// kubelet writes the Node's addresses itself. Other Nodes get AnnotationTaintedAt.
const AnnotationAdoptedAt = "csccm.io/adopted-at"

// Gate names a condition of a Node that must hold before the Node is initialised.
type Gate string

// The gates of one Node.
const (
	GateReady      Gate = "ready"
	GateVM         Gate = "vm"
	GateInternalIP Gate = "internal-ip"
	GateNodeIP     Gate = "node-ip"
	GateLabels     Gate = "labels"
)

// Refusal is a gate that does not hold, and what to do about it.
type Refusal struct {
	Gate         Gate
	Text, Remedy string
}

// AddressRefusals returns the gates that would not hold if a Node got the predicted addresses. The network of the
// cluster, certificates and etcd peers use the InternalIP, so it must not change.
func AddressRefusals(n *corev1.Node, predicted []corev1.NodeAddress) []Refusal {
	var out []Refusal
	now, after := internalIPs(n.Status.Addresses), internalIPs(predicted)
	if len(now) > 0 && (len(after) == 0 || after[0] != now[0]) {
		out = append(out, Refusal{GateInternalIP,
			fmt.Sprintf("node %s has InternalIP %s, CloudStack would give it %s", n.Name, now[0], listOrNone(after)),
			"make the NIC with that address the VM's default NIC, or start the kubelet with --node-ip"})
	}
	for _, addr := range providedIPs(n) {
		if !slices.Contains(after, addr.String()) {
			out = append(out, Refusal{GateNodeIP,
				fmt.Sprintf("the kubelet of node %s runs with --node-ip=%s, which is not an address of its VM (%s): "+
					"it would stay uninitialised", n.Name, addr, listOrNone(after)),
				"correct the kubelet's --node-ip"})
		}
	}
	return out
}

// AdoptionRefusals returns why a Node that joined without the taint is not initialised with the metadata of vm, its VM.
// It is empty when the Node can be initialised without any risk for what runs on it.
func AdoptionRefusals(n *corev1.Node, vm *cloudstack.VirtualMachine, o Options) []Refusal {
	var out []Refusal
	if vm.State != cloudstack.VMRunning {
		out = append(out,
			Refusal{GateVM, fmt.Sprintf("VM %s of node %s is %s, and its kubelet reports", vm.Name, n.Name, vm.State),
				"find out which machine runs the kubelet; rename the VM or the node"})
	}

	meta := Metadata(vm, n, o)
	out = append(out, AddressRefusals(n, meta.NodeAddresses)...)
	for _, l := range []struct{ key, after string }{
		{corev1.LabelTopologyZone, meta.Zone}, {corev1.LabelTopologyRegion, meta.Region},
		{corev1.LabelInstanceTypeStable, meta.InstanceType},
	} {
		if now, ok := n.Labels[l.key]; ok && l.after != "" && now != l.after {
			out = append(out,
				Refusal{GateLabels,
					fmt.Sprintf("label %s of node %s would change from %s to %s; volumes and Pods can be bound to it",
						l.key, n.Name, now, l.after),
					"csccm taint, which looks for such volumes and Pods"})
		}
	}

	return out
}

// Adoptable reports whether a Node needs adoption: it is Ready, has no taint TaintKey, was never initialised, and is
// not being deleted. A Node that is not Ready may still be joining. Some kubelets set the provider ID themselves, as
// with Cluster API; such a Node is initialised only if it has the labels for zone or instance type.
func Adoptable(n *corev1.Node) bool {
	labelled := metav1.HasLabel(n.ObjectMeta, corev1.LabelTopologyZone) ||
		metav1.HasLabel(n.ObjectMeta, corev1.LabelInstanceTypeStable)
	initialised := n.Spec.ProviderID != "" && (!HasVMID(n) || labelled)
	return n.DeletionTimestamp == nil && !initialised && !HasTaint(n) && Ready(n)
}

// Adopts reports whether the controller of these Pods initialises Nodes that joined without the taint (chart value
// adoptNodes).
func Adopts(controller []corev1.Pod) bool {
	return slices.ContainsFunc(controller, func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Containers,
			func(c corev1.Container) bool { return slices.Contains(c.Args, "--adopt-nodes=true") })
	})
}

// KubeletWritesAddresses reports whether the kubelet of a Node that is not initialised writes the Node's addresses. A
// kubelet with --cloud-provider=external writes none, and puts its --node-ip into an annotation that other kubelets
// remove.
func KubeletWritesAddresses(n *corev1.Node) bool {
	_, external := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	return !external && len(internalIPs(n.Status.Addresses)) > 0
}

// HasTaint reports whether a Node waits to be initialised.
func HasTaint(n *corev1.Node) bool { return failover.Tainted(n, TaintKey) }

// Evicts reports whether a taint is TaintKey with the effect NoExecute, which evicts the Node's Pods.
func Evicts(t corev1.Taint) bool { return t.Key == TaintKey && t.Effect == corev1.TaintEffectNoExecute }

// Ready reports whether the Node's condition Ready is true.
func Ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ControlPlane reports whether a Node is of the control plane.
func ControlPlane(n *corev1.Node) bool {
	return metav1.HasLabel(n.ObjectMeta, "node-role.kubernetes.io/control-plane")
}

func internalIPs(addresses []corev1.NodeAddress) []string {
	var out []string
	for _, a := range addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}

func listOrNone(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}

// adoptAtOnce is the largest number of Nodes that may have the taint from csccm at the same time.
const adoptAtOnce = 5

// adoption makes Kubernetes initialise Nodes that joined without the taint of external cloud providers. Kubelets
// without --cloud-provider=external register such Nodes: those of CloudStack Kubernetes Service, including the Nodes
// that it adds when it scales a cluster. The controller checks the same gates as "csccm taint" and sets the taint;
// Kubernetes' own cloud-node-controller does the rest.
type adoption struct {
	*Nodes
	backoff *flowcontrol.Backoff
}

func newAdoption(m *Nodes) *adoption {
	// A Node that joins while CloudStack still shows its VM as Starting must not wait long.
	return &adoption{m, newBackoff(m.Clock, 10*time.Second, 5*time.Minute)}
}

// look checks the Nodes that nobody initialises, and sets the taint on as many as the limit allows.
func (a *adoption) look(ctx context.Context) {
	nodes, err := a.List()
	if err != nil {
		return // the cache is not filled yet
	}
	candidates, free := adoptionCandidates(nodes)
	for _, n := range due(a.backoff, nodes, candidates) {
		switch {
		case free == 0 || ctx.Err() != nil:
			return
		case a.adopt(ctx, n):
			free--
		default:
			a.backoff.Next(string(n.UID), a.Clock.Now())
		}
	}
}

// adoptionCandidates returns the Nodes that can be adopted, workers first, and how many more may get the taint now:
// adoptAtOnce minus the Nodes that still have it from csccm. While no Node of the cluster is initialised, only one may
// have it.
func adoptionCandidates(nodes []*corev1.Node) (candidates []*corev1.Node, free int) {
	limit, underway := 1, 0
	for _, n := range nodes {
		switch {
		case Adoptable(n):
			candidates = append(candidates, n)
		case HasTaint(n) && cmp.Or(n.Annotations[AnnotationAdoptedAt], n.Annotations[AnnotationTaintedAt]) != "":
			underway++
		case !HasTaint(n) && HasVMID(n): // it is initialised
			limit = adoptAtOnce
		}
	}
	rank := func(n *corev1.Node) string { return strconv.FormatBool(ControlPlane(n)) + n.Name }
	slices.SortFunc(candidates, func(a, b *corev1.Node) int { return strings.Compare(rank(a), rank(b)) })
	return candidates, max(0, limit-underway)
}

// adopt sets the taint on a Node that passes all gates. Otherwise an Event says why it does not.
func (a *adoption) adopt(ctx context.Context, n *corev1.Node) bool {
	vm, err := a.own(ctx, n)
	if err != nil {
		klog.V(2).InfoS("A node is not adopted; trying again", "node", n.Name, "err", err)
		return false
	}

	if refusals := AdoptionRefusals(n, &vm, a.Metadata); len(refusals) > 0 {
		var texts []string
		for _, r := range refusals {
			texts = append(texts, r.Text+": "+r.Remedy)
		}
		a.events.warn(n, ReasonNotAdopted, strings.Join(texts, "; "))
		return false
	}

	annotation := AnnotationTaintedAt
	if KubeletWritesAddresses(n) {
		annotation = AnnotationAdoptedAt
	}

	taints := append(slices.Clone(n.Spec.Taints), corev1.Taint{Key: TaintKey, Value: TaintValue, Effect: TaintEffect})
	if !a.setTaints(ctx, n, taints, annotation, true) {
		return false
	}

	a.events.normal(n, ReasonAdopted, fmt.Sprintf(
		"the node joined without the taint %s; it has the taint now and is initialised as VM %s (id %s)", TaintKey,
		vm.Name, vm.ID))
	return true
}
