// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSave(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	stamp(c.chart, "v9.8.7")
	file, err := c.Save(t.TempDir())
	require.NoError(t, err)
	loaded, err := LoadContext(t.Context(), file, "", false)
	require.NoError(t, err)
	require.Equal(t, "9.8.7", loaded.Version())
	require.Equal(t, "v9.8.7", loaded.AppVersion())
	was, is := c.Files(), loaded.Files()
	delete(was, "Chart.yaml")
	delete(is, "Chart.yaml")
	require.Equal(t, was, is)

	_, first, err := c.Archive()
	require.NoError(t, err)
	_, second, err := c.Archive()
	require.NoError(t, err)
	require.Equal(t, first, second, "the same chart is the same bytes")
}
