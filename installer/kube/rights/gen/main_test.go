// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/kube/rights"
)

func TestRolesAreGenerated(t *testing.T) {
	t.Parallel()
	granted, err := grantedByChart()
	require.NoError(t, err)
	want, err := rights.Roles(granted)
	require.NoError(t, err)
	have, err := os.ReadFile("../../../../docs/csccm-rights.yaml")
	require.NoError(t, err)
	require.Equal(t, want, string(have), "run: go generate ./installer/kube/rights")
	require.Contains(t, want, "  resourceNames:\n  - system:auth-delegator\n  resources:\n  - clusterroles\n  verbs:\n  - bind\n")
}
