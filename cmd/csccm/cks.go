// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/engine/report"
)

func newCKSCommand(g *cli.Globals) *cobra.Command {
	cmd := g.Command(&cobra.Command{
		Use:   "cks",
		Short: "CloudStack Kubernetes Service: its clusters and versions, and what csccm's controller needs there",
		Long: `The subcommands list, create, change and delete clusters of CloudStack Kubernetes
Service (CKS), and the Kubernetes versions that it can install.

cks alone looks at a cluster that CKS made: which cluster of CloudStack it is,
whether its Secret is good, which controller is in charge, whether CKS would deploy
its own provider again, and which nodes need the kubelet's flag or a first
initialisation.

CKS deploys its provider when it adds a node or upgrades the cluster, unless
  kubectl get pods -A | grep cloud-controller-manager
finds a Pod. The Pods of csccm's chart have such names.

Exit code 3: something does not work, or CKS would deploy its own provider.`,
		Example: `  csccm cks
  csccm cks list
  csccm cks show demo`,
	}, cli.FlagCloud|cli.FlagRelease, func(ctx context.Context, _ []string) error { return lookAtCKS(ctx, g) })
	cmd.Flags().Lookup("release").Usage = "name of csccm's Helm release"
	cli.CompleteFlag(cmd, "release", cobra.NoFileCompletions)
	cmd.AddCommand(
		newCKSListCommand(g),
		newCKSShowCommand(g),
		newCKSKubeconfigCommand(g),
		newCKSVersionsCommand(g),
		newCKSCreateCommand(g),
		newCKSScaleCommand(g),
		newCKSUpgradeCommand(g),
		newCKSStartCommand(g),
		newCKSStopCommand(g),
		newCKSDeleteCommand(g),
		newCKSISOCommand(g),
	)
	return cmd
}

func lookAtCKS(ctx context.Context, g *cli.Globals) error {
	c, cs, err := g.Connect(ctx)
	switch {
	case errors.Is(err, cloud.ErrNoCredentials): // the report says so
		cs = nil
	case err != nil:
		return err
	default:
		defer cs.Close()
	}
	facts, err := cks.Look(ctx, c, cs, g.Release)
	if err != nil {
		return err
	}
	r := cks.Judge(facts)
	err = g.Show(r, func(w io.Writer) error { return r.WriteText(w, g.Style(w)) })
	if err == nil && r.Failed() {
		return &report.ExitError{Code: report.ExitCheckFailed}
	}
	return err
}
