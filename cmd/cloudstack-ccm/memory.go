// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/klog/v2"
)

// ofContainer is the share of the container's memory limit that Go's heap may have: the rest is for stacks, code and what
// the kernel counts for the container.
const ofContainer = 0.9

// limitMemory sets GOMEMLIMIT by the container's limit, unless it is set: garbage is collected more often near the limit,
// and the process is not killed at it. Without a limit nothing changes.
func limitMemory() {
	if limit, err := memlimit.Set(memlimit.WithRatio(ofContainer)); err == nil && limit > 0 {
		klog.V(1).InfoS("Garbage is collected by the container's memory limit", "GOMEMLIMIT", limit)
	}
}
