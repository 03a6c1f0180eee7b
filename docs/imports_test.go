// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImportsPointOneWay: everything that the controller links runs in the cluster with the keys of CloudStack, and what the
// commands share knows none of them.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	const module = "github.com/csccm/csccm/"
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, c := range []struct {
		packages, needed string
		unwanted         []string
	}{
		{"./cmd/cloudstack-ccm", "pkg/provider", []string{module + "installer/", "sigs.k8s.io/kustomize/", "helm.sh/"}},
		{"./installer/check/... ./installer/cloud/... ./installer/engine/... ./installer/kube/... ./installer/plan", "installer/check", []string{module + "installer/commands/"}},
	} {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, strings.Fields(c.packages)...)...) // #nosec G204 -- see above
		cmd.Dir = root
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Contains(t, string(out), module+c.needed+"\n")
		for p := range strings.Lines(string(out)) {
			for _, unwanted := range c.unwanted {
				require.False(t, strings.HasPrefix(p, unwanted), "%s imports %s", c.packages, p)
			}
		}
	}
}
