// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Options are the settings of Metadata. The zero value is usable.
type Options struct {
	Form      Form      // of a new provider ID
	LabelForm LabelForm // of the instance type label
	Region    string    // empty means the zone's name
	Addresses AddressRules
	Labels    ExtraLabels // in addition to the well-known labels of Kubernetes
}

// Metadata returns the metadata of a Node's VM for Kubernetes: provider ID, addresses, instance type, zone, region and
// the selected optional labels. The Node's name becomes the host name, and its provider ID is kept. Annotations of the
// Node override the address rules; an annotation that cannot be parsed is ignored (see AddressRules.Of).
func Metadata(vm *cloudstack.VirtualMachine, n *corev1.Node, o Options) *cloudprovider.InstanceMetadata {
	rules, _ := o.Addresses.Of(n, vm) // the caller reports annotations that cannot be parsed
	return &cloudprovider.InstanceMetadata{
		ProviderID:       cmp.Or(n.Spec.ProviderID, ProviderID(o.Form, vm.ID)), // it cannot be changed once it is set
		InstanceType:     InstanceTypeLabel(o.LabelForm, vm.ServiceOfferingName),
		Zone:             LabelValue(vm.ZoneName),
		Region:           cmp.Or(LabelValue(o.Region), LabelValue(vm.ZoneName)),
		AdditionalLabels: o.Labels.Of(vm),
		NodeAddresses:    addressesOf(vm, n, rules),
	}
}

// LabelForm selects how a service offering's name is converted to a label value.
type LabelForm string

// Forms of the instance type label.
const (
	// LabelKeepSeparators replaces each character that is not allowed in a label value by an underscore: "Small
	// Instance" becomes Small_Instance, m1.large is unchanged.
	LabelKeepSeparators LabelForm = "keep-separators"
	// LabelUpstream removes everything except ASCII letters and digits, as upstream's provider v1.2.0 does: "Small
	// Instance" becomes SmallInstance, m1.large becomes m1large.
	LabelUpstream LabelForm = "upstream"
)

// ParseLabelForm parses the value of --instance-type-format.
func ParseLabelForm(s string) (LabelForm, error) {
	return oneOf("instance type format", s, LabelKeepSeparators, LabelUpstream)
}

// InstanceTypeLabel converts a service offering's name to a label value, which is empty if the name has no character
// that a label value may contain.
func InstanceTypeLabel(form LabelForm, offering string) string {
	if form != LabelUpstream {
		return LabelValue(offering)
	}
	return clip(strings.Map(func(r rune) rune {
		if alphanumeric(r) {
			return r
		}
		return -1
	}, offering))
}

// LabelValue converts any text to a valid label value: at most 63 characters, a letter or digit at both ends, and an
// underscore in place of each character that is not allowed.
func LabelValue(s string) string {
	return clip(strings.Map(func(r rune) rune {
		if alphanumeric(r) || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, s))
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// clip shortens an ASCII string to the maximum length of a label value and trims separators at both ends. It trims the
// front first, so that leading separators do not count towards the length.
func clip(s string) string {
	const separators = "-_."
	s = strings.TrimLeft(s, separators)
	if len(s) > validation.LabelValueMaxLength {
		s = s[:validation.LabelValueMaxLength]
	}
	return strings.TrimRight(s, separators)
}

// Keys of the optional Node labels (--node-labels). The name of an affinity group and the key of a tag are appended to
// their prefix.
const (
	LabelOfferingID     = "csccm.io/service-offering-id"
	LabelHypervisor     = "csccm.io/hypervisor"
	LabelHostID         = "csccm.io/host-id"
	LabelHostName       = "csccm.io/host"
	LabelAffinityPrefix = "affinity-group.csccm.io/"
	LabelTagPrefix      = "tag.csccm.io/"
)

// ExtraLabels selects the optional Node labels, in addition to the well-known labels of Kubernetes. The zero value
// selects none.
type ExtraLabels struct {
	Offering       bool // id of the service offering
	Hypervisor     bool // KVM, VMware, ...
	Host           bool // hypervisor host; CloudStack shows it only to root admins
	AffinityGroups bool // one label for each of the VM's affinity groups
	// TagPrefix, if not empty, turns each VM tag whose key starts with it into a label. The rest of the tag's key is
	// appended to LabelTagPrefix.
	TagPrefix string
}

// ExtraLabelWords returns the words that ParseExtraLabels accepts.
func ExtraLabelWords() []string { return []string{"offering", "hypervisor", "host", "affinity-groups"} }

// ParseExtraLabels parses the values of --node-labels and --node-label-tag-prefix.
func ParseExtraLabels(words []string, tagPrefix string) (ExtraLabels, error) {
	l := ExtraLabels{TagPrefix: strings.TrimSpace(tagPrefix)}
	fields := []*bool{&l.Offering, &l.Hypervisor, &l.Host, &l.AffinityGroups}
	for _, w := range words {
		if w = strings.TrimSpace(w); w == "" {
			continue
		}
		i := slices.Index(ExtraLabelWords(), w)
		if i < 0 {
			return ExtraLabels{}, fmt.Errorf("%q is not known: use %s", w, strings.Join(ExtraLabelWords(), ", "))
		}
		*fields[i] = true
	}
	return l, nil
}

// Of returns the labels for a VM, or nil. Fields that CloudStack does not show are omitted.
func (l ExtraLabels) Of(vm *cloudstack.VirtualMachine) map[string]string {
	out := map[string]string{}
	set := func(on bool, key, value string) {
		if value = LabelValue(value); on && value != "" {
			out[key] = value
		}
	}

	set(l.Offering, LabelOfferingID, vm.ServiceOfferingID)
	set(l.Hypervisor, LabelHypervisor, vm.Hypervisor)
	set(l.Host, LabelHostID, vm.HostID)
	set(l.Host, LabelHostName, vm.HostName)
	if l.AffinityGroups {
		for _, g := range vm.AffinityGroups {
			if name := LabelValue(g.Name); name != "" {
				out[LabelAffinityPrefix+name] = LabelValue(g.ID)
			}
		}
	}

	if l.TagPrefix != "" {
		for key, value := range vm.Tags {
			rest, ok := strings.CutPrefix(key, l.TagPrefix)
			if name := LabelValue(rest); ok && name != "" {
				// Two tag keys can map to the same label; the smaller value wins, so that the result does not depend on
				// the order of the map.
				if had, twice := out[LabelTagPrefix+name]; !twice || LabelValue(value) < had {
					out[LabelTagPrefix+name] = LabelValue(value)
				}
			}
		}
	}

	if len(out) == 0 {
		return nil
	}

	return out
}
