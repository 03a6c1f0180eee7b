// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/commands/cks/manage"
)

func newCKSVersionsCommand(g *globals) *cobra.Command {
	f := &serviceFlags{}
	var zone string
	cmd := g.command(&cobra.Command{
		Use:   "versions",
		Short: "List the Kubernetes versions that CloudStack can install, and change them",
		Long: `List the versions that CloudStack Kubernetes Service can install. The subcommands, for
administrators, register, enable, disable and delete them. A version can be used when
its state is Enabled and its ISO Ready.` + credentialsText,
		Example: `  csccm cks versions --cloud-config cloud-config
  csccm cks versions --zone zone-1 -o json`,
	}, 0, f.run(g, func(ctx context.Context, s *manage.Service, _ []string) error {
		l, err := s.Versions(ctx, zone)
		if err != nil {
			return err
		}
		if len(l.Versions) == 0 {
			s.Progress.Info("there are no versions; an administrator registers one with csccm cks versions add")
		}
		return g.show(l, func(w io.Writer) error { return l.Write(w, g.style(w)) })
	}))
	f.add(g, cmd)
	cmd.Flags().StringVar(&zone, "zone", "", "name or id of a zone: only what can be installed there")
	completeFlag(cmd, "zone", f.completeFromCloud(g, zoneNames))
	return cmd
}
