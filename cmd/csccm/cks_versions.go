// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/cks/manage"
)

func newCKSVersionsCommand(g *cli.Globals) *cobra.Command {
	f := &serviceFlags{}
	var zone string
	cmd := g.Command(&cobra.Command{
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
		return g.Show(l, func(w io.Writer) error { return l.Write(w, g.Style(w)) })
	}))
	f.add(g, cmd)
	cmd.Flags().StringVar(&zone, "zone", "", "name or id of a zone: only what can be installed there")
	cli.CompleteFlag(cmd, "zone", f.completeFromCloud(g, cloud.ZoneNames))
	cmd.AddCommand(
		newCKSVersionsAddCommand(g),
		newCKSVersionsEnableCommand(g),
		newCKSVersionsDisableCommand(g),
		newCKSVersionsDeleteCommand(g),
	)
	return cmd
}

// versionCommand completes a command of an administrator that changes a version, which its argument names.
func (f *serviceFlags) versionCommand(g *cli.Globals, cmd *cobra.Command, validate func(string) error, body func(context.Context, *manage.Service, string) error) *cobra.Command {
	cmd.Long += " Only an administrator may." + credentialsText + "\n" + serverIsClientHere
	one := cli.OneArgument("version")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := one(cmd, args); err != nil || validate == nil {
			return err
		}
		return validate(args[0])
	}
	g.Command(cmd, cli.FlagJournal|cli.FlagDryRun, f.run(g, func(ctx context.Context, s *manage.Service, args []string) error { return body(ctx, s, args[0]) }))
	g.DefaultTimeout(cmd, cksTimeout)
	f.add(g, cmd)
	if validate == nil {
		cmd.ValidArgsFunction = cli.CompleteArgument(f.complete(g, manage.VersionNames))
	}
	return cmd
}

const serverIsClientHere = "--dry-run=server does the same as --dry-run=client here."

func newCKSVersionsAddCommand(g *cli.Globals) *cobra.Command {
	f, o := &serviceFlags{}, manage.AddOptions{}
	cmd := f.versionCommand(g, &cobra.Command{
		Use:   "add VERSION",
		Short: "Register a Kubernetes version from the URL of its ISO",
		Long: `Register a version from the URL of its ISO, which CloudStack downloads then, and wait
until it is Ready. A version that is registered already is only waited for.`,
		Example: `  csccm cks versions add 1.33.1 --url https://example.org/setup-v1.33.1.iso \
    --checksum '{SHA-256}0123...' --admin-user admin --api-url https://cloud.example.org/client/api`,
	}, func(version string) error {
		o.Semantic = version
		return o.Validate()
	}, func(ctx context.Context, s *manage.Service, _ string) error { return s.AddVersion(ctx, o) })
	flags := cmd.Flags()
	flags.StringVar(&o.URL, "url", "", "where CloudStack downloads the ISO")
	flags.StringVar(&o.Name, "name", "", "name of the version (default vVERSION, with a zone vVERSION-ZONE)")
	flags.StringVar(&o.Zone, "zone", "", "name or id of a zone (default all)")
	flags.StringVar(&o.Checksum, "checksum", "", "checksum of the ISO, such as {SHA-256}0123...")
	flags.StringVar(&o.Arch, "arch", "", "architecture: x86_64 or aarch64 (CloudStack 4.20)")
	flags.IntVar(&o.MinCPUs, "min-cpus", 2, "CPUs that a node needs at least")
	flags.IntVar(&o.MinMemoryMiB, "min-memory", 2048, "memory that a node needs at least, in MiB")
	flags.BoolVar(&o.DirectDownload, "direct-download", false, "hosts download the ISO themselves (CloudStack 4.18)")
	flags.BoolVar(&o.NoWait, "no-wait", false, "do not wait until the ISO is Ready")
	cli.CompleteFlag(cmd, "zone", f.completeFromCloud(g, cloud.ZoneNames))
	cli.CompleteFlag(cmd, "arch", cli.OneOf("x86_64", "aarch64"))
	return cmd
}

func newCKSVersionsEnableCommand(g *cli.Globals) *cobra.Command {
	return (&serviceFlags{}).versionCommand(g, &cobra.Command{
		Use:     "enable VERSION",
		Short:   "Let users create clusters with a version",
		Long:    `Enable a version by its name, semantic version or id: new clusters can have it.`,
		Example: "  csccm cks versions enable 1.33.1 --admin-cmk-profile",
	}, nil, func(ctx context.Context, s *manage.Service, name string) error { return s.SetVersion(ctx, name, true) })
}

func newCKSVersionsDisableCommand(g *cli.Globals) *cobra.Command {
	return (&serviceFlags{}).versionCommand(g, &cobra.Command{
		Use:     "disable VERSION",
		Short:   "Offer a version no longer",
		Long:    `Disable a version: no new cluster can have it, and no cluster be upgraded to it. Clusters that have it go on.`,
		Example: "  csccm cks versions disable 1.33.1 --admin-cmk-profile",
	}, nil, func(ctx context.Context, s *manage.Service, name string) error { return s.SetVersion(ctx, name, false) })
}

func newCKSVersionsDeleteCommand(g *cli.Globals) *cobra.Command {
	return (&serviceFlags{}).versionCommand(g, &cobra.Command{
		Use:     "delete VERSION",
		Short:   "Delete a version and its ISO",
		Long:    `Delete a version that no cluster has, with its ISO.`,
		Example: "  csccm cks versions delete 1.33.1 --admin-cmk-profile",
	}, nil, func(ctx context.Context, s *manage.Service, name string) error { return s.DeleteVersion(ctx, name) })
}
