// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/registration"
)

// WithCSI in Options.With installs the CSI driver for CloudStack, and makes keys that it can use too.
const WithCSI = "csi"

// CheckWith refuses names of Options.With that mean nothing.
func CheckWith(names []string) error {
	for _, name := range names {
		if name != WithCSI {
			return report.Usage(fmt.Sprintf("--with %s is not known", name), "--with takes "+WithCSI)
		}
	}
	return nil
}

// shared returns the commands that others call with the controller's keys.
func (o *Options) shared() []string {
	if slices.Contains(o.With, WithCSI) {
		return storage.Commands
	}
	return nil
}

// roleCommands returns what the minimal role allows.
func (in *Installer) roleCommands() []string {
	all := slices.Concat(provider.RequiredCommands, in.shared())
	if name, _ := in.effectiveValues()["registerCluster"].(string); name != "" {
		all = append(append(all, registration.Commands...), registration.UnregisterCommand)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// requiredCommands returns what keys must be allowed to call.
func (in *Installer) requiredCommands() []string {
	all := slices.Concat(credentials.Without(provider.RequiredCommands, provider.OptionalCommands), in.shared())
	slices.Sort(all)
	return slices.Compact(all)
}
