// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/registration"
)

// The role allows what an entry in CloudStack's UI needs if the controller is asked to keep one, and not otherwise.
func TestRoleAllowsTheEntry(t *testing.T) {
	t.Parallel()
	without := &run{Config: &Config{}}
	with := &run{Config: &Config{Values: map[string]any{"registerCluster": "prod"}}}
	for _, command := range registration.Commands {
		require.NotContains(t, without.roleCommands(), command)
		require.Contains(t, with.roleCommands(), command)
	}
}
