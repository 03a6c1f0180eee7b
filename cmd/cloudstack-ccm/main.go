// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// cloudstack-ccm is the cloud controller manager for clusters on Apache CloudStack.
package main

import (
	"fmt"
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API server's clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version metric
)

func main() {
	command, err := newCommand(genericapiserver.SetupSignalHandler())
	if err != nil {
		fmt.Fprintf(os.Stderr, "cloudstack-ccm: %v\n", err)
		os.Exit(1)
	}
	os.Exit(cli.Run(command))
}
