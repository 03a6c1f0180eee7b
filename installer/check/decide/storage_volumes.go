// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// DriverKeys says whose keys the driver's calls were judged by.
type DriverKeys struct {
	// Problem is what is wrong with the driver's Secret, "" if nothing is known to be.
	Problem string
	// Unknown are keys in the cloud-config with which the driver ends.
	Unknown []string
	// Note says for people whose keys were asked.
	Note string
}

// VolumeCommands decides STOR-004.
func VolumeCommands(keys DriverKeys, apis map[string]cloudstack.API, err error) Finding {
	if keys.Problem != "" {
		return Problemf("%s", keys.Problem).Fix("make the Secret again with a cloud-config, or run `csccm install --with csi --overwrite-secret`")
	}
	if len(keys.Unknown) > 0 {
		return Problemf("the driver ends at its start: its cloud-config has keys that it does not know: %s", strings.Join(keys.Unknown, ", ")).With("keys", keys.Note).
			Fix("give the driver a Secret of its own without them; the driver that `csccm install --with csi` installs reads a cloud-config of its own")
	}
	if cloudstack.IsKind(err, cloudstack.KindAuth) {
		return Problemf("CloudStack does not accept the keys of the driver: %v", err).With("keys", keys.Note)
	}
	if err != nil {
		return Unread(err)
	}
	var missing []string
	for _, command := range storage.Commands {
		if _, ok := apis[command]; !ok {
			missing = append(missing, command)
		}
	}
	if len(missing) > 0 {
		return Problemf("the role lacks %s: %s", plural.Count(len(missing), "command"), strings.Join(missing, ", ")).With("keys", keys.Note)
	}
	return Passf("%s", plural.Count(len(storage.Commands), "command")).With("keys", keys.Note)
}

// LeftAttached decides STOR-005: disks are CloudStack's data disks.
func LeftAttached(s Storage, nodes []corev1.Node, vms *inventory.VMSnapshot, disks []cloudstack.Volume) Finding {
	living, ours := map[string]bool{}, map[string]bool{}
	for i := range nodes {
		living[nodes[i].Name] = true
		if vm, err := node.Match(vms, &nodes[i]); err == nil {
			ours[vm.ID] = true
		}
	}
	if len(ours) == 0 {
		return Unknownf("no node has a VM that is known") // NODE-002
	}
	var objects []Object
	var attachments, detach []string // names and ids for the remedy
	said := map[string]bool{}
	for i := range s.Attachments {
		a := &s.Attachments[i]
		if volume := a.Spec.Source.PersistentVolumeName; volume != nil && !living[a.Spec.NodeName] {
			text := fmt.Sprintf("holds PersistentVolume %s for Node %s, which is gone", *volume, a.Spec.NodeName)
			if e := a.Status.DetachError; e != nil {
				text += ": " + OneLine(e.Message)
			}
			objects = append(objects, Object{Kind: "VolumeAttachment", Name: a.Name, Message: text})
			said[*volume] = true
			attachments = append(attachments, a.Name)
		}
	}
	byID := map[string]*cloudstack.Volume{}
	for i := range disks {
		byID[strings.ToLower(disks[i].ID)] = &disks[i]
	}
	for i := range s.Volumes {
		v := &s.Volumes[i]
		disk := byID[strings.ToLower(v.Spec.CSI.VolumeHandle)]
		if disk == nil || disk.VMID == "" || ours[disk.VMID] {
			continue
		}
		detach = append(detach, disk.ID)
		if said[v.Name] {
			continue
		}
		objects = append(objects, Object{Kind: "PersistentVolume", Name: v.Name, Message: fmt.Sprintf(
			"its volume %s is attached to VM %s (%s), which is no node", disk.ID, disk.VMName, disk.VMState)})
	}
	f := Passf("%s", plural.Count(len(s.Volumes), "volume")).Unless(objects, "volume", "%s attached where no node is")
	var steps []string
	if len(detach) > 0 {
		steps = append(steps, "detach in CloudStack (detachVolume) "+strings.Join(detach, ", "))
	}
	if len(attachments) > 0 {
		steps = append(steps, "kubectl delete volumeattachment "+strings.Join(attachments, " "))
	}
	if len(steps) > 0 {
		f = f.Fix("wait ten minutes: Kubernetes and the driver detach volumes of Nodes that were deleted; where the VM is stopped or gone for good: %s", strings.Join(steps, ", then "))
	}
	return f
}
