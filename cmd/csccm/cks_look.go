// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/cks/manage"
	"github.com/csccm/csccm/installer/engine/report"
)

func newCKSListCommand(g *cli.Globals) *cobra.Command {
	f := &serviceFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "list",
		Short: "List the clusters of CloudStack Kubernetes Service",
		Long:  `List the clusters of the account, or of a project.` + credentialsText,
		Example: `  csccm cks list --cloud-config cloud-config
  csccm cks list --cmk-profile --project team -o json | jq '.clusters[].name'`,
	}, 0, f.run(g, func(ctx context.Context, s *manage.Service, _ []string) error {
		l, err := s.List(ctx)
		if err != nil {
			return err
		}
		if len(l.Clusters) == 0 {
			s.Progress.Info("there are no clusters in %s", s.Scope())
		}
		return g.Show(l, func(w io.Writer) error { return l.Write(w, g.Style(w)) })
	}))
	f.add(g, cmd)
	return cmd
}

func newCKSShowCommand(g *cli.Globals) *cobra.Command {
	f, watch := &serviceFlags{}, cli.WatchFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a cluster: its state, nodes and last events",
		Long: `Show a cluster by its name or id: state, size, network, nodes, and the last events of
it where the role may list events (all of them with -v).` + credentialsText,
		Example: `  csccm cks show demo
  csccm cks show demo --watch`,
		Args: cli.OneArgument("name or id of a cluster"),
	}, 0, f.run(g, func(ctx context.Context, s *manage.Service, args []string) error {
		return watch.Repeat(ctx, g, func(ctx context.Context, out io.Writer) (string, error) {
			info, err := s.Show(ctx, args[0])
			if err != nil {
				return "", err
			}
			if g.Format != "text" {
				return "", report.Encode(out, g.Format, info)
			}
			return "", info.Write(out, g.Style(g.Out))
		})
	}))
	cmd.Args = cli.AlsoValid(cmd.Args, watch.Validate)
	f.add(g, cmd)
	watch.AddWatch(cmd)
	cmd.ValidArgsFunction = cli.CompleteArgument(f.complete(g, manage.ClusterNames))
	return cmd
}

func newCKSKubeconfigCommand(g *cli.Globals) *cobra.Command {
	f := &serviceFlags{}
	var file string
	var merge bool
	cmd := g.Command(&cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Write the kubeconfig of a cluster's administrator",
		Long: `Write the kubeconfig of a cluster's administrator to stdout, to a file that only you can
read (--output-file), or into your own kubeconfig (--merge): there cluster, user and
context get the cluster's name. What is there already is replaced only with --yes.

It is a secret: whoever has it administers the cluster.` + credentialsText,
		Example: `  csccm cks kubeconfig demo --output-file demo.kubeconfig
  csccm cks kubeconfig demo --merge && kubectl --context demo get nodes`,
		Args:        cli.OneArgument("name or id of a cluster"),
		Annotations: cli.Outputs("yaml", "json"),
	}, 0, f.run(g, func(ctx context.Context, s *manage.Service, args []string) error {
		name, config, err := s.Kubeconfig(ctx, args[0])
		if err != nil {
			return err
		}
		if merge {
			if err := manage.Merge(g.Kube.ToRawKubeConfigLoader().ConfigAccess(), name, config, g.Yes); err != nil {
				return err
			}
			s.Progress.Info("context %s is in your kubeconfig", name)
			return nil
		}
		if g.Format == "json" {
			body, err := yaml.YAMLToJSON([]byte(config))
			if err != nil { // without its text, which may quote the configuration
				return cli.Usagef("CloudStack's kubeconfig of cluster %s is no YAML; write it as it is, without -o json", name)
			}
			config = string(body) + "\n"
		}
		if file != "" {
			if err := manage.WriteSecret(file, config, g.Yes); err != nil {
				return err
			}
			s.Progress.Info("written to %s", file)
			return nil
		}
		_, err = io.WriteString(g.Out, config)
		return err
	}))
	cmd.Args = cli.AlsoValid(cmd.Args, func() error {
		if merge && file != "" {
			return cli.Usagef("--merge and --output-file exclude each other")
		}
		return nil
	})
	f.add(g, cmd)
	cmd.Flags().StringVar(&file, "output-file", "", "write to this file, with mode 0600")
	cmd.Flags().BoolVar(&merge, "merge", false, "add it to your kubeconfig (--kubeconfig, KUBECONFIG or ~/.kube/config)")
	cmd.ValidArgsFunction = cli.CompleteArgument(f.complete(g, manage.ClusterNames))
	return cmd
}
