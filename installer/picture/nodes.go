// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/ui/model"
)

const controlPlane = "node-role.kubernetes.io/control-plane"

// poolLabels name the pool of a node: of Cluster API, of Rancher, and what people set themselves.
var poolLabels = []string{
	"topology.cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/deployment-name", "rke.cattle.io/rke-machine-pool-name",
	"node.kubernetes.io/pool", "node-pool", "nodepool", "pool",
}

// pool is the group of a node: its pool, else its offering.
func pool(n *corev1.Node) string {
	if _, is := n.Labels[controlPlane]; is {
		return "control plane"
	}
	for _, l := range poolLabels {
		if v := n.Labels[l]; v != "" {
			return v
		}
	}
	return cmp.Or(n.Labels[corev1.LabelInstanceTypeStable], "workers")
}

func (b *builder) nodes() {
	verdicts := map[string]kubelet.NodeVerdict{}
	for _, v := range b.Kubelets {
		verdicts[v.Node] = v
	}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		o := b.add(model.Object{ID: nodeID(n.Name), Kind: model.KindNode, Name: n.Name, Group: pool(n)})
		b.byName["Node "+n.Name] = o.ID
		in := model.Node{Name: n.Name, Kubelet: string(kubelet.Unknown), ProviderID: n.Spec.ProviderID, Ready: node.Ready(n)}
		if v, known := verdicts[n.Name]; known {
			in.Kubelet, in.Evidence = strings.ReplaceAll(string(v.Verdict), "-", " "), v.Reason()
		}
		var addresses []string
		for _, a := range n.Status.Addresses {
			if ip := net.ParseIP(a.Address); ip != nil && !slices.Contains(in.Kubernetes, a.Address) {
				in.Kubernetes = append(in.Kubernetes, a.Address)
			}
			addresses = append(addresses, fmt.Sprintf("%s %s", a.Type, a.Address))
			if a.Type == corev1.NodeInternalIP && o.Label == "" {
				o.Label = a.Address
			}
		}
		if !in.Ready {
			worsen(o, model.HealthError, "the node is not ready")
		}
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == node.TaintKey }) {
			worsen(o, model.HealthPending, "the controller has not initialised the node yet")
		}
		if vm, known := b.vmOfNode[n.Name]; known {
			in.VMID, in.VMState, in.CloudStack = vm.ID, string(vm.State), vmAddresses(&vm)
			b.link(o.ID, cloudID(model.KindVM, vm.ID), "")
		} else if b.VMs != nil {
			worsen(o, model.HealthError, "no VM in CloudStack is this node")
		}
		b.diagnose(o, "Node "+n.Name)
		in.Health, in.Why = o.Health, slices.Clone(o.Why)
		b.compared = append(b.compared, in)
		var taints []string
		for _, t := range n.Spec.Taints {
			taints = append(taints, t.Key+":"+string(t.Effect))
		}
		o.Facts = model.Facts("Node", n.Name, "Taints", strings.Join(taints, ", "), "Provider ID", n.Spec.ProviderID, "Kubelet", in.Kubelet, "Evidence", in.Evidence,
			"Addresses in Kubernetes", strings.Join(addresses, ", "), "Addresses in CloudStack", strings.Join(in.CloudStack, ", "),
			"VM id", in.VMID, "Zone", n.Labels[corev1.LabelTopologyZone], "Offering", n.Labels[corev1.LabelInstanceTypeStable],
			"Kubelet version", n.Status.NodeInfo.KubeletVersion, "Created", stamp(n.CreationTimestamp))
		o.Commands = []string{"kubectl describe node " + n.Name, b.csccm("doctor --only NODE")}
	}
}
