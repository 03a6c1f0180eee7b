// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package event

const describeNode = "kubectl describe node NODE"

// OnNodes are the reasons of Events on Nodes.
var OnNodes = []Row{
	{
		Reason: NodeWithoutVM, Warning: true,
		When:   "no VM has the provider ID or one of the names; the message says where the controller looked and what it saw. On a Ready node whose VM is gone it comes once, within 5 minutes",
		Means:  "A new Node keeps the taint `node.cloudprovider.kubernetes.io/uninitialized` and takes no Pods. A Node that was initialised is behind no load balancer, and is deleted when it is not Ready.",
		See:    []string{"csccm doctor --only NODE-002,NODE-003,CS-004", describeNode},
		Remedy: "give the VM the node's host name, or correct `project-id` or `zone` ([wrong project or zone](troubleshooting.md#wrong-project-or-zone)); where the VM is really gone: `kubectl delete node NODE`",
	},
	{
		Reason: AmbiguousVM, Warning: true,
		When:   "several VMs have the name, or several Nodes would get one VM (`web.a` and `web.b`)",
		Means:  "The Node keeps the taint `node.cloudprovider.kubernetes.io/uninitialized` and takes no Pods: a provider ID can never be corrected, so none is guessed.",
		See:    []string{"csccm doctor --only NODE-002", describeNode},
		Remedy: "rename one of the VMs, set `zone` in the cloud-config where they are in different zones, or start the kubelet with `--provider-id`",
	},
	{
		Reason: InvalidProviderID, Warning: true,
		When:   "the provider ID has CloudStack's scheme, or none, and no ID of a VM",
		Means:  "The controller does not know the Node's VM: it sets no addresses and labels, and the Node is behind no load balancer. Kubernetes lets nobody change a provider ID.",
		See:    []string{"csccm doctor --only NODE-003", "kubectl get nodes -o custom-columns=NAME:.metadata.name,PROVIDER-ID:.spec.providerID"},
		Remedy: "correct the kubelet's `--provider-id` or remove it, delete the Node with `kubectl delete node NODE`, and restart its kubelet, which registers the Node again",
	},
	{
		Reason: NodeIPNotOnVM, Warning: true,
		When:   "the kubelet's `--node-ip` is on no NIC of the VM; Kubernetes then takes over no address and says so nowhere else",
		Means:  "A new Node keeps the taint `node.cloudprovider.kubernetes.io/uninitialized`. A Node that was initialised keeps the addresses that it has.",
		See:    []string{"csccm doctor --only NODE-004", "kubectl get node NODE -o jsonpath='{.metadata.annotations.alpha\\.kubernetes\\.io/provided-node-ip}'"},
		Remedy: "correct `--node-ip`, the NICs of the VM, or the lists of networks (chart values `nodes.internalCIDRs` and `nodes.externalCIDRs`: [addresses](nodes.md#addresses))",
	},
	{
		Reason: InvalidAnnotation, Warning: true, When: "an annotation of the Node cannot be parsed; it is ignored",
		Means: "The Node is handled as if it did not have the annotation.", See: []string{describeNode},
		Remedy: "correct the annotation that the message names, or remove it",
	},
	{
		Reason: NodeAdopted, When: "the node joined without the taint of external cloud providers; the controller set it (chart value `adoptNodes`), and initialises the node",
		Means: "The Node gets its provider ID and labels. The taint's effect is PreferNoSchedule: no Pod is evicted.", See: []string{"csccm doctor --only NODE-001,NODE-004"}, Remedy: noRemedy,
	},
	{
		Reason: NodeNotAdopted, Warning: true,
		When:   "the node joined without that taint, and a gate of [`csccm taint`](migrate.md) does not hold: its addresses or labels would change, or its VM does not run",
		Means:  "The Node stays without provider ID, so it is behind load balancers only where its name finds the VM, and nobody deletes it when its VM is gone.",
		See:    []string{"csccm taint --node NODE --dry-run", describeNode},
		Remedy: "remove what the message names ([gates](nodes.md#nodes-that-join-without-the-taint)); then the Node is adopted within 5 minutes",
	},
	{
		Reason: NodeDeletionRefused, Warning: true, When: "too many Nodes have lost their VMs at once ([life](nodes.md#life))",
		Means:  "No Node is deleted, also not one whose VM is really gone: wrong keys or a wrong project look the same. Pods of lost nodes go on being evicted by Kubernetes.",
		See:    []string{"csccm doctor --only NODE-008,CS-002,CS-004"},
		Remedy: "correct the keys or `project-id` if the VMs exist ([wrong project or zone](troubleshooting.md#wrong-project-or-zone)); delete the Nodes with `kubectl delete node NODE` if the VMs are gone",
	},
	{
		Reason: NodeOutOfService, Warning: true,
		When:   "the node is not Ready, and CloudStack says twice that its VM is stopped or gone (chart value `nodes.outOfService`)",
		Means:  "The Node has the taint `node.kubernetes.io/out-of-service:NoExecute`. Kubernetes deletes its Pods and detaches their volumes at once, so that Pods with volumes start elsewhere in seconds, not after six minutes.",
		See:    []string{describeNode, "kubectl get volumeattachments"},
		Remedy: "none needed for the Pods; start the VM, or delete the Node with `kubectl delete node NODE` where the VM is gone for good. The taint is removed when the VM runs and the kubelet is Ready",
	},
	{
		Reason: NodeInService, When: "the node is Ready again and its VM runs",
		Means: "The taint `node.kubernetes.io/out-of-service` is removed; the node takes Pods.", See: []string{describeNode}, Remedy: noRemedy,
	},
	{
		Reason: OutOfServiceRefused, Warning: true,
		When:   "the node is not Ready, and as many Nodes are out of service already as `--node-deletion-limit` allows ([volumes](nodes.md#volumes-of-a-lost-node))",
		Means:  "The Node does not get the taint: Kubernetes evicts its Pods after 5 minutes, and detaches their volumes 6 minutes later.",
		See:    []string{"csccm doctor --only NODE-008", "kubectl get nodes"},
		Remedy: "look why so many nodes are lost at once; where a VM is certainly down: `kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`",
	},
}
