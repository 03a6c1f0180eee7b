// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/credentials"
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
			What:   "Each kubelet reports in /flagz (through the API server) that it runs with --cloud-provider=external. If it does not answer, its Node is examined. With the chart value adoptNodes the controller also initialises nodes of other kubelets.",
			Why:    "Other kubelets set no taint when they register, so new nodes take Pods before they are initialised; and they overwrite the controller's addresses.",
			Remedy: "start the kubelet with --cloud-provider=external and restart it",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, kubeletsFact, func(verdicts []kubelet.NodeVerdict) Finding {
					pods, _ := ownPodsFact.get(ctx, e) // none before the install
					return decide.Kubelets(verdicts, pods)
				})
			},
		},
		{
			Code: "NODE-002", Category: catNode, Title: "Every node is exactly one VM", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "Each Node has one VM, by its provider ID or else by its name, and no two Nodes have the same VM. For a node without a match, the check names the VM with its system UUID, MAC address (in annotations of network plugins) or address.",
			Why:    "A node without a VM is never initialised, and neither is one whose name two VMs have.",
			Remedy: "name the VM as the node, or start the kubelet with --hostname-override; rename one of two VMs with the same name",
			Run: byVMs(func(_ *Env, nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
				return decide.Matches(nodes, vms)
			}),
		},
		{
			Code: "NODE-003", Category: catNode, Title: "Provider IDs", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "Each Node's provider ID is CloudStack's and names a VM that exists, or is empty before the installation.",
			Why:    "A provider ID can never be changed. With a foreign one, another controller has initialised the node; if it names no VM, the node seems to be deleted.",
			Remedy: "delete the Node and restart its kubelet, which registers it again",
			Run: byVMs(func(e *Env, nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
				return decide.ProviderIDs(nodes, vms, e.facts.phase == PhaseInstalled)
			}),
		},
		{
			Code: "NODE-004", Category: catNode, Title: "No node waits for its initialisation", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "No node carries the taint node.cloudprovider.kubernetes.io/uninitialized for more than two minutes.",
			Why:    "Such a node takes no Pods. If --node-ip is on no NIC of the VM, it waits forever.",
			Remedy: "look at the controller's log, `" + decide.ShowLog + "`, and at NODE-002; where --node-ip is named, set it to an address of the VM",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, nodesFact, func(nodes []corev1.Node) Finding {
					var vms *inventory.VMSnapshot // only explains
					if e.CloudStack != nil {
						vms, _ = vmsFact.get(ctx, e)
					}
					return decide.Uninitialised(nodes, vms, e.Clock.Now())
				})
			},
		},
		{
			Code: "NODE-005", Category: catNode, Title: "Nothing is evicted by the taint", Severity: SeverityFatal, Phases: both(), Needs: []string{"K8S-001"},
			What:   "No node carries the taint node.cloudprovider.kubernetes.io/uninitialized with effect NoExecute.",
			Why:    "NoExecute evicts every Pod of the node that does not tolerate it. Neither kubelets nor csccm ever set it.",
			Remedy: "find out who sets it, then replace it by one that evicts nothing: `csccm taint {node names} --replace-no-execute`",
			Run:    by(nodesFact, decide.NoExecute),
		},
		{
			Code: "NODE-006", Category: catNode, Title: "Kubelet and controller agree on node addresses", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001", "CS-004"},
			What:   "No initialised node has addresses that its kubelet wrote last (managedFields) and that differ from CloudStack's. A node in doubt is read again after 15 seconds.",
			Why:    "A kubelet without --cloud-provider=external and the controller keep overwriting each other's addresses: external addresses come and go.",
			Remedy: "start the kubelets of the named nodes with --cloud-provider=external (NODE-001 says how)",
			Run:    runAddressFight,
		},
		{
			Code: "NODE-007", Category: catNode, Title: "Zone, region and type as in CloudStack", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "The labels topology.kubernetes.io/zone and region and node.kubernetes.io/instance-type, where a node has them, are what CloudStack says, and every volume with a zone or region finds a node.",
			Why:    "They are read from CloudStack only at initialisation. Wrong labels mislead the scheduler, and a volume bound to a value that no node has cannot be mounted.",
			Remedy: "have the node initialised again: `csccm taint {node names}`, which looks for volumes and Pods with the old value first",
			Run:    runLabels,
		},
		{
			Code: "NODE-008", Category: catNode, Title: "No node is about to be deleted", Severity: SeverityFatal, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "No node is NotReady while its VM is not found.",
			Why:    "The controller deletes such a Node. With a wrong project or zone in the cloud-config the VM may exist.",
			Remedy: "if the VM exists, correct project-id and zone in the cloud-config before the controller runs; if not, the Node may go",
			Run:    byVMs(func(_ *Env, nodes []corev1.Node, vms *inventory.VMSnapshot) Finding { return decide.Doomed(nodes, vms) }),
		},
		{
			Code: "NODE-009", Category: catNode, Title: "VMs of the nodes run", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "No node's VM is stopped, being stopped or in an error state in CloudStack.",
			Why:    "The node of a stopped VM takes no Pods and no traffic. CloudStack restarts only VMs of an offering with HA.",
			Remedy: "start the named VMs in CloudStack; for one that does not come back: kubectl delete node {node names}",
			Run:    by2(nodesFact, vmsFact, decide.Stopped),
		},
	}
}

func runAddressFight(ctx context.Context, e *Env) Finding {
	return judge2(ctx, e, nodesFact, vmsFact, func(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
		suspects := decide.SuspectAddresses(nodes, vms, e.addressRules(ctx))
		if slices.ContainsFunc(suspects, func(s decide.Suspect) bool { return !s.Kubelet && s.NodeIP == "" }) {
			select {
			case <-ctx.Done():
				return decide.Unread(decide.Unreadable("the nodes, a second time", ctx.Err()))
			case <-e.Clock.After(decide.SecondLook):
			}
			again, err := nodesFact.read(ctx, e)
			if err != nil {
				return decide.Unread(decide.Unreadable("the nodes, a second time", err))
			}
			decide.LookAgain(suspects, again)
		}
		return decide.Addresses(len(nodes), suspects)
	})
}

// addressRules are those of the controller's flags.
func (e *Env) addressRules(ctx context.Context) node.AddressRules {
	var rules node.AddressRules
	controllers, err := controllersFact.get(ctx, e)
	if err != nil {
		return rules // as without flags
	}
	for _, word := range controllers.Words() {
		// The controller does not start with a list that cannot be read.
		if list, ok := strings.CutPrefix(word, "--node-internal-cidrs="); ok {
			rules.Internal, _ = node.ParseCIDRs(list)
		}
		if list, ok := strings.CutPrefix(word, "--node-external-cidrs="); ok {
			rules.External, _ = node.ParseCIDRs(list)
		}
	}
	return rules
}

func runLabels(ctx context.Context, e *Env) Finding {
	return judge2(ctx, e, nodesFact, vmsFact, func(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
		region := ""
		if e.CloudConfig != nil {
			region = e.CloudConfig.Region
		}
		volumes, err := volumesFact.get(ctx, e)
		f := decide.Labels(nodes, vms, region, volumes, e.facts.phase == PhaseInstalled)
		if err != nil {
			f = f.With("volumes", "not judged: "+err.Error())
		}
		return f
	})
}

// byVMs makes a check of a rule about nodes and VMs, whose finding says where the VMs are if they are elsewhere.
func byVMs(rule func(*Env, []corev1.Node, *inventory.VMSnapshot) Finding) func(context.Context, *Env) Finding {
	return func(ctx context.Context, e *Env) Finding {
		return judge2(ctx, e, nodesFact, vmsFact, func(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
			return e.misplaced(ctx, nodes, vms, rule(e, nodes, vms))
		})
	}
}

// misplaced changes a finding about nodes without VMs where all or most nodes have none: then the VMs are somewhere
// else, and deleting Nodes would delete a cluster that is well.
func (e *Env) misplaced(ctx context.Context, nodes []corev1.Node, vms *inventory.VMSnapshot, f Finding) Finding {
	lost := decide.WithoutVM(nodes, vms)
	if f.Outcome != "" || len(lost) == 0 || 2*len(lost) <= len(nodes) {
		return f
	}
	places, _ := placesFact.get(ctx, e) // only explain
	zone := ""
	if e.CloudConfig != nil {
		zone = e.CloudConfig.Zone
	}
	return decide.Elsewhere(f, lost, append([]credentials.Place{{Project: decide.Here, VMs: vms.All()}}, places...), zone)
}

// Misplaced judges, before the controller has keys, whether the place that is chosen for it owns the VMs of the nodes: vms are
// those there, and places returns where else VMs are. ok is false where all or most nodes have none.
func Misplaced(nodes []corev1.Node, vms []cloudstack.VirtualMachine, place credentials.Place, zone string, places func() []credentials.Place) (f Finding, ok bool) {
	there := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, slices.DeleteFunc(slices.Clone(vms), func(vm cloudstack.VirtualMachine) bool {
		return !inventory.InZone(&vm, zone)
	}))
	lost := decide.WithoutVM(nodes, there)
	if len(lost) == 0 || 2*len(lost) <= len(nodes) {
		return f, true
	}
	in := place.String()
	if zone != "" {
		in += ", zone " + zone
	}
	f = decide.Problemf("%d of %s have no VM in %s", len(lost), plural.Count(len(nodes), "node"), in)
	for i := range lost {
		f = f.About(decide.NodeObject(&lost[i], "has no VM there"))
	}
	others := slices.DeleteFunc(places(), func(p credentials.Place) bool { return p.String() == place.String() })
	return decide.Elsewhere(f, lost, append([]credentials.Place{{Project: decide.Here, VMs: vms}}, others...), zone), false
}
