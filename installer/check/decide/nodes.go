// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

func nodeChecks() []Check {
	withVMs := []Source{Nodes, VMs}
	return []Check{
		{
			Code: "NODE-001", Title: "Kubelets run with --cloud-provider=external", Severity: SeverityWarning, Needs: needAPI, Reads: []Source{Kubelets}, Tries: []Source{Pods}, Judge: kubelets,
			What:   "Each kubelet reports in /flagz (through the API server) that it runs with --cloud-provider=external. If it does not answer, its Node is examined. With the chart value adoptNodes the controller also initialises nodes of other kubelets.",
			Why:    "Other kubelets set no taint when they register, so new nodes take Pods before they are initialised; and they overwrite the controller's addresses.",
			Remedy: "start the kubelet with --cloud-provider=external and restart it",
		},
		{
			Code: "NODE-002", Title: "Every node is exactly one VM", Severity: SeverityError, Needs: needVMs, Reads: withVMs, Tries: []Source{Places}, Judge: matches,
			What:   "Each Node has one VM, by its provider ID or else by its name, and no two Nodes have the same VM. For a node without a match, the check names the VM with its system UUID or address.",
			Why:    "A node without a VM is never initialised, and neither is one whose name two VMs have.",
			Remedy: "name the VM as the node, or start the kubelet with --hostname-override; rename one of two VMs with the same name",
		},
		{
			Code: "NODE-003", Title: "Provider IDs", Severity: SeverityError, Needs: needVMs, Reads: withVMs, Tries: []Source{Places}, Judge: providerIDs,
			What:   "Each Node's provider ID is CloudStack's and names a VM that exists, or is empty before the installation.",
			Why:    "A provider ID can never be changed. With a foreign one, another controller has initialised the node; if it names no VM, the node seems to be deleted.",
			Remedy: "delete the Node and restart its kubelet, which registers it again",
		},
		{
			Code: "NODE-004", Title: "No node waits for its initialisation", Severity: SeverityError, Phase: Installed, Needs: needAPI, Reads: []Source{Nodes}, Tries: []Source{VMs}, Judge: uninitialised,
			What:   "No node carries the taint node.cloudprovider.kubernetes.io/uninitialized for more than two minutes.",
			Why:    "Such a node takes no Pods. If --node-ip is on no NIC of the VM, it waits forever.",
			Remedy: "look at the controller's log, `" + ShowLog + "`, and at NODE-002; where --node-ip is named, set it to an address of the VM",
		},
		{
			Code: "NODE-005", Title: "Nothing is evicted by the taint", Severity: SeverityFatal, Needs: needAPI, Reads: []Source{Nodes}, Judge: noExecute,
			What:   "No node carries the taint node.cloudprovider.kubernetes.io/uninitialized with effect NoExecute.",
			Why:    "NoExecute evicts every Pod of the node that does not tolerate it. Neither kubelets nor csccm ever set it.",
			Remedy: "find out who sets it, then replace it by one that evicts nothing: `kubectl taint node {node names} node.cloudprovider.kubernetes.io/uninitialized=true:PreferNoSchedule node.cloudprovider.kubernetes.io/uninitialized:NoExecute-`",
		},
		{
			Code: "NODE-006", Title: "Kubelet and controller agree on node addresses", Severity: SeverityError, Phase: Installed, Needs: needVMs, Reads: withVMs, Tries: []Source{Controllers}, Judge: addresses,
			What:   "No initialised node has addresses that its kubelet wrote last (managedFields) and that differ from CloudStack's.",
			Why:    "A kubelet without --cloud-provider=external and the controller keep overwriting each other's addresses: external addresses come and go.",
			Remedy: "start the kubelets of the named nodes with --cloud-provider=external (NODE-001 says how)",
		},
		{
			Code: "NODE-007", Title: "Zone, region and type as in CloudStack", Severity: SeverityWarning, Needs: needVMs, Reads: withVMs, Tries: []Source{Volumes}, Judge: labels,
			What:   "The labels topology.kubernetes.io/zone and region and node.kubernetes.io/instance-type, where a node has them, are what CloudStack says, and every volume with a zone or region, also of the CSI driver for CloudStack, finds a node.",
			Why:    "They are read from CloudStack only at initialisation. Wrong labels mislead the scheduler, and a volume bound to a value that no node has cannot be mounted.",
			Remedy: "have the node initialised again: `csccm taint {node names}`, which looks for volumes and Pods with the old value first",
		},
		{
			Code: "NODE-008", Title: "No node is about to be deleted", Severity: SeverityFatal, Needs: needVMs, Reads: withVMs, Tries: []Source{Places}, Judge: doomed,
			What:   "No node is NotReady while its VM is not found.",
			Why:    "The controller deletes such a Node. With a wrong project or zone in the cloud-config the VM may exist.",
			Remedy: "if the VM exists, correct project-id and zone in the cloud-config before the controller runs; if not, the Node may be deleted",
		},
		{
			Code: "NODE-009", Title: "VMs of the nodes run", Severity: SeverityWarning, Needs: needVMs, Reads: withVMs, Judge: stopped,
			What:   "No node's VM is stopped, being stopped or in an error state in CloudStack.",
			Why:    "The node of a stopped VM takes no Pods and no traffic. CloudStack restarts only VMs of an offering with HA.",
			Remedy: "start the named VMs in CloudStack; for one that does not come back: kubectl delete node {node names}",
		},
	}
}

func kubelets(f *Facts) Finding {
	if len(f.Kubelets) == 0 {
		return noNodes()
	}
	var not, unclear []Object
	var fixNot, fixUnclear string
	out := Finding{}
	for _, v := range f.Kubelets {
		o := Object{Kind: "Node", Name: v.Node, Message: string(v.Verdict) + " (" + v.Reason() + ")"}
		switch v.Verdict {
		case kubelet.External:
		case kubelet.NotExternal:
			not, fixNot = append(not, o), v.Remedy
		case kubelet.Unknown:
			unclear, fixUnclear = append(unclear, o), v.Remedy
		}
		out = out.With("Node "+v.Node, string(v.Verdict)+": "+v.Reason())
	}
	all := english.Plural(len(f.Kubelets), "node", "")
	switch {
	case len(not) > 0 && node.Adopts(f.Pods):
		out.Outcome, out.Message = OK, fmt.Sprintf("%d of %s without it; the controller initialises such nodes (adoptNodes)", len(not), all)
		return out
	case len(not) > 0:
		out.Remedy, out.Message = fixNot, fmt.Sprintf("%d of %s without it", len(not), all)
	case len(unclear) > 0:
		out.Remedy, out.Outcome, out.Message = fixUnclear, Unknown, fmt.Sprintf("not known of %d of %s", len(unclear), all)
	default:
		out.Outcome, out.Message = OK, all
	}
	return out.About(append(not, unclear...)...)
}

func matches(f *Facts) Finding {
	if len(f.Nodes) == 0 {
		return noNodes()
	}
	all := make([]*corev1.Node, 0, len(f.Nodes))
	for i := range f.Nodes {
		all = append(all, &f.Nodes[i])
	}
	count := english.Plural(len(f.Nodes), "node", "")
	out := Passf("%s in %s", count, f.VMs.Scope())
	objects := f.nodeObjects(func(n *corev1.Node) string {
		vm, err := node.Match(f.VMs, n)
		if err == nil {
			err = node.Unshared(&vm, n, all)
		}
		if err == nil {
			out = out.With("Node "+n.Name, fmt.Sprintf("VM %s (%s), %s", vm.Name, vm.ID, vm.State))
			return ""
		}
		text := withoutName(err, n)
		if likely := likelyVM(n, f.VMs); likely != "" {
			text += "; " + likely
			out = out.With("Node "+n.Name, likely)
		}
		return text
	})
	if len(objects) > 0 {
		out.Outcome, out.Message = "", fmt.Sprintf("%d of %s without exactly one VM", len(objects), count)
	}
	return f.misplaced(out.About(objects...))
}

func providerIDs(f *Facts) Finding {
	var odd []Object
	wrong := f.nodeObjects(func(n *corev1.Node) string {
		id, kind, err := node.ParseProviderID(n.Spec.ProviderID)
		vm, found := f.VMs.ByID(id)
		_, hasVM := f.VM(n)
		switch {
		case err != nil:
			return err.Error()
		case kind.IsCloudStack() && !found:
			return fmt.Sprintf("%q names no VM of %s", n.Spec.ProviderID, f.VMs.Scope())
		case kind.IsCloudStack() && node.Gone(vm.State):
			return fmt.Sprintf("its VM %s (%s) is %s", vm.Name, id, vm.State)
		case kind.IsCloudStack():
		case kind != node.KindNone:
			odd = append(odd, objectf("Node", "", n.Name, "%q is of another cloud provider; the node is found by its name", n.Spec.ProviderID))
		case f.Phase == Installed && !node.HasTaint(n) && hasVM: // others wait for NODE-004, or NODE-002 says it
			odd = append(odd, objectf("Node", "", n.Name, "has no provider ID: it was never initialised"))
		}
		return ""
	})
	switch {
	case len(wrong) > 0:
		return f.misplaced(Problemf("%s with a wrong provider ID", english.Plural(len(wrong), "node", "")).About(append(wrong, odd...)...).
			Fix("nobody can change a provider ID: `kubectl delete node %s`, then restart the kubelet, which registers the Node again", namesOf(wrong)))
	case len(odd) > 0:
		return Warnf("%s without a provider ID of CloudStack", english.Plural(len(odd), "node", "")).About(odd...).
			Fix("have the node initialised: `csccm taint %s`; a foreign provider ID stays", namesOf(odd))
	}
	return Passf("%s", english.Plural(len(f.Nodes), "node", ""))
}

// namesOf returns the names of objects as a command line has them.
func namesOf(objects []Object) string {
	var out []string
	for _, o := range objects {
		out = append(out, o.Name)
	}
	return strings.Join(out, " ")
}

// patience is how long a node may take to be initialised.
const patience = 2 * time.Minute

func uninitialised(f *Facts) Finding {
	fresh := 0
	stuck := f.nodeObjects(func(n *corev1.Node) string {
		age := f.At.Sub(taintedSince(n))
		switch {
		case !node.HasTaint(n):
		case age < patience:
			fresh++
		default:
			return fmt.Sprintf("tainted for %s%s", age.Round(time.Second), f.whyStuck(n))
		}
		return ""
	})
	out := Passf("%s", english.Plural(len(f.Nodes), "node", ""))
	if fresh > 0 {
		out = Passf("%s being initialised", english.Plural(fresh, "node", ""))
	}
	return out.Unless(stuck, "node", "%s waiting for the controller")
}

// taintedSince is when the node's taints were last written, as managedFields record it.
func taintedSince(n *corev1.Node) time.Time {
	since := n.CreationTimestamp.Time
	for _, m := range n.ManagedFields {
		if m.Time != nil && m.FieldsV1 != nil && m.Time.After(since) && strings.Contains(m.FieldsV1.GetRawString(), `"f:taints"`) {
			since = m.Time.Time
		}
	}
	return since
}

func (f *Facts) whyStuck(n *corev1.Node) string {
	if f.VMs == nil {
		return ""
	}
	vm, err := node.Match(f.VMs, n)
	if err != nil {
		return "; " + withoutName(err, n)
	}
	meta, err := node.Metadata(vm, node.Options{Node: n})
	if ips := node.UnlistedNodeIPs(n, meta.NodeAddresses); err == nil && len(ips) > 0 {
		return fmt.Sprintf("; the kubelet's --node-ip %s is on no NIC of VM %s (%s)", ips[0], vm.Name, addressText(meta.NodeAddresses))
	}
	return ""
}

func noExecute(f *Facts) Finding {
	objects := f.nodeObjects(func(n *corev1.Node) string {
		if slices.ContainsFunc(n.Spec.Taints, node.Evicts) {
			return "has the taint with effect NoExecute"
		}
		return ""
	})
	return Passf("%s", english.Plural(len(f.Nodes), "node", "")).Unless(objects, "node", "Pods are evicted from %s")
}

func doomed(f *Facts) Finding {
	notReady := 0
	objects := f.nodeObjects(func(n *corev1.Node) string {
		if node.Ready(n) {
			return ""
		}
		notReady++
		// The controller deletes a Node by its provider ID alone.
		_, kind, invalid := node.ParseProviderID(n.Spec.ProviderID)
		_, err := node.Match(f.VMs, n)
		if _, missing := errors.AsType[*node.NotFoundError](err); missing && invalid == nil && kind.IsCloudStack() {
			return "is NotReady and " + withoutName(err, n)
		}
		return ""
	})
	return f.misplaced(Passf("%s, %d NotReady", english.Plural(len(f.Nodes), "node", ""), notReady).Unless(objects, "node", "%s would be deleted"))
}

func stopped(f *Facts) Finding {
	running := 0
	objects := f.nodeObjects(func(n *corev1.Node) string {
		vm, ok := f.VM(n)
		switch {
		case !ok: // NODE-002 says it
		case node.Off(vm.State) || vm.State == cloudstack.VMStopping || vm.State == cloudstack.VMError:
			return fmt.Sprintf("its VM %s is %s", vm.Name, vm.State)
		default:
			running++ // or starting, or migrating
		}
		return ""
	})
	if running == 0 && len(objects) == 0 {
		return Skipf("no node has a VM")
	}
	return Passf("%s", english.Plural(running, "VM", "")).Unless(objects, "node", "the VMs of %s do not run")
}

// likelyVM says which VM a node without one probably is, where its name fits none: by its system UUID or by its address. It is a
// hint and no match: the controller goes by provider ID and name alone. "" where nothing fits, or more than one VM.
func likelyVM(n *corev1.Node, vms *inventory.VMSnapshot) string {
	found := slices.DeleteFunc(slices.Clone(vms.All()), func(vm cloudstack.VirtualMachine) bool { return node.Gone(vm.State) || !hasAddress(n, &vm) })
	sign := "address"
	if vm, known := vms.ByID(n.Status.NodeInfo.SystemUUID); known && !node.Gone(vm.State) {
		found, sign = []cloudstack.VirtualMachine{vm}, "system UUID"
	}
	if len(found) != 1 {
		return ""
	}
	return fmt.Sprintf("by its %s it is VM %s (%s)", sign, found[0].Name, found[0].ID)
}

func hasAddress(n *corev1.Node, vm *cloudstack.VirtualMachine) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP && slices.ContainsFunc(vm.NICs, func(nic cloudstack.NIC) bool {
			return a.Address != "" && (a.Address == nic.IPv4 || a.Address == nic.IPv6)
		})
	})
}
