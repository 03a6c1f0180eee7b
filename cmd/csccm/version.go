// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/version"
	"github.com/csccm/csccm/installer/kube/helm"
)

// versionTimeout bounds the look at the cluster: a version is asked for in a
// hurry. Tests, on a busy machine, give it more.
var versionTimeout = 5 * time.Second

func newVersionCommand(g *cli.Globals) *cobra.Command {
	var clientOnly bool
	cmd := g.Command(&cobra.Command{
		Use:   "version",
		Short: "Print the versions of csccm, chart, controller and Kubernetes",
	}, cli.FlagRelease, func(ctx context.Context, _ []string) error {
		v, err := version.Own()
		if err != nil {
			return err
		}
		if !clientOnly {
			if err := askVersions(ctx, g, v); err != nil {
				v.Problem = err.Error()
			}
		}
		return g.Show(v, v.WriteText)
	})
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the cluster")
	return cmd
}

func askVersions(ctx context.Context, g *cli.Globals, v *version.Versions) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	c, err := g.Cluster(ctx)
	if err != nil {
		return err
	}
	client, err := helm.New(g.Kube, c.Namespace, g.Debugf())
	if err != nil {
		return err
	}
	return v.Ask(ctx, c, client, g.Release)
}
