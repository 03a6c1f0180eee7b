// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Options are the settings of Metadata. The zero value is usable.
type Options struct {
	// Node is the Node described. Its name becomes the host name, its provider ID is kept.
	Node *corev1.Node
	// Form of a new provider ID.
	Form Form
	// LabelForm of the instance type.
	LabelForm LabelForm
	// Region is the region's name; empty means the zone's name.
	Region string
}

// Metadata describes a VM to Kubernetes: provider ID, addresses, instance type, zone and region.
//
// The only error is a VM without an id.
func Metadata(vm cloudstack.VirtualMachine, o Options) (*cloudprovider.InstanceMetadata, error) {
	if vm.ID == "" {
		return nil, errors.New("a VM without an id has no metadata")
	}
	m := &cloudprovider.InstanceMetadata{
		ProviderID:   ProviderID(o.Form, vm.ID),
		InstanceType: InstanceTypeLabel(o.LabelForm, vm.ServiceOfferingName),
		Zone:         LabelValue(vm.ZoneName),
		Region:       LabelValue(o.Region),
	}
	if m.Region == "" {
		m.Region = m.Zone
	}
	if o.Node != nil && o.Node.Spec.ProviderID != "" {
		m.ProviderID = o.Node.Spec.ProviderID // it cannot be changed once it is set
	}
	m.NodeAddresses = addressesOf(&vm, o.Node)
	return m, nil
}

// addressesOf lists what CloudStack knows, the default NIC first:
//
//   - InternalIP: the IPv4 and IPv6 address of each NIC, whatever the type of its network. A shared
//     network's address may be public, but it is the one that the kubelet listens on, and Kubernetes wants
//     an InternalIP on every Node. Secondary addresses are left out: they float (keepalived, MetalLB).
//   - ExternalIP: static NAT addresses.
//   - Hostname: the Node's name.
//
// When CloudStack knows no address (no NIC yet, or L2 networks only) the Node keeps the addresses that it
// has and the one that its kubelet was told: an answer with a host name alone would take them away.
func addressesOf(vm *cloudstack.VirtualMachine, n *corev1.Node) []corev1.NodeAddress {
	var list addressList
	for _, nic := range defaultFirst(vm.NICs) {
		list.add(corev1.NodeInternalIP, nic.IPv4)
		list.add(corev1.NodeInternalIP, nic.IPv6)
	}
	list.add(corev1.NodeExternalIP, vm.PublicIP)
	for _, nic := range defaultFirst(vm.NICs) {
		list.add(corev1.NodeExternalIP, nic.PublicIP)
	}
	if n == nil {
		return list.addresses
	}
	if !list.has(corev1.NodeInternalIP) {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				list.add(a.Type, a.Address)
			}
		}
		if ip := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; ip != "" {
			for s := range strings.SplitSeq(ip, ",") { // dual stack: two, with a comma
				list.add(corev1.NodeInternalIP, strings.TrimSpace(s))
			}
		}
	}
	if len(list.addresses) == 0 {
		return nil
	}
	return append(list.addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.Name})
}

type addressList struct {
	addresses []corev1.NodeAddress
}

// add takes an address once; what is no IP address is left out.
func (l *addressList) add(t corev1.NodeAddressType, s string) {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return
	}
	a := corev1.NodeAddress{Type: t, Address: ip.Unmap().String()}
	for _, have := range l.addresses {
		if have == a {
			return
		}
	}
	l.addresses = append(l.addresses, a)
}

func (l *addressList) has(t corev1.NodeAddressType) bool {
	for _, a := range l.addresses {
		if a.Type == t {
			return true
		}
	}
	return false
}

// defaultFirst does not rely on the order of the server's answer.
func defaultFirst(nics []cloudstack.NIC) []*cloudstack.NIC {
	out := make([]*cloudstack.NIC, 0, len(nics))
	for i := range nics {
		if nics[i].Default {
			out = append(out, &nics[i])
		}
	}
	for i := range nics {
		if !nics[i].Default {
			out = append(out, &nics[i])
		}
	}
	return out
}
