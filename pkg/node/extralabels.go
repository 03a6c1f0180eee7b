// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Keys of the labels that Nodes get when they are asked for. Names of affinity groups and keys of tags stand
// behind their prefix.
const (
	LabelOfferingID     = "csccm.io/service-offering-id"
	LabelHypervisor     = "csccm.io/hypervisor"
	LabelHostID         = "csccm.io/host-id"
	LabelHostName       = "csccm.io/host"
	LabelAffinityPrefix = "affinity-group.csccm.io/"
	LabelTagPrefix      = "tag.csccm.io/"
)

// ExtraLabels are labels beyond those that Kubernetes itself knows. The zero value is none.
type ExtraLabels struct {
	Offering       bool // id of the service offering
	Hypervisor     bool // KVM, VMware, ...
	Host           bool // hypervisor host: CloudStack shows it to root admins alone
	AffinityGroups bool // one label for each of the VM's affinity groups
	// TagPrefix, if not empty, makes a label of each tag of the VM whose key begins with it. The label's
	// key is what follows the prefix.
	TagPrefix string
}

type extraLabel struct {
	word  string
	field func(*ExtraLabels) *bool
}

// extraLabels are the words of --node-labels.
var extraLabels = []extraLabel{
	{"offering", func(l *ExtraLabels) *bool { return &l.Offering }},
	{"hypervisor", func(l *ExtraLabels) *bool { return &l.Hypervisor }},
	{"host", func(l *ExtraLabels) *bool { return &l.Host }},
	{"affinity-groups", func(l *ExtraLabels) *bool { return &l.AffinityGroups }},
}

// ParseExtraLabels reads the value of --node-labels, a list of words, and of --node-label-tag-prefix.
func ParseExtraLabels(words []string, tagPrefix string) (ExtraLabels, error) {
	l := ExtraLabels{TagPrefix: strings.TrimSpace(tagPrefix)}
	for _, w := range words {
		w = strings.TrimSpace(w)
		if w == "" {
			continue
		}
		i := slices.IndexFunc(extraLabels, func(e extraLabel) bool { return e.word == w })
		if i < 0 {
			return ExtraLabels{}, fmt.Errorf("%q is not known: use %s", w, strings.Join(ExtraLabelWords(), ", "))
		}
		*extraLabels[i].field(&l) = true
	}
	return l, nil
}

// ExtraLabelWords are the words that ParseExtraLabels takes.
func ExtraLabelWords() []string {
	var out []string
	for _, e := range extraLabels {
		out = append(out, e.word)
	}
	return out
}

// Of are the labels of a VM; nil when there are none. What CloudStack does not show is left out.
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
				// Two keys may become one name; which of them is kept must not depend on the map's order.
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

// Owned tells whether a label's key is one that Of can give.
func (ExtraLabels) Owned(key string) bool {
	return slices.Contains([]string{LabelOfferingID, LabelHypervisor, LabelHostID, LabelHostName}, key) ||
		strings.HasPrefix(key, LabelAffinityPrefix) || strings.HasPrefix(key, LabelTagPrefix)
}
