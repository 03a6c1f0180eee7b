// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// The taint that has an existing Node initialised. The cloud-node-controller of Kubernetes initialises only Nodes with
// this taint, and kubelets set it only with --cloud-provider=external and only when they register a Node. The
// controller looks at the key alone. With the effect PreferNoSchedule, a controller that fails blocks no scheduling.
// NoExecute would evict all Pods of the Node and is never set.
const (
	TaintKey    = cloudproviderapi.TaintExternalCloudProvider
	TaintValue  = "true"
	TaintEffect = corev1.TaintEffectPreferNoSchedule
)

// AnnotationTaintedAt is the time when csccm set the taint: only a taint with this annotation is ours to remove.
const AnnotationTaintedAt = "csccm.io/tainted-at"

// AnnotationAdoptedAt is the time when the controller set the taint on a Node that had joined without it and whose
// kubelet writes the addresses itself: nobody else does on such a Node. Other Nodes get AnnotationTaintedAt.
const AnnotationAdoptedAt = "csccm.io/adopted-at"

// TaintPatch returns a JSON patch that sets taints and annotations of a Node while it has the version that n has:
// spec.taints is one atomic list, and a merge would drop the taints of others. The API server answers "invalid" where the
// Node has changed.
func TaintPatch(n *corev1.Node, taints []corev1.Taint, annotations map[string]string) ([]byte, error) {
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	return json.Marshal([]op{
		{"test", "/metadata/resourceVersion", n.ResourceVersion},
		{"add", "/spec/taints", taints},
		{"add", "/metadata/annotations", annotations},
	})
}

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

// Refusal is a gate that does not hold, with what to do.
type Refusal struct {
	Gate         Gate
	Text, Remedy string
}

// AddressRefusals compares the addresses of a Node with those that it would get. The network of the cluster,
// certificates and etcd peers use the InternalIP, so it must not change.
func AddressRefusals(n *corev1.Node, predicted []corev1.NodeAddress) []Refusal {
	var out []Refusal
	now, after := internalIPs(n.Status.Addresses), internalIPs(predicted)
	if len(now) > 0 && (len(after) == 0 || after[0] != now[0]) {
		out = append(out, Refusal{GateInternalIP,
			fmt.Sprintf("node %s has InternalIP %s, CloudStack would give it %s", n.Name, now[0], listOrNone(after)),
			"make the NIC with that address the VM's default NIC, or start the kubelet with --node-ip"})
	}
	for _, addr := range providedIPs(n) {
		if !addr.IsUnspecified() && !slices.Contains(after, addr.String()) {
			out = append(out, Refusal{GateNodeIP,
				fmt.Sprintf("the kubelet of node %s runs with --node-ip=%s, which is no address of its VM (%s): it would stay uninitialised", n.Name, addr, listOrNone(after)),
				"correct the kubelet's --node-ip"})
		}
	}
	return out
}

// AdoptionRefusals returns why a Node that joined without the taint is not initialised with the metadata of vm, its
// VM. It is empty when the Node can be initialised without any risk for what runs on it.
func AdoptionRefusals(n *corev1.Node, vm *cloudstack.VirtualMachine, o Options) []Refusal {
	o.Node = n
	meta, err := Metadata(*vm, o)
	if err != nil {
		return []Refusal{{GateVM, fmt.Sprintf("node %s: %v", n.Name, err), "look at the VM in CloudStack"}}
	}
	var out []Refusal
	if vm.State != cloudstack.VMRunning {
		out = append(out, Refusal{GateVM, fmt.Sprintf("VM %s of node %s is %s, and its kubelet reports", vm.Name, n.Name, vm.State),
			"find out which machine runs the kubelet; rename the VM or the node"})
	}
	out = append(out, AddressRefusals(n, meta.NodeAddresses)...)
	for _, l := range []struct{ key, after string }{
		{corev1.LabelTopologyZone, meta.Zone}, {corev1.LabelTopologyRegion, meta.Region}, {corev1.LabelInstanceTypeStable, meta.InstanceType},
	} {
		if now, ok := n.Labels[l.key]; ok && l.after != "" && now != l.after {
			out = append(out, Refusal{GateLabels, fmt.Sprintf("label %s of node %s would change from %s to %s; volumes and Pods can be bound to it", l.key, n.Name, now, l.after),
				"csccm taint, which looks for such volumes and Pods"})
		}
	}
	return out
}

// Adoptable reports whether a Node waits for nobody: it is Ready, has no taint TaintKey and no provider ID, and is not
// being deleted. A Node that is not Ready yet waits: it may be joining.
func Adoptable(n *corev1.Node) bool {
	return n.DeletionTimestamp == nil && n.Spec.ProviderID == "" && !HasTaint(n) && Ready(n)
}

// Adopts reports whether the controller of these Pods initialises Nodes that joined without the taint (chart value
// adoptNodes).
func Adopts(controller []corev1.Pod) bool {
	return slices.ContainsFunc(controller, func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return slices.Contains(c.Args, "--adopt-nodes=true") })
	})
}

// KubeletWritesAddresses reports whether a Node that the controller did not initialise has addresses from its kubelet. An
// external kubelet writes none, and writes its --node-ip into an annotation, which other kubelets remove.
func KubeletWritesAddresses(n *corev1.Node) bool {
	_, external := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	return !external && len(internalIPs(n.Status.Addresses)) > 0
}

// HasTaint reports whether a Node waits to be initialised.
func HasTaint(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == TaintKey })
}

// Evicts reports whether a taint is TaintKey with the effect NoExecute, which evicts the Node's Pods.
func Evicts(t corev1.Taint) bool { return t.Key == TaintKey && t.Effect == corev1.TaintEffectNoExecute }

// Ready reports whether the Node's condition Ready is true.
func Ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ControlPlane reports whether a Node has one of the two labels of control plane nodes.
func ControlPlane(n *corev1.Node) bool {
	_, is := n.Labels["node-role.kubernetes.io/control-plane"]
	_, was := n.Labels["node-role.kubernetes.io/master"] // before Kubernetes 1.24
	return is || was
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
