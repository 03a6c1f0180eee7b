// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// cloudstack-ccm is the cloud controller manager for clusters on Apache CloudStack.
package main

import (
	"fmt"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API server's clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version metric
	"k8s.io/klog/v2"
)

func main() {
	command, err := newCommand(genericapiserver.SetupSignalHandler())
	if err != nil {
		fmt.Fprintf(os.Stderr, "cloudstack-ccm: %v\n", err)
		os.Exit(1)
	}
	os.Exit(cli.Run(command))
}

// limitMemory sets GOMEMLIMIT to 90 % of the container's memory limit, unless it is set already: near the limit, the
// garbage collector then runs more often, and the process is not killed. The other 10 % are for stacks, code and memory
// that the kernel counts for the container.
func limitMemory() {
	if limit, err := memlimit.Set(memlimit.WithRatio(0.9)); err == nil && limit > 0 {
		klog.V(1).InfoS("Garbage is collected by the container's memory limit", "GOMEMLIMIT", limit)
	}
}
