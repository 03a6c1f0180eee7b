// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/register"
	"github.com/csccm/csccm/installer/engine"
)

func newRegisterCommand(g *cli.Globals) *cobra.Command {
	return g.Command(&cobra.Command{
		Use:   "register [NAME]",
		Short: "Show the cluster in CloudStack's UI, with the VMs of its nodes",
		Long: `register lists a cluster that CloudStack did not create in CloudStack's UI, under
Kubernetes: as an entry of type ExternalManaged (CloudStack 4.19 or newer) with the VMs
of the nodes. CloudStack only displays the entry. No VM is changed.

Run it again when nodes have joined or left: it adds and removes what differs. The chart
value registerCluster has the controller do that; register then changes nothing.

Without NAME the entry keeps its name. For a new entry a terminal is asked, with the
cluster's name in the kubeconfig as the suggestion. A name that an entry of somebody else
has is refused, and so is a cluster of CloudStack Kubernetes Service, which has its entry.

The keys' role must allow listKubernetesClusters, createKubernetesCluster,
addVirtualMachinesToKubernetesCluster and removeVirtualMachinesFromKubernetesCluster.
The default role User does; a role that csccm install creates does with
--set registerCluster=NAME only.` + cli.ServerIsClient,
		Example: `  # look only
  csccm register production --dry-run

  csccm register production --yes

  # with other keys of the same account or project
  csccm register production --cloud-config owner.conf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("register takes one NAME; quote a name with blanks")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}, cli.ChangingCloud, func(ctx context.Context, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		return onRegistration(ctx, g, func(e *engine.Env, cs *cloud.Cloud) error { return register.Run(ctx, e, cs, name) })
	})
}

func newUnregisterCommand(g *cli.Globals) *cobra.Command {
	return g.Command(&cobra.Command{
		Use:   "unregister",
		Short: "Take the cluster out of CloudStack's UI, and leave its VMs alone",
		Long: `unregister deletes the entry that csccm register, or the controller with the chart value
registerCluster, made for this cluster in CloudStack's UI. No VM is changed, and no entry
of another cluster. While registerCluster is set, unregister refuses: the controller would
create the entry again.

The keys' role must allow listKubernetesClusters and deleteKubernetesCluster.` + cli.ServerIsClient,
		Example: `  csccm unregister --dry-run
  csccm unregister --yes`,
	}, cli.ChangingCloud, func(ctx context.Context, _ []string) error {
		return onRegistration(ctx, g, func(e *engine.Env, cs *cloud.Cloud) error { return register.Unregister(ctx, e, cs) })
	})
}

// onRegistration is onCloud for commands that must know the controller's settings: the release must not be in another
// namespace.
func onRegistration(ctx context.Context, g *cli.Globals, body func(*engine.Env, *cloud.Cloud) error) error {
	return g.OnCloud(ctx, func(e *engine.Env, cs *cloud.Cloud) error {
		if err := cli.ReleaseHere(ctx, e.Cluster, g.Release); err != nil {
			return err
		}
		return body(e, cs)
	})
}
