// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/inventory"
)

func newCKSCommand(g *globals) *cobra.Command {
	var cloudConfig, release string
	cmd := &cobra.Command{
		Use:   "cks",
		Short: "What a cluster of CloudStack Kubernetes Service needs for csccm's controller to stay",
		Long: `cks looks at a cluster that CloudStack Kubernetes Service (CKS) made: which
cluster of CloudStack it is, whether its Secret is good, which controller is in
charge, whether CKS would deploy its own provider again, and which nodes need the
kubelet's flag or a first initialisation.

CKS deploys its provider when it adds a node or upgrades the cluster, unless
  kubectl get pods -A | grep cloud-controller-manager
finds a Pod. The Pods of csccm's chart have such names.

Exit code 3: something does not work, or CKS would deploy its own provider.`,
		Example:     "  csccm cks",
		Args:        noArgs,
		Annotations: outputs("text", "json", "yaml"),
	}
	cmd.Flags().StringVar(&cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	cmd.Flags().StringVar(&release, "release", engine.DefaultRelease, "name of csccm's Helm release")
	completeFlag(cmd, "release", cobra.NoFileCompletions)
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error { return runCKS(ctx, g, cloudConfig, release) })
	return cmd
}

func runCKS(ctx context.Context, g *globals, cloudConfig, release string) error {
	format, err := g.wantOutput("text", "json", "yaml")
	if err != nil {
		return err
	}
	var facts *cks.Facts
	c, cs, err := g.connect(ctx, cloudConfig)
	switch {
	case errors.Is(err, cloud.ErrNoCredentials): // the report says so
		facts, err = cks.Gather(ctx, c, nil, nil, "", release)
	case err == nil:
		defer cs.Close()
		inv := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone})
		project, perr := inv.ProjectID(ctx)
		if perr != nil {
			return perr
		}
		vms, verr := inv.VMs(ctx, 0)
		if verr != nil {
			return verr
		}
		facts, err = cks.Gather(ctx, c, cs.Client, vms, project, release)
	}
	if err != nil {
		return err
	}
	r := cks.Judge(facts)
	if format == "text" {
		err = showCKS(g, r)
	} else {
		err = report.Encode(g.out, format, r)
	}
	if err == nil && r.Failed() {
		return &report.ExitError{Code: report.ExitCheckFailed}
	}
	return err
}

func showCKS(g *globals, r *cks.Report) error {
	style := g.style(g.out)
	var b strings.Builder
	for _, f := range r.Findings {
		y := report.SymbolOK
		switch {
		case f.Failed:
			y = report.SymbolFailed
		case !f.OK:
			y = report.SymbolWarning
		}
		b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, f.Topic+": "+f.Text))
		if f.Remedy != "" {
			b.WriteString(style.Indented("  fix: ", 7, f.Remedy))
		}
	}
	_, err := g.out.Write([]byte(b.String()))
	return err
}
