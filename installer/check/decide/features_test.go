// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// Each feature is missing exactly where the catalogue of commands and parameters does not have it.
func TestMissingFeatures(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		world, err := simulator.LoadWorld(strings.NewReader("version: '" + version + "'\nzones: [{name: z, publicRanges: [203.0.113.10-203.0.113.19]}]\n"))
		require.NoError(t, err)
		admin := testenv.NewCloud(t, world).Admin(t)
		apis, err := admin.ListAPIs(t.Context())
		require.NoError(t, err)
		missing := decide.MissingFeatures(version + ".0.0")
		for _, f := range decide.Features {
			has := apis.Has(f.Command)
			if has && f.Param != "" {
				has, err = admin.HasParameter(t.Context(), f.Command, f.Param)
				require.NoError(t, err)
			}
			require.Equal(t, !has, slices.Contains(missing, f), "%s: %s", version, f.What)
		}
	}
	require.Empty(t, decide.MissingFeatures("4.22.0.0-SNAPSHOT"))
	require.Len(t, decide.MissingFeatures("4.19.3.0"), 2)
	require.Empty(t, decide.MissingFeatures("unknown"))
}
