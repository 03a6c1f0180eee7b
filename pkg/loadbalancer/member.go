// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	cpapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// MemberOf is what the planner needs to know of a node and its VM.
func MemberOf(n *corev1.Node, vm *cloudstack.VirtualMachine) Member {
	m := Member{Node: n.Name, VMID: vm.ID}
	for _, nic := range vm.NICs {
		m.NICs = append(m.NICs, NIC{NetworkID: nic.NetworkID, NetworkName: nic.NetworkName, IP: nic.IPv4, Secondary: nic.SecondaryIP})
	}
	m.Addresses = NodeAddresses(n)
	return m
}

// NodeAddresses are the addresses at which a node wants to be reached: what its kubelet was told, else what
// the Node shows.
func NodeAddresses(n *corev1.Node) []string {
	if own := n.Annotations[cpapi.AnnotationAlphaProvidedIPAddr]; own != "" {
		return strings.Split(own, ",")
	}
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}
