// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

const catStorage = "Storage"

func storageChecks() []Check {
	installed := []Phase{PhaseInstalled}
	return []Check{
		{
			Code: "STOR-001", Category: catStorage, Title: "CSI driver for CloudStack", Severity: SeverityError, Phases: installed, Needs: []string{"K8S-001"},
			What:   "The CSI driver for CloudStack has its CSIDriver, all Pods of its controller and of its DaemonSet are ready, and each node that the DaemonSet selects has the driver in its CSINode. Clusters without the driver and without a StorageClass or volume of it are left out.",
			Why:    "Pods wait for volumes that nobody creates, attaches or mounts.",
			Remedy: "where parts are missing: `csccm install --with csi` installs the driver, or completes what it has installed; a driver of somebody else is completed by its chart; where Pods are not ready: kubectl describe and kubectl logs of the named workload say why; a node registers when the driver's Pod on it is deleted and starts again",
			Run:    by2(storageFact, nodesFact, decide.CSIDriver),
		},
		{
			Code: "STOR-002", Category: catStorage, Title: "CSI topology as in CloudStack", Severity: SeverityError, Phases: installed, Needs: []string{"STOR-001", "CS-004"},
			What:   "The CSINode of each node names the node's VM, the node's label " + storage.ZoneKey + " is the id of the VM's zone, and every volume of the driver is of a zone in which a node is.",
			Why:    "The driver attaches a volume to the VM that the CSINode names, and the scheduler places Pods by the label. A volume whose zone no node has can never be mounted.",
			Remedy: "of each named node remove the label (kubectl label node NODE " + storage.ZoneKey + "-) and delete the driver's Pod on it: it registers the node again; a volume's zone cannot be changed: join a node of that zone, or move the data to a new volume",
			Run:    by3(storageFact, nodesFact, vmsFact, decide.Topology),
		},
		{
			Code: "STOR-003", Category: catStorage, Title: "Disk offerings of StorageClasses", Severity: SeverityError, Phases: installed, Needs: []string{"STOR-001", "CS-002"},
			What:   "Each StorageClass of the driver names a disk offering that exists, that the driver's keys see, of custom size and on shared storage; with nodes in several zones it binds volumes when a Pod needs them (WaitForFirstConsumer).",
			Why:    "With another disk offering no volume is created, or one of another size than the claim asks for.",
			Remedy: "name another disk offering: a StorageClass cannot be changed, so delete it and create it again with the id from CloudStack in parameters." + storage.DiskOfferingKey + "; volumes that exist stay as they are. A disk offering that is hidden is an administrator's to show to the domain",
			Run:    by3(storageFact, nodesFact, diskOfferingsFact, decide.Offerings),
		},
		{
			Code: "STOR-004", Category: catStorage, Title: "Role allows what the CSI driver calls", Severity: SeverityError, Phases: installed, Needs: []string{"STOR-001", "CS-002"},
			What:   "CloudStack accepts the keys in the driver's Secret, and their role allows the commands that the driver calls. Where the Secret cannot be read, the controller's keys are judged, which it says with -v.",
			Why:    "A refused command shows only when a volume is created, attached, resized or deleted.",
			Remedy: "add the named commands to the role (`csccm install --with csi` does so for a role that csccm made), or give the user the default role User",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, driverFact, func(d driverCloud) Finding {
					apis, err := driverAPIsFact.get(ctx, e)
					return decide.VolumeCommands(d.keys, apis, decide.Cause(err))
				})
			},
		},
		{
			Code: "STOR-005", Category: catStorage, Title: "No volume stays with a node that is gone", Severity: SeverityWarning, Phases: installed, Needs: []string{"STOR-001", "CS-004"},
			What:   "No VolumeAttachment of the driver is for a Node that is gone, and no volume of the driver is attached to a VM that is no node of the cluster.",
			Why:    "A volume that is attached elsewhere cannot be attached to the node of its Pod: the Pod waits.",
			Remedy: "wait ten minutes: Kubernetes and the driver detach volumes of Nodes that were deleted. Where the VM is stopped or gone for good, detach the named volume in CloudStack (detachVolume), then delete the named VolumeAttachment (kubectl delete volumeattachment NAME)",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e, storageFact, nodesFact, vmsFact, func(s decide.Storage, nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
					if len(s.Volumes)+len(s.Attachments) == 0 {
						return decide.LeftAttached(s, nodes, vms, nil)
					}
					return judge(ctx, e, disksFact, func(disks []cloudstack.Volume) Finding { return decide.LeftAttached(s, nodes, vms, disks) })
				})
			},
		},
	}
}
