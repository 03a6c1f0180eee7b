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
	// Node is the Node described. Its name becomes the host name, its provider ID is kept.
	Node *corev1.Node
	// Form of a new provider ID.
	Form Form
	// LabelForm of the instance type.
	LabelForm LabelForm
	// Region is the region's name; empty means the zone's name.
	Region string
	// Addresses say which addresses are InternalIP and which ExternalIP.
	Addresses AddressRules
	// Labels are those that the Node gets beyond Kubernetes' own.
	Labels ExtraLabels
}

// Metadata describes a VM to Kubernetes: provider ID, addresses, instance type, zone, region and the extra
// labels that are asked for. The Node's own annotations decide on its addresses, where it has them; one that
// cannot be read is as if it were not there (see AddressRules.Of).
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

		AdditionalLabels: o.Labels.Of(&vm),
	}
	if m.Region == "" {
		m.Region = m.Zone
	}
	if o.Node != nil && o.Node.Spec.ProviderID != "" {
		m.ProviderID = o.Node.Spec.ProviderID // it cannot be changed once it is set
	}
	rules, _ := o.Addresses.Of(o.Node) // what is wrong with an annotation is the caller's to report
	m.NodeAddresses = addressesOf(&vm, o.Node, rules)
	return m, nil
}
