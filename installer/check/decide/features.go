// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"strconv"
	"strings"
)

// Feature is something that csccm offers only on newer releases of CloudStack.
type Feature struct {
	// Since is the release, such as 4.22, that added the command, or the parameter Param of it.
	Since, Command, Param string
	// What the feature is, and what happens without it, for people.
	What, Without string
}

// Features are those that not every supported release has, the oldest first. docs/support-policy.md lists all changes.
var Features = []Feature{
	{"4.19", "addVirtualMachinesToKubernetesCluster", "", "the cluster's entry in CloudStack's UI (chart value registerCluster)", "no entry is created"},
	{"4.22", "updateLoadBalancerRule", "cidrlist", "source ranges that change in place", "the rule is replaced, which ends its connections"},
	{"4.22", "assignCertToLoadBalancer", "forced", "TLS that the router ends (annotation ssl-certificate)", "a Service with the annotation is refused"},
}

// MissingFeatures returns the Features that a server of a release, such as 4.19.3.0, lacks. A release that cannot be read
// lacks none.
func MissingFeatures(version string) []Feature {
	have := numbers(version)
	return slices.DeleteFunc(slices.Clone(Features), func(f Feature) bool {
		return len(have) < 2 || slices.Compare(numbers(f.Since), have) <= 0
	})
}

// numbers reads "4.22.0.0" as 4, 22, 0, 0, up to a part that is no number.
func numbers(version string) (parts []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return parts
		}
		parts = append(parts, n)
	}
	return parts
}
