// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// cksTimeout is how long commands follow CloudStack's work on a cluster: its own limit for such a job.
const cksTimeout = time.Hour

// credentialsText is the part of a help text about credentials.
//
//nolint:gosec // a text
const credentialsText = `

It talks to CloudStack, not to a cluster. Credentials come from --cloud-config,
the login of an administrator or of any user (--admin-user, or
--admin-api-key-file), keys (--api-key-file, or CLOUDSTACK_API_KEY
and CLOUDSTACK_SECRET_KEY), and without any from the Secret of the cluster that
the kubeconfig names.`

// followText is the part of a help text about waiting.
const followText = `

CloudStack goes on when csccm stops, by ^C or after --timeout (an hour here):
the same command again, or csccm cks show NAME --watch, follows the operation to
its end.`

func newCKSCommand(g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cks",
		Short: "Manage clusters of CloudStack Kubernetes Service",
		Args:  cli.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCKSListCommand(g), newCKSShowCommand(g), newCKSKubeconfigCommand(g), newCKSVersionsCommand(g), newCKSCreateCommand(g))
	cmd.AddCommand(newCKSChangeCommands(g)...)
	cmd.AddCommand(newCKSISOCommand(g))
	return cmd
}

// cksBody is what a command does once it is connected.
type cksBody = func(ctx context.Context, s *cks.Service, args []string) error

// cksReading completes a command that talks to CloudStack alone. validate needs no connection; it may be nil.
func cksReading(g *cli.Globals, cmd *cobra.Command, has cli.FlagSet, validate func(context.Context) error, body cksBody) *cobra.Command {
	f := &installFlags{}
	cmd.Long += credentialsText
	g.Command(cmd, has, func(ctx context.Context, args []string) error {
		if validate != nil {
			if err := validate(ctx); err != nil {
				return err
			}
		}
		return f.onCKS(ctx, g, func(s *cks.Service) error { return body(ctx, s, args) })
	})
	f.addKeys(cmd)
	f.addAdmin(cmd)
	f.setting(cmd.Flags(), "project", "project-id", "string", "name or id of the project that owns the clusters (default the account itself, or project-id of the cloud-config)")
	cli.Advanced(cmd, "admin-api-key-file", "admin-secret-key-file", "admin-domain", "allow-http", "ssl-no-verify")
	return cmd
}

var oneCluster = cli.OneArgument("name or id of a cluster")

// cksListing completes a command that shows what read returns.
func cksListing[T interface {
	Write(w io.Writer, style report.Style) error
}](g *cli.Globals, cmd *cobra.Command, read func(context.Context, *cks.Service) (T, error)) *cobra.Command {
	return cksReading(g, cmd, 0, nil, func(ctx context.Context, s *cks.Service, _ []string) error {
		l, err := read(ctx, s)
		if err != nil {
			return err
		}
		return g.Show(l, func(w io.Writer) error { return l.Write(w, g.Style(w)) })
	})
}

// cksChange completes a command that carries out an operation on the cluster that its argument names.
func cksChange(g *cli.Globals, cmd *cobra.Command, validate func(context.Context) error, op cks.Operation, o *cks.Options) *cobra.Command {
	cmd.Long += followText
	cmd.Args = oneCluster
	cksReading(g, cmd, cli.FlagJournal|cli.FlagDryRun, validate, func(ctx context.Context, s *cks.Service, args []string) error {
		return s.Run(ctx, op, args[0], *o)
	})
	g.DefaultTimeout(cmd, cksTimeout, func() bool { return true })
	return cmd
}

// onCKS connects to CloudStack, as the flags say, and runs body in the project that they name.
func (f *installFlags) onCKS(ctx context.Context, g *cli.Globals, body func(*cks.Service) error) error {
	e := g.Env()
	e.Progress = g.Progress()
	defer e.Progress.Close()
	f.AnyUser = true
	if err := f.readSecrets(g); err != nil {
		return err
	}
	cs, err := f.Reach(ctx, e, func(ctx context.Context) (*access.Cloud, error) {
		c, err := g.Cluster(ctx)
		if err != nil && ctx.Err() == nil {
			err = &report.Error{
				What: "no credentials are given, and the cluster of the kubeconfig, whose Secret would have some, cannot be asked", Err: err, Code: report.ExitUsage,
				Fix: "give --cloud-config FILE, or --admin-user USER with --api-url URL",
			}
		}
		if err != nil {
			return nil, err
		}
		return access.OfSecret(ctx, c, g.Release)
	})
	if err != nil {
		return err
	}
	defer cs.Close()
	e.Place = "CloudStack " + cs.Config.APIURL
	project, err := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID}).ProjectID(ctx)
	if err != nil {
		return err
	}
	return body(&cks.Service{Env: e, API: cs.Client, Project: project})
}

func newCKSListCommand(g *cli.Globals) *cobra.Command {
	return cksListing(g, &cobra.Command{
		Use:   "list",
		Short: "List the clusters of CloudStack Kubernetes Service",
	}, func(ctx context.Context, s *cks.Service) (*cks.ClusterList, error) { return s.List(ctx) })
}

func newCKSShowCommand(g *cli.Globals) *cobra.Command {
	var watch cli.WatchFlags
	cmd := cksReading(g, &cobra.Command{
		Use:   "show NAME",
		Short: "Show a cluster: its state, nodes and last events",
		Args:  oneCluster,
	}, 0, func(context.Context) error { return watch.Validate() }, func(ctx context.Context, s *cks.Service, args []string) error {
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
	})
	watch.AddWatch(cmd)
	return cmd
}

func newCKSKubeconfigCommand(g *cli.Globals) *cobra.Command {
	var file string
	var merge bool
	cmd := cksReading(g, &cobra.Command{
		Use:         "kubeconfig NAME",
		Short:       "Write the kubeconfig of a cluster's administrator",
		Args:        oneCluster,
		Annotations: cli.Outputs("yaml", "json"),
	}, 0, func(context.Context) error {
		if merge && file != "" {
			return cli.Usagef("--merge and --output-file exclude each other")
		}
		return nil
	}, func(ctx context.Context, s *cks.Service, args []string) error {
		name, config, err := s.Kubeconfig(ctx, args[0])
		if err != nil {
			return err
		}
		if g.Format == "json" && !merge {
			body, err := yaml.YAMLToJSON([]byte(config))
			if err != nil { // without its text, which may quote the configuration
				return cli.Usagef("CloudStack's kubeconfig of cluster %s is no YAML; write it as it is, without -o json", name)
			}
			config = string(body) + "\n"
		}
		switch {
		case merge:
			if err = cks.Merge(g.Kube.ToRawKubeConfigLoader().ConfigAccess(), name, config, g.Yes); err == nil {
				s.Progress.Info("context %s is in your kubeconfig", name)
			}
		case file != "":
			if err = cks.WriteSecret(file, config, g.Yes); err == nil {
				s.Progress.Info("written to %s", file)
			}
		default:
			_, err = io.WriteString(terminal.Raw(g.Out), terminal.Plain(config)) // with the password of a proxy in it
		}
		return err
	})
	cmd.Flags().StringVar(&file, "output-file", "", "write to this file, with mode 0600")
	cmd.Flags().BoolVar(&merge, "merge", false, "add it to your kubeconfig (--kubeconfig, KUBECONFIG or ~/.kube/config)")
	return cmd
}

// addPreflight adds the flag of commands with a preflight.
func addPreflight(cmd *cobra.Command, o *cks.Options) {
	cmd.Flags().StringSliceVar(&o.Ignore, "ignore-preflight", nil, "go on although the preflight has found an error of this code; may be repeated")
}

// addOfferings adds the flags that name offerings of nodes.
func addOfferings(cmd *cobra.Command, o *cks.Options) {
	cmd.Flags().StringVar(&o.Offering, "offering", "", "name or id of the offering of all nodes")
	cmd.Flags().StringVar(&o.ControlOffering, "control-offering", "", "offering of the control nodes (CloudStack 4.21)")
	cmd.Flags().StringVar(&o.WorkerOffering, "worker-offering", "", "offering of the workers (CloudStack 4.21)")
}

// withController is the value of --with that installs csccm's controller.
const withController = "csccm"

func newCKSCreateCommand(g *cli.Globals) *cobra.Command {
	o, charts, with := &cks.Options{}, chartFlags{}, []string{}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a cluster, and install csccm's controller into it",
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Zone, "zone", "", "name or id of the zone (default the only one)")
	flags.StringVar(&o.Version, "version", "", "name, semantic version or id of the version (default the newest that is Enabled and Ready)")
	addOfferings(cmd, o)
	addPreflight(cmd, o)
	flags.IntVar(&o.Size, "size", 0, "number of workers (default 1)")
	flags.IntVar(&o.ControlNodes, "control-nodes", 0, "number of control nodes; 2 or more are highly available (default 1)")
	flags.StringVar(&o.ExternalLBAddress, "external-lb-address", "", "address of the load balancer of a highly available cluster in a shared network")
	flags.StringVar(&o.Network, "network", "", "name or id of a network that exists (default a new one)")
	flags.StringVar(&o.KeyPair, "keypair", "", "name of the SSH key pair of the nodes")
	flags.IntVar(&o.RootDiskGiB, "root-disk", 0, "size of a node's root disk in GiB (default 8)")
	flags.BoolVar(&o.EnableCSI, "csi", false, "let CloudStack install its CSI driver (CloudStack 4.22)")
	flags.StringVar(&o.Description, "description", "", "text that CloudStack shows with the cluster")
	flags.StringSliceVar(&with, "with", nil, "install this into the cluster when it runs: csccm")
	flags.StringArrayVar(&charts.set, "set", nil, "chart value KEY=VALUE for --with csccm; may be repeated")
	cksChange(g, cmd, func(ctx context.Context) (err error) {
		for _, w := range with {
			if w != withController {
				return cli.Usagef("--with %q is not known; there is %s", w, withController)
			}
		}
		if len(with) == 0 {
			if len(charts.set) > 0 {
				return cli.Usagef("--set needs --with csccm")
			}
			return nil
		}
		charts.set = append([]string{"adoptNodes=true"}, charts.set...)
		in := install.Config{Pin: []string{takeover.All}, MaxParallel: 1, PerNode: time.Minute}
		for _, value := range charts.set {
			in.Typed = append(in.Typed, "--set", value)
		}
		in.Chart, in.Values, err = charts.load(ctx)
		o.Install = func(ctx context.Context, kubeconfig string) error { return installInto(ctx, g, kubeconfig, in) }
		return err
	}, cks.Create, o)
	cli.CompleteFlag(cmd, "with", cli.OneOf(withController))
	return cmd
}

// installInto installs the controller into a cluster by its kubeconfig, and lets doctor judge it. What they print goes to
// stderr: the result of the command is the cluster. The kubeconfig stays in memory. The Secret that CloudStack has made has the
// credentials, and no Service exists yet whose load balancer could change.
func installInto(ctx context.Context, g *cli.Globals, kubeconfig string, o install.Config) error {
	config, err := cks.RESTConfig(kubeconfig)
	if err != nil {
		return err
	}
	in := g.Inside(config, "cks-create-install")
	return in.OnRelease(ctx, func(e *engine.Env) error {
		if err := install.Run(ctx, e, o); err != nil {
			return err
		}
		_, err := (&doctorFlags{phase: phaseAuto}).once(ctx, in, e.Cluster, in.Out)
		var said *report.Error
		if errors.As(err, &said) && said.Silent() {
			return &report.Error{What: "csccm doctor has found problems", Fix: "correct what it says above", Code: said.Code}
		}
		return err
	})
}

// newCKSChangeCommands are the commands that change a cluster that exists.
func newCKSChangeCommands(g *cli.Globals) (all []*cobra.Command) {
	for _, c := range []struct {
		use, short string
		op         cks.Operation
		flags      func(cmd *cobra.Command, o *cks.Options)
	}{
		{"scale NAME", "Change workers, offerings or autoscaling of a cluster", cks.Scale, func(cmd *cobra.Command, o *cks.Options) {
			cmd.Flags().IntVar(&o.Size, "size", 0, "number of workers")
			addOfferings(cmd, o)
			addPreflight(cmd, o)
			cmd.Flags().StringVar(&o.Autoscaling, "autoscaling", "", "range of workers, such as 2-5, or off")
			cli.CompleteFlag(cmd, "autoscaling", cli.OneOf("off"))
		}},
		{"upgrade NAME", "Upgrade the Kubernetes of a cluster, node after node", cks.Upgrade, func(cmd *cobra.Command, o *cks.Options) {
			addPreflight(cmd, o)
			cmd.Flags().StringVar(&o.Version, "version", "", "name, semantic version or id of the version")
		}},
		{"start NAME", "Start a cluster that is stopped", cks.Start, func(*cobra.Command, *cks.Options) {}},
		{"stop NAME", "Stop the VMs of a cluster", cks.Stop, func(*cobra.Command, *cks.Options) {}},
		{"delete NAME", "Delete a cluster and the load balancers of its Services", cks.Delete, func(cmd *cobra.Command, o *cks.Options) {
			addPreflight(cmd, o)
			cmd.Flags().BoolVar(&o.RemoveServices, "remove-services", false, "delete the Services of type LoadBalancer first, and wait until their rules are gone")
		}},
	} {
		cmd, o := &cobra.Command{Use: c.use, Short: c.short}, &cks.Options{}
		c.flags(cmd, o)
		all = append(all, cksChange(g, cmd, func(context.Context) error { return o.Validate(c.op) }, c.op, o))
	}
	return all
}

func newCKSVersionsCommand(g *cli.Globals) *cobra.Command {
	zone := ""
	cmd := cksListing(g, &cobra.Command{
		Use:   "versions",
		Short: "List the Kubernetes versions of CloudStack",
	}, func(ctx context.Context, s *cks.Service) (*cks.VersionList, error) { return s.Versions(ctx, zone) })
	cmd.Flags().StringVar(&zone, "zone", "", "name or id of a zone: only what can be installed there")
	return cmd
}
