// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Keys of the optional Node labels (--node-labels). The name of an affinity group and the key of a tag are
// appended to their prefix.
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
	// TagPrefix, if not empty, turns each VM tag whose key starts with it into a label. The rest of the tag's key
	// is appended to LabelTagPrefix.
	TagPrefix string
}

type extraLabel struct {
	word  string
	field func(*ExtraLabels) *bool
}

// extraLabels are the values that --node-labels accepts.
var extraLabels = []extraLabel{
	{"offering", func(l *ExtraLabels) *bool { return &l.Offering }},
	{"hypervisor", func(l *ExtraLabels) *bool { return &l.Hypervisor }},
	{"host", func(l *ExtraLabels) *bool { return &l.Host }},
	{"affinity-groups", func(l *ExtraLabels) *bool { return &l.AffinityGroups }},
}

// ParseExtraLabels parses the values of --node-labels and --node-label-tag-prefix.
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

// ExtraLabelWords returns the words that ParseExtraLabels accepts.
func ExtraLabelWords() []string {
	var out []string
	for _, e := range extraLabels {
		out = append(out, e.word)
	}
	return out
}

// Of returns the labels for a VM, or nil if there are none. Fields that CloudStack does not show are omitted.
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
				// Two tag keys can map to the same label; the smaller value wins, so that the result does not
				// depend on the order of the map.
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

// Owned reports whether Of can return a label with this key.
func (ExtraLabels) Owned(key string) bool {
	return slices.Contains([]string{LabelOfferingID, LabelHypervisor, LabelHostID, LabelHostName}, key) ||
		strings.HasPrefix(key, LabelAffinityPrefix) || strings.HasPrefix(key, LabelTagPrefix)
}
