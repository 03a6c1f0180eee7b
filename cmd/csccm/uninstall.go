// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/uninstall"
)

func newUninstallCommand(g *globals) *cobra.Command {
	f, o := &operationFlags{}, uninstall.Options{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take the controller out of the cluster, and say what stays",
		Long: `Remove the Helm release and wait for the controller's Pods to end.

While Services of type LoadBalancer exist, uninstall refuses: nobody would change
their rules or release their addresses any more. --orphan-load-balancers leaves
them in CloudStack as they are; another cloud provider can take them over.

Provider IDs, labels and addresses of the nodes stay, and so do the Secret with the
credentials (unless --delete-secret is given) and the user in CloudStack.` + serverIsClient,
		Example: `  csccm uninstall --dry-run
  csccm uninstall --yes --delete-secret
  csccm uninstall --orphan-load-balancers --remove-finalizers`,
		Args:        noArgs,
		Annotations: outputs("text", "json", "yaml"),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.OrphanLoadBalancers, "orphan-load-balancers", false, "go on although Services of type LoadBalancer exist, and leave their load balancers")
	flags.BoolVar(&o.RemoveFinalizers, "remove-finalizers", false, "with --orphan-load-balancers: let these Services be deleted without a controller")
	flags.BoolVar(&o.DeleteSecret, "delete-secret", false, "delete the Secret with the credentials and the CA certificates too")
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error {
		if err := o.Validate(); err != nil {
			return err
		}
		e, err := f.env(ctx, g, cmd.Name())
		if err != nil {
			return err
		}
		defer e.Progress.Close()
		return uninstall.Run(ctx, e, o)
	})
	return cmd
}
