// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/upgrade"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
)

func newUpgradeCommand(g *cli.Globals) *cobra.Command {
	charts, o := &chartFlags{}, upgrade.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade the controller to this csccm or another chart",
		Long: `Bring the installed release to the chart that csccm carries, or to another one.

Where chart and values are what is installed, the objects of the release that somebody
has changed or deleted are restored.

Values that were given before stay, over the new chart's defaults. The plan shows
every object that changes, as the API server answers to a dry run. csccm rollback
goes back to the release as it was. An older chart is refused unless
--allow-downgrade is given.`,
		Example: `  csccm upgrade
  csccm upgrade --dry-run
  csccm upgrade --set replicaCount=3 --yes
  csccm upgrade --chart oci://registry.example.org/charts/cloudstack-ccm`,
	}, cli.Changing|cli.FlagRollout|cli.FlagUnlock, func(ctx context.Context, _ []string) (err error) {
		if o.Chart, o.Values, err = charts.load(ctx); err != nil {
			return err
		}
		return g.OnRelease(ctx, func(e *engine.Env) error {
			info, err := e.Cluster.Ping(ctx)
			if err != nil {
				return err
			}
			o.KubeVersion = info.GitVersion
			return upgrade.Upgrade(ctx, e, o)
		})
	})
	charts.add(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&o.AllowDowngrade, "allow-downgrade", false, "go to an older chart too")
	flags.BoolVar(&o.ResetValues, "reset-values", false, "forget the values of the release")
	return cmd
}

func newRollbackCommand(g *cli.Globals) *cobra.Command {
	return g.Command(&cobra.Command{
		Use:   "rollback [REVISION]",
		Short: "Go back to an earlier revision of the release",
		Long: `Make a new revision of the release with the content of an earlier one: the newest
that worked before the latest, or REVISION. Credentials, nodes and load balancers
are not touched.`,
		Example: `  csccm rollback
  csccm rollback 3 --dry-run`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeRevisions(g),
	}, cli.Changing|cli.FlagRollout|cli.FlagUnlock, func(ctx context.Context, args []string) error {
		revision, err := revisionOf(args)
		if err != nil {
			return err
		}
		return g.OnRelease(ctx, func(e *engine.Env) error { return upgrade.Rollback(ctx, e, revision) })
	})
}

func revisionOf(args []string) (int, error) {
	switch len(args) {
	case 0:
		return 0, nil
	case 1:
		if n, err := strconv.Atoi(args[0]); err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, cli.Usagef("rollback takes one revision, a number from 1")
}

func completeRevisions(g *cli.Globals) cobra.CompletionFunc {
	return cli.Offer(func(ctx context.Context) (names []string, err error) {
		client, err := helm.New(g.Kube, *g.Kube.Namespace, nil)
		if err != nil {
			return nil, err
		}
		history, err := client.History(ctx, g.Release)
		for i := range history {
			r := &history[i]
			names = append(names, cobra.CompletionWithDesc(strconv.Itoa(r.Revision), fmt.Sprintf("%s, chart %s", r.Status, r.ChartVersion)))
		}
		return names, err
	})
}
