// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/charts"
)

// The packaged chart is compared in release/internal/chartpkg.
func TestEmbeddedChartIsTheFolder(t *testing.T) {
	t.Parallel()
	read := func(files fs.FS) map[string]string {
		all := map[string]string{}
		require.NoError(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(files, path)
			all[path] = string(data)
			return err
		}))
		return all
	}
	embedded := read(charts.FS())
	folder := read(os.DirFS(charts.Name))
	maps.DeleteFunc(folder, func(path, _ string) bool { return strings.HasPrefix(path, "ci/") }) // .helmignore
	assert.Equal(t, folder, embedded)
	assert.Contains(t, embedded, "templates/_helpers.tpl")
	assert.Contains(t, embedded, "Chart.yaml")
}
