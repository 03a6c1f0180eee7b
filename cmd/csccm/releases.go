// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/commands/rotate"
	"github.com/csccm/csccm/installer/commands/uninstall"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/provider"
)

func newUpgradeCommand(g *cli.Globals) *cobra.Command {
	charts, o := &chartFlags{}, install.Config{}
	cmd := g.Command(&cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade the controller to this csccm or another chart",
	}, cli.Changing|cli.FlagRollout|cli.FlagUnlock, func(ctx context.Context, _ []string) (err error) {
		if o.Chart, o.Values, err = charts.load(ctx); err != nil {
			return err
		}
		return g.OnRelease(ctx, func(e *engine.Env) error { return install.Upgrade(ctx, e, o) })
	})
	charts.add(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&o.AllowDowngrade, "allow-downgrade", false, "also allow an older chart")
	flags.BoolVar(&o.ResetValues, "reset-values", false, "discard the values of the release")
	return cmd
}

func newRollbackCommand(g *cli.Globals) *cobra.Command {
	return g.Command(&cobra.Command{
		Use:   "rollback [REVISION]",
		Short: "Go back to an earlier revision of the release",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: cli.Offer(func(ctx context.Context) (names []string, err error) {
			history, err := helm.New(g.Kube, *g.Kube.Namespace, g.Debugf()).History(ctx, g.Release)
			for _, r := range history {
				names = append(names,
					cobra.CompletionWithDesc(strconv.Itoa(r.Revision),
						fmt.Sprintf("%s, chart %s", r.Status, r.ChartVersion)))
			}
			return names, err
		}),
	}, cli.Changing|cli.FlagRollout|cli.FlagUnlock, func(ctx context.Context, args []string) error {
		revision := 0
		if len(args) > 0 {
			revision, _ = strconv.Atoi(args[0])
		}

		if len(args) > 1 || len(args) == 1 && revision < 1 {
			return cli.Usagef("rollback takes one revision, a number from 1")
		}

		return g.OnRelease(ctx, func(e *engine.Env) error { return install.Rollback(ctx, e, revision) })
	})
}

func newUninstallCommand(g *cli.Globals) *cobra.Command {
	login, o := &installFlags{}, uninstall.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "uninstall",
		Short: "Remove the controller, and list what stays",
	}, cli.Changing|cli.FlagUnlock, func(ctx context.Context, _ []string) error {
		if o.DeleteUser {
			if err := login.readSecrets(g); err != nil {
				return err
			}
		}
		o.Admin = login.LogIn
		return g.OnRelease(ctx, func(e *engine.Env) error { return uninstall.Run(ctx, e, o) })
	})

	flags := cmd.Flags()
	flags.BoolVar(&o.OrphanLoadBalancers, "orphan-load-balancers", false,
		"continue even if Services of type LoadBalancer exist, and keep their load balancers")
	flags.BoolVar(&o.DeleteSecret, "delete-secret", false,
		"also delete the Secret with the credentials and the CA certificates")
	flags.BoolVar(&o.DeleteUser, "delete-user", false,
		"remove what csccm created in CloudStack: user and keys, account and role")
	login.setting(flags, "ca-file", "ca-file", "string",
		"with --delete-user: PEM certificates that the API's certificate is signed by (default those of the cluster)")
	login.addAdmin(cmd)
	return cmd
}

func newRotateKeysCommand(g *cli.Globals) *cobra.Command {
	admin, o := &installFlags{}, rotate.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "rotate-keys",
		Short: "Replace the controller's API keys without interruption",
	}, cli.Changing|cli.FlagRollout, func(ctx context.Context, _ []string) error {
		err := o.Validate()
		if err == nil {
			err = admin.readSecrets(g)
		}
		if err != nil {
			return err
		}
		o.Required, o.Optional, o.Admin = provider.RequiredCommands, provider.OptionalCommands, admin.LogIn
		return g.OnRelease(ctx, func(e *engine.Env) error { return rotate.Run(ctx, e, o) })
	})

	g.DefaultTimeout(cmd, 30*time.Minute, g.Interactive) // time for a rollout, and for a person to answer
	admin.addAdmin(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.KeepOld, "keep-old", false, "leave the old keys as they are")
	flags.BoolVar(&o.Finish, "finish", false, "only revoke old keys that rotations have kept")
	flags.BoolVar(&o.Force, "force", false, "with --finish: even if something still uses the old keys")
	return cmd
}
