// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMinorsAreGenerated fails if a folder was not generated from the current template.
func TestMinorsAreGenerated(t *testing.T) {
	t.Parallel()
	read := func(folder, name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		return string(text)
	}

	for _, m := range Minors() {
		assert.Equal(t, read("gen", "main.go.tmpl"), read(m.Folder(), "main.go"), "run go generate ./plane")
		assert.Equal(t, read("gen", "node.go.tmpl"), read(m.Folder(), "node/main.go"), "run go generate ./plane")
		assert.Contains(t, read(m.Folder(), "go.mod"), "\tk8s.io/kubernetes "+m.Release()+"\n",
			"run go generate ./plane")
	}
	assert.Equal(t, Newest, Minors()[0])

	// With other versions than the product's, each package that both need is compiled twice: minutes of the first demo,
	// or of the first test.
	for _, folder := range []string{Newest.Folder(), "../../release/tools/helm"} {
		for line := range strings.Lines(read("../..", "go.mod")) {
			f, other := strings.Fields(line), read(folder, "go.mod")
			if len(f) > 1 && strings.Contains(other, "\t"+f[0]+" v") {
				assert.Contains(t, other, "\t"+f[0]+" "+f[1], "go generate ./plane, or go get in %s", folder)
			}
		}
	}
}
