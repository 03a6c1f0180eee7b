// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

const catNode = "Nodes"

func nodeChecks() []Check {
	return []Check{
		{
			Code: "NODE-001", Category: catNode, Title: "Kubelets run with --cloud-provider=external", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001"},
			What:   "Each kubelet says in /flagz, asked through the API server, that it runs with --cloud-provider=external; where it cannot be asked, what it leaves on its Node speaks.",
			Why:    "Other kubelets set no taint when they register, so new nodes take Pods before they are initialised, and they overwrite the addresses that the controller sets.",
			Remedy: "start the kubelet with --cloud-provider=external and restart it",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.kubelets, decideKubelets)
			},
		},
		{
			Code: "NODE-002", Category: catNode, Title: "Every node is exactly one VM", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "Each Node has one VM, by its provider ID or else by its name, and no two Nodes have the same. Of a node whose name fits none it is said which VM it is by its system UUID, MAC address (in annotations of network plugins) or address.",
			Why:    "A node without a VM is never initialised; two VMs of one name cannot be told apart.",
			Remedy: "name the VM as the node, or start the kubelet with --hostname-override; rename one of two VMs with the same name",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.nodes, e.facts.vms, func(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
					return e.misplaced(ctx, nodes, vms, decideMatches(nodes, vms))
				})
			},
		},
		{
			Code: "NODE-003", Category: catNode, Title: "Provider IDs", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "Each Node's provider ID is CloudStack's and names a VM that exists, or is empty before the installation.",
			Why:    "A provider ID can never be changed. A foreign one means that another controller initialised the node; one that names no VM makes the node look deleted.",
			Remedy: "delete the Node object and restart its kubelet to have it registered anew",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.nodes, e.facts.vms, func(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
					return e.misplaced(ctx, nodes, vms, decideProviderIDs(nodes, vms, e.facts.phase == PhaseInstalled))
				})
			},
		},
		{
			Code: "NODE-004", Category: catNode, Title: "No node waits for its initialisation", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "No node carries the taint node.cloudprovider.kubernetes.io/uninitialized for more than two minutes.",
			Why:    "Such a node takes no Pods. An address of --node-ip that is on no NIC of the VM blocks it for ever and makes no Event.",
			Remedy: "look at the controller's log (" + showLog + ") and at NODE-002; where --node-ip is named, set it to an address of the VM",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.nodes, func(nodes []corev1.Node) Finding {
					var vms *inventory.VMSnapshot // only explains
					if e.CloudStack != nil {
						vms, _ = e.facts.vms.get(ctx)
					}
					return decideUninitialised(nodes, vms, e.Clock.Now())
				})
			},
		},
		{
			Code: "NODE-005", Category: catNode, Title: "Nothing is evicted by the taint", Severity: SeverityFatal, Phases: both(), Needs: []string{"K8S-001"},
			What:   "No node carries the taint node.cloudprovider.kubernetes.io/uninitialized with effect NoExecute.",
			Why:    "NoExecute evicts every Pod of the node that does not tolerate it. Neither kubelets nor csccm ever set it.",
			Remedy: "find out who sets it, then replace it by one that evicts nothing: `csccm taint --node {nodes} --replace-no-execute`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.nodes, decideNoExecute)
			},
		},
		{
			Code: "NODE-006", Category: catNode, Title: "Nobody fights over addresses", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001", "CS-004"},
			What:   "No initialised node has addresses that its kubelet wrote last (managedFields) and that differ from CloudStack's. A node in doubt is read again after 15 seconds.",
			Why:    "A kubelet without --cloud-provider=external writes its own addresses every few seconds, the controller writes them back: external addresses come and go, and with them what rests on them.",
			Remedy: "start the kubelets of the named nodes with --cloud-provider=external (NODE-001 says how)",
			Run:    runAddressFight,
		},
		{
			Code: "NODE-007", Category: catNode, Title: "Zone, region and type as in CloudStack", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "The labels topology.kubernetes.io/zone and region and node.kubernetes.io/instance-type, where a node has them, are what CloudStack says, and every volume with a zone or region finds a node.",
			Why:    "Only an initialisation changes these labels. Scheduling goes wrong by wrong ones, and a volume that is bound to a value that no node has can never be mounted again.",
			Remedy: "have the node initialised again: `csccm taint --node {nodes}`, which looks for volumes and Pods with the old value first",
			Run:    runLabels,
		},
		{
			Code: "NODE-008", Category: catNode, Title: "No node is about to be deleted", Severity: SeverityFatal, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "No node is NotReady while its VM is not found.",
			Why:    "That is exactly when the lifecycle controller deletes a Node. With a wrong project or zone the VM may well exist.",
			Remedy: "if the VM exists, correct project-id and zone in the cloud-config before the controller runs; if not, the Node may go",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.nodes, e.facts.vms, func(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
					return e.misplaced(ctx, nodes, vms, decideDoomed(nodes, vms))
				})
			},
		},
		{
			Code: "NODE-009", Category: catNode, Title: "VMs of the nodes run", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "No node's VM is stopped, being stopped or in an error state in CloudStack.",
			Why:    "The node of a stopped VM takes no Pods and no traffic, and load balancers lose a member. CloudStack starts only VMs of an offering with HA again.",
			Remedy: "start the named VMs in CloudStack; for one that does not come back: kubectl delete node {nodes}",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.nodes, e.facts.vms, decideStopped)
			},
		},
	}
}

func decideStopped(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	var objects []Object
	running := 0
	for i := range nodes {
		vm, err := node.Match(vms, &nodes[i])
		if err != nil {
			continue // NODE-002 says it
		}
		if !node.Off(vm.State) && vm.State != cloudstack.VMStopping && vm.State != cloudstack.VMError {
			running++ // or starting, or migrating
			continue
		}
		objects = append(objects, nodeObject(&nodes[i], "its VM %s is %s", vm.Name, vm.State))
	}
	switch {
	case len(objects) > 0:
		return problemf("the VMs of %s do not run", plural.Count(len(objects), "node")).About(objects...)
	case running == 0:
		return skipf("no node has a VM")
	}
	return passf("%s", plural.Count(running, "VM"))
}

func decideKubelets(verdicts []kubelet.NodeVerdict) Finding {
	var not, unclear []Object
	f := Finding{}
	for _, v := range verdicts {
		o := Object{Kind: "Node", Name: v.Node, Message: string(v.Verdict) + " (" + v.Reason() + ")"}
		switch v.Verdict {
		case kubelet.External:
		case kubelet.NotExternal:
			not = append(not, o)
			f.Remedy = v.Remedy
		case kubelet.Unknown:
			unclear = append(unclear, o)
			if f.Remedy == "" {
				f.Remedy = v.Remedy
			}
		}
		f = f.With("Node "+v.Node, string(v.Verdict)+": "+v.Reason())
	}
	switch {
	case len(not) > 0:
		f.Message = fmt.Sprintf("%d of %s without it", len(not), plural.Count(len(verdicts), "node"))
	case len(unclear) > 0:
		f.Outcome, f.Message = Unknown, fmt.Sprintf("not known of %d of %s", len(unclear), plural.Count(len(verdicts), "node"))
	case len(verdicts) == 0:
		return skipf("the cluster has no nodes")
	default:
		f.Outcome, f.Message = OK, plural.Count(len(verdicts), "node")
	}
	return f.About(append(not, unclear...)...)
}

func decideMatches(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	var objects []Object
	nodeOf := map[string]string{} // by VM id
	f := passf("%s in %s", plural.Count(len(nodes), "node"), vms.Scope())
	for i := range nodes {
		n := &nodes[i]
		vm, err := node.Match(vms, n)
		if err != nil {
			text := strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))
			if likely := likelyVM(n, vms); likely != "" {
				text += "; " + likely
				f = f.With("Node "+n.Name, likely)
			}
			objects = append(objects, nodeObject(n, "%s", text))
			continue
		}
		if other, taken := nodeOf[vm.ID]; taken {
			objects = append(objects, nodeObject(n, "has the same VM as node %s: %s (%s)", other, vm.Name, vm.ID))
			continue
		}
		nodeOf[vm.ID] = n.Name
		f = f.With("Node "+n.Name, fmt.Sprintf("VM %s (%s), %s", vm.Name, vm.ID, vm.State))
	}
	switch {
	case len(objects) > 0:
		f.Outcome, f.Message = "", fmt.Sprintf("%d of %s without exactly one VM", len(objects), plural.Count(len(nodes), "node"))
	case len(nodes) == 0:
		return skipf("the cluster has no nodes")
	}
	return f.About(objects...)
}

func decideProviderIDs(nodes []corev1.Node, vms *inventory.VMSnapshot, installed bool) Finding {
	var wrong, odd []Object
	for i := range nodes {
		n := &nodes[i]
		id, kind, err := node.ParseProviderID(n.Spec.ProviderID)
		switch {
		case err != nil:
			wrong = append(wrong, nodeObject(n, "%v", err))
		case kind == node.KindNone && installed:
			odd = append(odd, nodeObject(n, "has no provider ID: it was never initialised"))
		case kind == node.KindNone:
		case !kind.IsCloudStack():
			odd = append(odd, nodeObject(n, "%q is of another cloud provider; the node is found by its name", n.Spec.ProviderID))
		default:
			if vm, ok := vms.ByID(id); !ok || node.Gone(vm.State) {
				wrong = append(wrong, nodeObject(n, "%q names no VM of %s", n.Spec.ProviderID, vms.Scope()))
			}
		}
	}
	switch {
	case len(wrong) > 0:
		return problemf("%s with a wrong provider ID", plural.Count(len(wrong), "node")).About(append(wrong, odd...)...)
	case len(odd) > 0:
		return warnf("%s without a provider ID of CloudStack", plural.Count(len(odd), "node")).About(odd...).
			Fix("have the node initialised: `csccm taint`; a foreign provider ID stays")
	}
	return passf("%s", plural.Count(len(nodes), "node"))
}

// patience is how long a node may take to be initialised.
const patience = 2 * time.Minute

func decideUninitialised(nodes []corev1.Node, vms *inventory.VMSnapshot, now time.Time) Finding {
	var stuck []Object
	fresh := 0
	for i := range nodes {
		n := &nodes[i]
		if !tainted(n, "") {
			continue
		}
		if age := now.Sub(taintedSince(n)); age >= patience {
			stuck = append(stuck, nodeObject(n, "tainted for %s%s", age.Round(time.Second), whyStuck(n, vms)))
		} else {
			fresh++
		}
	}
	switch {
	case len(stuck) > 0:
		return problemf("%s waiting for the controller", plural.Count(len(stuck), "node")).About(stuck...)
	case fresh > 0:
		return passf("%s being initialised", plural.Count(fresh, "node"))
	}
	return passf("%s", plural.Count(len(nodes), "node"))
}

// tainted tells whether a node carries the taint, with an effect if one is given.
func tainted(n *corev1.Node, effect corev1.TaintEffect) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == cloudproviderapi.TaintExternalCloudProvider && (effect == "" || t.Effect == effect) {
			return true
		}
	}
	return false
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

func whyStuck(n *corev1.Node, vms *inventory.VMSnapshot) string {
	if vms == nil {
		return ""
	}
	vm, err := node.Match(vms, n)
	if err != nil {
		return "; " + strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))
	}
	wanted := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if wanted == "" {
		return ""
	}
	have := nicAddresses(&vm)
	for _, ip := range strings.Split(wanted, ",") {
		if !slices.Contains(have, ip) {
			return fmt.Sprintf("; the kubelet's --node-ip %s is on no NIC of VM %s (%s)", ip, vm.Name, strings.Join(have, ", "))
		}
	}
	return ""
}

func nicAddresses(vm *cloudstack.VirtualMachine) []string {
	var out []string
	for i := range vm.NICs {
		for _, ip := range []string{vm.NICs[i].IPv4, vm.NICs[i].IPv6} {
			if ip != "" {
				out = append(out, ip)
			}
		}
	}
	return out
}

func decideNoExecute(nodes []corev1.Node) Finding {
	var objects []Object
	for i := range nodes {
		if tainted(&nodes[i], corev1.TaintEffectNoExecute) {
			objects = append(objects, nodeObject(&nodes[i], "has the taint with effect NoExecute"))
		}
	}
	if len(objects) > 0 {
		return problemf("Pods are evicted from %s", plural.Count(len(objects), "node")).About(objects...)
	}
	return passf("%s", plural.Count(len(nodes), "node"))
}

func decideDoomed(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	var objects []Object
	notReady := 0
	for i := range nodes {
		n := &nodes[i]
		if isReady(n) {
			continue
		}
		notReady++
		_, err := node.Match(vms, n)
		if _, missing := errors.AsType[*node.NotFoundError](err); missing {
			objects = append(objects, nodeObject(n, "is NotReady and %s", strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))))
		}
	}
	if len(objects) > 0 {
		return problemf("%s would be deleted", plural.Count(len(objects), "node")).About(objects...)
	}
	return passf("%s, %d NotReady", plural.Count(len(nodes), "node"), notReady)
}
