// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/cks/manage"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// changeCommand completes a command that changes a cluster, which its argument names.
func (f *serviceFlags) changeCommand(g *cli.Globals, cmd *cobra.Command, validate func() error, body func(context.Context, *manage.Service, string) error) *cobra.Command {
	cmd.Long += followText + credentialsText
	if cmd.Args = cli.OneArgument("name or id of a cluster"); validate != nil {
		cmd.Args = cli.AlsoValid(cmd.Args, validate)
	}
	g.Command(cmd, cli.FlagJournal|cli.FlagDryRun, f.run(g, func(ctx context.Context, s *manage.Service, args []string) error { return body(ctx, s, args[0]) }))
	g.DefaultTimeout(cmd, cksTimeout)
	f.add(g, cmd)
	cmd.ValidArgsFunction = cli.CompleteArgument(f.complete(g, manage.ClusterNames))
	return cmd
}

// ignorePreflight adds the flag of commands with a preflight.
func ignorePreflight(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringSliceVar(to, "ignore-preflight", nil, "go on although the preflight has found an error of this code; may be repeated")
}

// completeObjects completes the flags that name objects of CloudStack.
func (f *serviceFlags) completeObjects(g *cli.Globals, cmd *cobra.Command) {
	for flag, list := range map[string]func(context.Context, *cloudstack.Client, string) ([]string, error){
		"version": manage.VersionNames, "offering": manage.OfferingNames, "control-offering": manage.OfferingNames, "worker-offering": manage.OfferingNames,
		"network": manage.NetworkNames, "keypair": manage.KeyPairNames,
		"zone": func(ctx context.Context, client *cloudstack.Client, _ string) ([]string, error) {
			return cloud.ZoneNames(ctx, client)
		},
	} {
		if cmd.Flags().Lookup(flag) != nil {
			cli.CompleteFlag(cmd, flag, f.complete(g, list))
		}
	}
}

func newCKSScaleCommand(g *cli.Globals) *cobra.Command {
	f, o, autoscaling := &serviceFlags{}, manage.ScaleOptions{}, ""
	cmd := f.changeCommand(g, &cobra.Command{
		Use:   "scale NAME",
		Short: "Change the number of workers of a cluster, its offerings, or its autoscaling",
		Long: `Change one thing of a cluster: the number of its workers, the offerings of its nodes, or
its autoscaling. CloudStack changes one of them at a time. Workers are added and
removed while the cluster runs; the newest are removed first.`,
		Example: `  csccm cks scale demo --size 5
  csccm cks scale demo --worker-offering big
  csccm cks scale demo --autoscaling 2-5
  csccm cks scale demo --autoscaling off`,
	}, func() (err error) {
		if o.Autoscaling = nil; autoscaling != "" {
			if o.Autoscaling, err = manage.ParseAutoscaling(autoscaling); err != nil {
				return err
			}
		}
		return o.Validate()
	}, func(ctx context.Context, s *manage.Service, name string) error { return s.Scale(ctx, name, o) })
	flags := cmd.Flags()
	flags.IntVar(&o.Size, "size", 0, "number of workers")
	flags.StringVar(&o.Offering, "offering", "", "name or id of the offering of all nodes")
	flags.StringVar(&o.ControlOffering, "control-offering", "", "offering of the control nodes (CloudStack 4.21)")
	flags.StringVar(&o.WorkerOffering, "worker-offering", "", "offering of the workers (CloudStack 4.21)")
	flags.StringVar(&autoscaling, "autoscaling", "", "range of workers, such as 2-5, or off")
	ignorePreflight(cmd, &o.Ignore)
	f.completeObjects(g, cmd)
	cli.CompleteFlag(cmd, "autoscaling", cli.OneOf("off"))
	return cmd
}

func newCKSUpgradeCommand(g *cli.Globals) *cobra.Command {
	f := &serviceFlags{}
	var version string
	var ignore []string
	cmd := f.changeCommand(g, &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Upgrade the Kubernetes of a cluster, node after node",
		Long: `Upgrade a cluster to another version that csccm cks versions shows: a newer patch of the
same minor version, or the next minor version. CloudStack drains and upgrades one node
after the other. Before, csccm looks at the nodes of the cluster where it reaches it.`,
		Example: `  csccm cks upgrade demo --version 1.34.0 --dry-run
  csccm cks upgrade demo --version 1.34.0 --yes`,
	}, func() error {
		if version == "" {
			return cli.Usagef("--version names the version to upgrade to; csccm cks versions lists them")
		}
		return nil
	}, func(ctx context.Context, s *manage.Service, name string) error {
		return s.Upgrade(ctx, name, version, ignore)
	})
	cmd.Flags().StringVar(&version, "version", "", "name, semantic version or id of the version")
	ignorePreflight(cmd, &ignore)
	f.completeObjects(g, cmd)
	return cmd
}

func newCKSStartCommand(g *cli.Globals) *cobra.Command {
	f := &serviceFlags{}
	return f.changeCommand(g, &cobra.Command{
		Use:     "start NAME",
		Short:   "Start a cluster that is stopped",
		Long:    `Start the VMs of a cluster that is stopped, and wait until its API server answers CloudStack.`,
		Example: "  csccm cks start demo",
	}, nil, func(ctx context.Context, s *manage.Service, name string) error { return s.Start(ctx, name) })
}

func newCKSStopCommand(g *cli.Globals) *cobra.Command {
	f := &serviceFlags{}
	return f.changeCommand(g, &cobra.Command{
		Use:     "stop NAME",
		Short:   "Stop the VMs of a cluster",
		Long:    `Stop the VMs of a cluster. Its disks, network, addresses and rules stay.`,
		Example: "  csccm cks stop demo",
	}, nil, func(ctx context.Context, s *manage.Service, name string) error { return s.Stop(ctx, name) })
}

func newCKSDeleteCommand(g *cli.Globals) *cobra.Command {
	f, o := &serviceFlags{}, manage.DeleteOptions{}
	cmd := f.changeCommand(g, &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a cluster, and before that the load balancers of its Services",
		Long: `Delete a cluster with its VMs, and the network if CloudStack made it for the cluster.

In a network that was there before, CloudStack leaves the rules and addresses of
Services of type LoadBalancer. With --remove-services, or when you agree on a
terminal, csccm deletes these Services first and waits until the cluster's controller
has removed their rules. Otherwise it names the addresses and rules that stay.`,
		Example: `  csccm cks delete demo --dry-run
  csccm cks delete demo --remove-services --yes`,
	}, nil, func(ctx context.Context, s *manage.Service, name string) error { return s.Delete(ctx, name, o) })
	cmd.Flags().BoolVar(&o.RemoveServices, "remove-services", false, "delete the Services of type LoadBalancer first, and wait until their rules are gone")
	ignorePreflight(cmd, &o.Ignore)
	return cmd
}
