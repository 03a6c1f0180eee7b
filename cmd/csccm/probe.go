// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/kube/kubelet"
)

// probeTimeout is how long a check may take that waits for such Pods.
const probeTimeout = 3 * time.Minute

// probeFlags ask for a Pod on nodes whose kubelet says nothing of its flags.
type probeFlags struct {
	on    bool
	image string
}

func (f *probeFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "probe-pod", false, "run a short Pod (hostPID, no privileges) on nodes whose kubelet cannot be asked, to read its command line")
	cmd.Flags().StringVar(&f.image, "probe-image", kubelet.DefaultProbeImage, "image of that Pod; it needs sh, grep and tr")
	completeFlag(cmd, "probe-image", cobra.NoFileCompletions)
}

func (f *probeFlags) validate() error {
	if f.on && f.image == "" {
		return usagef("--probe-pod needs --probe-image")
	}
	return nil
}

// options is nil without --probe-pod.
func (f *probeFlags) options() *kubelet.ProbeOptions {
	if !f.on {
		return nil
	}
	return &kubelet.ProbeOptions{Image: f.image}
}
