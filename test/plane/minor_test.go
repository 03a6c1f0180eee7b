// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMinorsAreGenerated fails when a folder was not generated from the current template.
func TestMinorsAreGenerated(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile(filepath.Join("gen", "main.go.tmpl"))
	require.NoError(t, err)
	for _, m := range Minors() {
		source, err := os.ReadFile(filepath.Join(m.Folder(), "main.go"))
		if err != nil || !bytes.Equal(source, template) {
			t.Errorf("%s/main.go differs from gen/main.go.tmpl (%v): run go generate ./plane", m.Folder(), err)
		}
		mod, err := os.ReadFile(filepath.Join(m.Folder(), "go.mod"))
		if err != nil || !strings.Contains(string(mod), "\tk8s.io/kubernetes "+m.Release()+"\n") {
			t.Errorf("%s/go.mod does not require Kubernetes %s (%v): run go generate ./plane", m.Folder(), m.Release(), err)
		}
	}
	folders, err := filepath.Glob("k[0-9]*")
	if err != nil || len(folders) != len(Minors()) {
		t.Errorf("folders %v for minors %v (%v)", folders, Minors(), err)
	}
	if !slices.Contains(Minors(), Newest) || Minors()[0] != Newest {
		t.Errorf("the newest of %v is not %s", Minors(), Newest)
	}
}
