// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/csccm/csccm/"

// goList returns the lines that go list prints for the whole repository.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...) // #nosec G204 -- see the callers
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(strings.ReplaceAll(string(out), " ", ">"))
}

// Everything that the controller links runs in the cluster with the keys of CloudStack.
func TestControllerLinksNothingOfTheInstaller(t *testing.T) {
	t.Parallel()
	all := goList(t, "-deps", "./cmd/cloudstack-ccm")
	require.Contains(t, all, module+"pkg/provider")
	for _, path := range all {
		for _, unwanted := range []string{module + "installer/", "sigs.k8s.io/kustomize/", "helm.sh/"} {
			require.False(t, strings.HasPrefix(path, unwanted), "the controller imports %s", path)
		}
	}
}

// layers of the installer's folders. A package imports those of its own layer and of those before it.
var layers = [][]string{
	{"report", "prompt", "poll"}, // text in and out
	{"kube"},                     // one cluster
	{"cloud"},                    // one CloudStack
	{"engine"},                   // a run of a command: its plan, its steps, its journal
	{"check", "picture", "plan", "rollout", "status", "taint", "takeover"}, // what several commands do
	{"commands"},
}

// Imports of the installer point one way, and no command knows another one.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	layer := func(path string) int {
		folder, _, _ := strings.Cut(path, "/")
		return slices.IndexFunc(layers, func(folders []string) bool { return slices.Contains(folders, folder) })
	}
	command := func(path string) string {
		words := strings.SplitN(path, "/", 3)
		if words[0] != "commands" {
			return ""
		}
		return words[1]
	}

	imports := goList(t, "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./installer/...")
	require.Greater(t, len(imports), 100)
	for _, line := range imports {
		from, to, _ := strings.Cut(line, ">")
		from, to = strings.TrimPrefix(from, module+"installer/"), strings.TrimPrefix(to, module+"installer/")
		if strings.HasPrefix(from, "testenv") || strings.Contains(from, "/testenv") || strings.HasPrefix(to, module) || layer(to) < 0 {
			continue
		}
		require.GreaterOrEqual(t, layer(from), layer(to), "installer/%s imports installer/%s", from, to)
		require.Contains(t, []string{"", command(from)}, command(to), "installer/%s imports installer/%s", from, to)
	}
}

// Each folder of the installer has a layer.
func TestFoldersOfTheInstallerHaveALayer(t *testing.T) {
	t.Parallel()
	known := append(slices.Concat(layers...), "testenv")
	for _, path := range goList(t, "./installer/...") {
		folder, _, _ := strings.Cut(strings.TrimPrefix(path, module+"installer/"), "/")
		require.Contains(t, known, folder)
	}
}
