// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/csccm/csccm/"

// goList returns the lines that go list prints for the whole repository.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...) // #nosec G204 -- of tests
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(strings.ReplaceAll(string(out), " ", ">"))
}

// Everything that is linked into the controller runs in the cluster, with the keys of CloudStack.
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

// layers are the layers of the installer's folders. A package imports only packages of its own layer and of those
// before it.
var layers = [][]string{
	{"report", "prompt", "poll"}, // text in and out
	{"kube"},                     // one cluster
	{"cloud"},                    // one CloudStack
	{"engine"},                   // a run of a command: its plan, its steps, its journal
	{"check", "picture", "plan", "rollout", "status", "taint", "takeover"}, // code that several commands use
	{"commands"},
}

// The installer's imports point in one direction, and no command imports another one.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	layer := func(path string) int {
		folder, _, _ := strings.Cut(path, "/")
		return slices.IndexFunc(layers, func(folders []string) bool { return slices.Contains(folders, folder) })
	}
	command := regexp.MustCompile("^commands/[^/]+").FindString

	imports := goList(t, "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./installer/...")
	require.Greater(t, len(imports), 100)
	for _, line := range imports {
		from, to, _ := strings.Cut(line, ">")
		from = strings.TrimPrefix(from, module+"installer/")
		to, within := strings.CutPrefix(to, module+"installer/")
		if !within || strings.Contains("/"+from, "/testenv") {
			continue
		}
		require.NotEqual(t, -1, layer(to), "installer/%s is in no layer", to)
		require.GreaterOrEqual(t, layer(from), layer(to), "installer/%s imports installer/%s", from, to)
		require.Contains(t, []string{"", command(from)}, command(to), "installer/%s imports installer/%s", from, to)
	}
}
