// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/registration"
)

// The role allows what an entry in CloudStack's UI needs if the controller is asked to keep one, and not otherwise.
func TestRoleAllowsTheEntry(t *testing.T) {
	t.Parallel()
	without := &Installer{facts: &facts{}}
	with := &Installer{facts: &facts{}, Options: Options{Values: map[string]any{"registerCluster": "prod"}}}
	for _, command := range append([]string{registration.UnregisterCommand}, registration.Commands...) {
		require.NotContains(t, without.roleCommands(), command)
		require.Contains(t, with.roleCommands(), command)
	}
}

// With the CSI driver the role allows its commands, each once, and keys without them are refused.
func TestRoleAllowsTheCSIDriver(t *testing.T) {
	t.Parallel()
	without := &Installer{facts: &facts{}}
	with := &Installer{facts: &facts{}, Options: Options{With: []string{WithCSI}}}
	require.NoError(t, CheckWith(with.With))
	require.ErrorContains(t, CheckWith([]string{"cni"}), "--with cni is not known")
	require.NotContains(t, without.roleCommands(), "createVolume")
	require.NotContains(t, without.requiredCommands(), "createVolume")
	for _, all := range [][]string{with.roleCommands(), with.requiredCommands()} {
		require.Subset(t, all, storage.Commands)
		require.Len(t, slices.Compact(slices.Clone(all)), len(all))
	}
	require.Subset(t, with.roleCommands(), provider.RequiredCommands)
}

// The volume commands are in the role that is made, and in the line that repeats the install.
func TestInstallWithCSI(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.KeepCSI(0)
	e.install(t, e.withDriver(t, e.admin()))
	require.Contains(t, e.Said(), "--with csi")
}
