// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// parseInstall reads a command line as install does.
func parseInstall(t *testing.T, line []string) (*cli.Globals, *installFlags) {
	t.Helper()
	g, f, root, cmd := cli.New(cli.Streams{
		Getenv: environment(),
	}), &installFlags{}, &cobra.Command{Use: "csccm"}, &cobra.Command{Use: "install"}
	g.AddFlags(root.PersistentFlags())
	root.AddCommand(g.Command(cmd, cli.Changing|cli.FlagRollout, nil))
	f.add(cmd)
	require.Equal(t, []string{"csccm", "install"}, line[:2])
	require.NoError(t, cmd.ParseFlags(line[2:]))
	require.Empty(t, cmd.Flags().Args())
	f.Typed = cli.Typed(cmd.LocalFlags(), onceOnly...)
	return g, f
}

// The command line that install prints for repeating it keeps the cluster and the choices.
func TestInstallAgainKeepsTheChoices(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeconfig(t)
	line := strings.Fields("csccm install --api-url http://127.0.0.1:1/client/api --namespace ccm --release mine " +
		"--context test --skip-taint " +
		"--skip-check NODE-001,NODE-002 --skip-self-test --zone z --project p --region r --cluster-id c " +
		"--set replicaCount=1 --set image.tag=a,b --values values.yaml --cloud-config lab --kubeconfig " + kubeconfig)

	g, f := parseInstall(t, line)
	c, err := cluster.New(g.Kube)
	require.NoError(t, err)
	f.Source = install.SourceKeys
	printed := f.FlagLine(&engine.Env{Cluster: c, Release: g.Release})
	again, h := parseInstall(t, printed)
	require.True(t, again.Yes)
	require.Equal(t, "lab", h.CloudConfig)
	require.Equal(t, []string{"mine", kubeconfig, "test", "ccm"},
		[]string{again.Release, *again.Kube.KubeConfig, *again.Kube.Context, *again.Kube.Namespace})
	f.Source = ""
	require.Equal(t, f.Config, h.Config)
}
