// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/engine/commandline"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/testenv/source"
)

// printed matches the command lines in a text, up to their first own flag or argument.
var printed = regexp.MustCompile(`csccm (install|upgrade|rollback|uninstall|status|doctor|plan|test|rotate-keys|takeover|migrate-rules|adopt|taint)\b[^\n;,]*`)

// Every command that asks names the cluster, its server and the namespace in its plan and in its question, and so does each
// command line that it prints.
func TestPlansAndQuestionsNameTheCluster(t *testing.T) {
	t.Parallel()
	const tainted = `[{"metadata":{"name":"worker","annotations":{"csccm.io/tainted-at":"2026-01-02T03:04:05Z","csccm.io/before-taint":"{}"}},"spec":{"taints":[{"key":"node.cloudprovider.kubernetes.io/uninitialized","value":"true","effect":"PreferNoSchedule"}]}}]`
	for _, tc := range []struct {
		args  []string
		world func(t *testing.T, a *fakeCluster) // what the command finds to do
		left  bool                               // in a cluster as Apache's provider left it
	}{
		{args: []string{"takeover", "--accept", "all"}, left: true},
		{args: []string{"migrate-rules"}, world: func(_ *testing.T, a *fakeCluster) { a.set("/api/v1/services", serviceOfOldRules) }},
		{args: []string{"adopt"}, world: func(_ *testing.T, a *fakeCluster) { a.set("/api/v1/services", serviceOfApache) }},
		{args: []string{"uninstall", "--delete-secret"}, world: func(_ *testing.T, a *fakeCluster) {
			a.set("/api/v1/namespaces/ccm/secrets/cloudstack-secret", `{"metadata":{"namespace":"ccm","name":"cloudstack-secret"}}`)
		}},
		{args: []string{"taint", "--undo"}, world: func(_ *testing.T, a *fakeCluster) { a.set("/api/v1/nodes", tainted) }},
		{args: []string{"test", "--image", "x"}},
	} {
		t.Run(tc.args[0], func(t *testing.T) {
			t.Parallel()
			var a *fakeCluster
			var file string
			if tc.left {
				a, _, file = leftCluster(t)
			} else {
				a = newFakeCluster(t)
				_, file = cloudConfig(t)
			}
			a.set("/api/v1/namespaces/ccm", `{"metadata":{"name":"ccm","uid":"1"}}`)
			if tc.world != nil {
				tc.world(t, a)
			}
			args := append(tc.args, "--kubeconfig", a.kubeconfig(t), "-n", "ccm", "--release", "mine")
			if !strings.HasPrefix(tc.args[0], "un") && tc.args[0] != "test" {
				args = append(args, "--cloud-config", file)
			}
			where := "cluster test (" + a.url + "), namespace ccm"
			c := execute(t, append(args, "--dry-run")...)
			require.Equal(t, 0, c.code, c.errOut)
			require.Contains(t, strings.ToLower(c.out+c.errOut), where, "the plan")
			all := c.out + c.errOut
			c = execute(t, args...)
			require.Equal(t, 2, c.code, c.errOut)
			require.Regexp(t, "nothing has been changed: --yes, which would .* in "+regexp.QuoteMeta(where)+", is not given", c.errOut)
			for _, line := range printed.FindAllString(all+c.out+c.errOut, -1) {
				require.Regexp(t, ` --kubeconfig \S+ --context test --namespace ccm --release mine\b`, line)
			}
			require.Empty(t, a.changes())
		})
	}
}

// Commands of CKS name CloudStack, and repeat where its credentials come from.
func TestPlansOfCKSNameCloudStack(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	cloud.Cluster(t, "demo", nil)
	c := cksCommand(t, cloud, "stop", "demo")
	require.Contains(t, c.errOut, "which would stop cluster demo in CloudStack "+cloud.URL+", is not given")
	require.Contains(t, cksCommand(t, cloud, "stop", "demo", "--dry-run").out, "CloudStack "+cloud.URL+"\n")
}

// Flags of a command that say where it works and what was chosen come along in each command line that it prints, as far
// as the command there has them.
func TestPrintedCommandLines(t *testing.T) {
	t.Parallel()
	kubeconfig := newFakeCluster(t).kubeconfig(t)
	for _, tc := range []struct{ running, text, want string }{
		{"doctor --kubeconfig K", "run csccm install", "run csccm install --kubeconfig K --context test"},
		{"doctor --kubeconfig K", "`kubectl -n x get y`, or see csccm plan --help", "`kubectl --kubeconfig K --context test -n x get y`, or see csccm plan --help"},
		{"install --kubeconfig K --skip-taint --skip-check A-1,B-2 --zone z", "csccm install again, or csccm taint NODE", "csccm install --kubeconfig K --context test --skip-taint --skip-check A-1,B-2 again, or csccm taint --kubeconfig K --context test NODE"},
		{"doctor --kubeconfig K --cloud-config F --release r", "csccm plan; csccm upgrade; csccm template", "csccm plan --kubeconfig K --context test --release r --cloud-config F; csccm upgrade --kubeconfig K --context test --release r; csccm template --kubeconfig K --context test --release r"},
		{"cks show demo --cmk-profile prod --project team", "csccm cks start demo; csccm cks versions", "csccm cks start --cmk-profile prod --project team demo; csccm cks versions --cmk-profile prod --project team"},
		{"doctor --kubeconfig K", "csccm install --kubeconfig K --context test --yes; csccm does", "csccm install --kubeconfig K --context test --yes; csccm does"},
	} {
		words := strings.Fields(strings.ReplaceAll(tc.running, " K", " "+kubeconfig))
		fresh := cli.New(cli.Streams{Getenv: environment()})
		cmd, rest, err := rootCommand(fresh).Find(words)
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(rest))
		require.Equal(t, strings.ReplaceAll(tc.want, " K", " "+kubeconfig), commandline.Carry(strings.ReplaceAll(tc.text, " K", " "+kubeconfig), cmd, fresh.Kube))
	}
}

// Consent is asked for by the engine alone, which says where.
func TestOnlyTheEngineAsksForConsent(t *testing.T) {
	t.Parallel()
	var asked []string
	for path, file := range source.Files(t, ".", "../../installer") {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Confirm" {
				if of, ok := s.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Prompt" {
					asked = append(asked, path)
				}
			}
			return true
		})
	}
	require.Equal(t, []string{"../../installer/engine/operation.go"}, asked)
}
