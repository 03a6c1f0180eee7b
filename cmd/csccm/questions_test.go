// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/pkg/testenv/source"
)

// Flags of a command that say where it works and what was chosen come along in each command line that it prints, as far
// as the command there has them.
func TestPrintedCommandLines(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeconfig(t)
	for _, tc := range []struct{ running, text, want string }{
		{"doctor --kubeconfig K", "run csccm install", "run csccm install --kubeconfig K --context test"},
		{"doctor --kubeconfig K", "`kubectl -n x get y`, or see csccm plan --help", "`kubectl --kubeconfig K --context test -n x get y`, or see csccm plan --help"},
		{"install --kubeconfig K --skip-taint --skip-check A-1,B-2 --zone z", "csccm install again, or csccm taint NODE", "csccm install --kubeconfig K --context test --skip-taint --skip-check A-1,B-2 again, or csccm taint --kubeconfig K --context test NODE"},
		{"doctor --kubeconfig K --cloud-config F --release r", "csccm plan; csccm upgrade; csccm template", "csccm plan --kubeconfig K --context test --release r --cloud-config F; csccm upgrade --kubeconfig K --context test --release r; csccm template --kubeconfig K --context test --release r"},
		{"cks show demo --cloud-config prod --project team", "csccm cks start demo; csccm cks versions", "csccm cks start --cloud-config prod --project team demo; csccm cks versions --cloud-config prod --project team"},
		{"doctor --kubeconfig K", "csccm install --kubeconfig K --context test --yes; csccm does", "csccm install --kubeconfig K --context test --yes; csccm does"},
	} {
		words := strings.Fields(strings.ReplaceAll(tc.running, " K", " "+kubeconfig))
		fresh := cli.New(cli.Streams{Getenv: environment()})
		cmd, rest, err := rootCommand(fresh).Find(words)
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(rest))
		require.Equal(t, strings.ReplaceAll(tc.want, " K", " "+kubeconfig), cli.Carry(strings.ReplaceAll(tc.text, " K", " "+kubeconfig), cmd, fresh.Connection))
	}
}

// Consent is asked for by the engine alone, which says where.
func TestOnlyTheEngineAsksForConsent(t *testing.T) {
	t.Parallel()
	var asked []string
	for path, file := range source.Files(t, ".", "../../installer") {
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == "YesNo" && !strings.Contains(path, "/engine/prompt/") {
				asked = append(asked, path)
			}
			return true
		})
	}
	require.Equal(t, []string{"../../installer/engine/operation.go"}, asked)
}
