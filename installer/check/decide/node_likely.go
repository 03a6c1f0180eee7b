// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// likelyVM says which VM a node without one probably is, where its name fits none: by its system UUID, by a MAC
// address that the network plugin left in an annotation, or by its address. It is a hint and no match: the
// controller goes by provider ID and name alone. "" where nothing fits, or more than one VM.
func likelyVM(n *corev1.Node, vms *inventory.VMSnapshot) string {
	for _, sign := range []struct {
		name string
		of   func(vm *cloudstack.VirtualMachine) bool
	}{
		{"system UUID", func(vm *cloudstack.VirtualMachine) bool {
			return n.Status.NodeInfo.SystemUUID != "" && strings.EqualFold(n.Status.NodeInfo.SystemUUID, vm.ID)
		}},
		{"MAC address", func(vm *cloudstack.VirtualMachine) bool { return hasMAC(n, vm) }},
		{"address", func(vm *cloudstack.VirtualMachine) bool { return hasAddress(n, vm) }},
	} {
		var found []cloudstack.VirtualMachine
		for _, vm := range vms.All() {
			if !node.Gone(vm.State) && sign.of(&vm) {
				found = append(found, vm)
			}
		}
		if len(found) == 1 {
			return fmt.Sprintf("by its %s it is VM %s (%s)", sign.name, found[0].Name, found[0].ID)
		}
	}
	return ""
}

// hasMAC looks for the VM's NICs in annotations: Antrea, OVN-Kubernetes and Kube-OVN write a node's MAC address there.
func hasMAC(n *corev1.Node, vm *cloudstack.VirtualMachine) bool {
	for _, value := range n.Annotations {
		value = strings.ToLower(value)
		for i := range vm.NICs {
			if mac := strings.ToLower(vm.NICs[i].MAC); mac != "" && strings.Contains(value, mac) {
				return true
			}
		}
	}
	return false
}

func hasAddress(n *corev1.Node, vm *cloudstack.VirtualMachine) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP && slices.ContainsFunc(vm.NICs, func(nic cloudstack.NIC) bool {
			return a.Address != "" && (a.Address == nic.IPv4 || a.Address == nic.IPv6)
		})
	})
}
