// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/uninstall"
	"github.com/csccm/csccm/installer/engine"
)

func newUninstallCommand(g *cli.Globals) *cobra.Command {
	login, o := &installFlags{}, uninstall.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "uninstall",
		Short: "Remove the controller, and list what stays",
		Long: `Remove the Helm release and wait for the controller's Pods to end. Nodes keep their
provider IDs, labels and addresses. The Secret with the credentials and the user in
CloudStack stay too, unless --delete-secret or --delete-user is given.

While Services of type LoadBalancer exist, uninstall refuses: nothing would change
their rules or release their addresses any more. --orphan-load-balancers leaves
them in CloudStack as they are; another cloud provider can take them over.

--delete-user needs an administrator's login. It removes what csccm made: the user
and the Secret with its keys, the account if it owns nothing else, the role if no
account has it.`,
		Example: `  csccm uninstall --dry-run
  csccm uninstall --yes --delete-secret
  csccm uninstall --orphan-load-balancers --remove-finalizers

  # with the user that csccm made, shown first
  csccm uninstall --delete-user --admin-user admin --dry-run`,
	}, cli.Changing|cli.FlagUnlock, func(ctx context.Context, _ []string) error {
		if err := o.Validate(); err != nil {
			return err
		}
		if o.DeleteUser {
			if err := login.readSecrets(g); err != nil {
				return err
			}
		}
		return g.OnRelease(ctx, func(e *engine.Env) error {
			o.Admin = login.login(e)
			return uninstall.Run(ctx, e, o)
		})
	})
	flags := cmd.Flags()
	flags.BoolVar(&o.OrphanLoadBalancers, "orphan-load-balancers", false, "go on although Services of type LoadBalancer exist, and leave their load balancers")
	flags.BoolVar(&o.RemoveFinalizers, "remove-finalizers", false, "with --orphan-load-balancers: let these Services be deleted without a controller")
	flags.BoolVar(&o.DeleteSecret, "delete-secret", false, "delete the Secret with the credentials and the CA certificates too")
	flags.BoolVar(&o.DeleteUser, "delete-user", false, "remove from CloudStack what csccm made there: user and keys, account and role")
	flags.StringVar(&o.CAFile, "ca-file", "", "with --delete-user: PEM certificates that the API's certificate is signed by (default those of the cluster)")
	login.addAdmin(cmd)
	return cmd
}
