// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Options are the settings of Metadata. The zero value is usable.
type Options struct {
	// Node is the VM's Node; it may be nil. Its name becomes the host name, and its provider ID is kept.
	Node *corev1.Node
	// Form is the format of a new provider ID.
	Form Form
	// LabelForm is the format of the instance type label.
	LabelForm LabelForm
	// Region is the region's name; empty means the zone's name.
	Region string
	// Addresses select which addresses are InternalIP and which are ExternalIP.
	Addresses AddressRules
	// Labels select the optional labels, in addition to the well-known labels of Kubernetes.
	Labels ExtraLabels
}

// Metadata returns a VM's metadata for Kubernetes: provider ID, addresses, instance type, zone, region and the
// selected optional labels. Annotations of the Node override the address rules; an annotation that cannot be parsed
// is ignored (see AddressRules.Of).
//
// The only error is a VM without an ID.
func Metadata(vm cloudstack.VirtualMachine, o Options) (*cloudprovider.InstanceMetadata, error) {
	if vm.ID == "" {
		return nil, errors.New("a VM without an id has no metadata")
	}
	m := &cloudprovider.InstanceMetadata{
		ProviderID:   ProviderID(o.Form, vm.ID),
		InstanceType: InstanceTypeLabel(o.LabelForm, vm.ServiceOfferingName),
		Zone:         LabelValue(vm.ZoneName),
		Region:       LabelValue(o.Region),

		AdditionalLabels: o.Labels.Of(&vm),
	}
	if m.Region == "" {
		m.Region = m.Zone
	}
	if o.Node != nil && o.Node.Spec.ProviderID != "" {
		m.ProviderID = o.Node.Spec.ProviderID // it cannot be changed once it is set
	}
	rules, _ := o.Addresses.Of(o.Node) // the caller reports annotations that cannot be parsed
	m.NodeAddresses = addressesOf(&vm, o.Node, rules)
	return m, nil
}
