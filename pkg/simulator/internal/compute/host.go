// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"slices"
	"strings"
)

// Resources that CloudStack's simulator hypervisor reports for every host.
const ()

// hypervisorNames are the hypervisors that CloudStack knows in addition to those of its zones.
var hypervisorNames = []string{"Hyperv", "KVM", "XenServer", "VMware", "BareMetal", "Ovm", "LXC", "Ovm3", "External"}

// knownHypervisor reports whether CloudStack knows the hypervisor; it ignores filters for unknown ones.
func knownHypervisor(name string) bool {
	return strings.EqualFold(name, "Simulator") || slices.ContainsFunc(hypervisorNames, func(s string) bool { return strings.EqualFold(s, name) })
}
