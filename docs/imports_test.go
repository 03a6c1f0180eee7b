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

// TestImportsPointOneWay: the controller links only packages that may run in the cluster with CloudStack's keys;
// packages that commands share import no command, and no command imports another one.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	const module, commands = "github.com/csccm/csccm/", "github.com/csccm/csccm/installer/commands/"
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, c := range []struct {
		packages, needed string
		unwanted         []string
	}{
		{"./cmd/cloudstack-ccm", "pkg/provider", []string{module + "installer/", "sigs.k8s.io/kustomize/", "helm.sh/"}},
		{"./installer/check/... ./installer/cloud/... ./installer/engine/... ./installer/kube/... ./installer/plan ./installer/status ./installer/takeover ./installer/taint",
			"installer/check", []string{commands}},
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
	command := func(path string) string { return strings.Split(strings.TrimPrefix(path, commands), "/")[0] }
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./installer/commands/...")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(to, commands) {
			require.Equal(t, command(from), command(to), "%s imports %s", from, to)
		}
	}
}
