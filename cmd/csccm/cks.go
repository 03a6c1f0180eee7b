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
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/inventory"
)

// cksTimeout is how long commands follow CloudStack's work on a cluster: its own limit for such a job.
const cksTimeout = time.Hour

// credentialsText is the part of a help text about credentials.
//
//nolint:gosec // a text
const credentialsText = `

It talks to CloudStack, not to a cluster. Credentials come from --cloud-config,
the login of an administrator or of any user (--admin-user, or
--admin-api-key-file), keys (--api-key-file, a profile of cmk, or
CLOUDSTACK_API_KEY and CLOUDSTACK_SECRET_KEY), and without any from the Secret
of the cluster that the kubeconfig names.`

// followText is the part of a help text about waiting.
const followText = `

CloudStack goes on when csccm stops, by ^C or after --timeout (an hour here):
the same command again, or csccm cks show NAME --watch, follows the operation to
its end.`

func newCKSCommand(g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cks",
		Short: "Manage clusters of CloudStack Kubernetes Service",
		Long: `The subcommands list, create, change and delete clusters of CloudStack
Kubernetes Service (CKS). csccm doctor checks a cluster that CKS made: its
nodes, its certificates, and whether CKS would deploy its own provider again.`,
		Example: `  csccm cks create demo --zone zone-1 --offering node --size 2 --with csccm
  csccm cks list
  csccm cks show demo`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCKSListCommand(g), newCKSShowCommand(g), newCKSKubeconfigCommand(g), newCKSVersionsCommand(g), newCKSCreateCommand(g),
		newCKSScaleCommand(g), newCKSUpgradeCommand(g), newCKSStartCommand(g), newCKSStopCommand(g), newCKSDeleteCommand(g), newCKSISOCommand(g))
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
	cmd.Flags().StringVar(&f.options.Project, "project", "", "name or id of the project that owns the clusters (default the account itself, or project-id of the cloud-config)")
	cli.Advanced(cmd, "admin-api-key-file", "admin-secret-key-file", "admin-domain", "allow-http", "cmk-config", "ssl-no-verify")
	return cmd
}

var oneCluster = cli.OneArgument("name or id of a cluster")

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
	f.options.Credentials.AnyUser = true
	if err := f.readSecrets(g); err != nil {
		return err
	}
	cs, err := f.Reach(ctx, e, &f.options, func(ctx context.Context) (*cloud.Cloud, error) {
		c, err := g.Cluster(ctx)
		if err != nil && ctx.Err() == nil {
			err = &report.Error{
				What: "no credentials are given, and the cluster of the kubeconfig, whose Secret would have some, cannot be asked", Err: err, Code: report.ExitUsage,
				Fix: "give --cloud-config FILE, --admin-user USER with --api-url URL, or --cmk-profile",
			}
		}
		if err != nil {
			return nil, err
		}
		return cloud.OfSecret(ctx, c)
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
	return cksReading(g, &cobra.Command{
		Use:   "list",
		Short: "List the clusters of CloudStack Kubernetes Service",
		Long:  `List the clusters of the account, or of a project.`,
		Example: `  csccm cks list --cloud-config cloud-config
  csccm cks list --project team -o json | jq '.clusters[].name'`,
	}, 0, nil, func(ctx context.Context, s *cks.Service, _ []string) error {
		l, err := s.List(ctx)
		if err != nil {
			return err
		}
		if len(l.Clusters) == 0 {
			s.Progress.Info("there are no clusters; --project names those of a project")
		}
		return g.Show(l, func(w io.Writer) error { return l.Write(w, g.Style(w)) })
	})
}

func newCKSShowCommand(g *cli.Globals) *cobra.Command {
	var watch cli.WatchFlags
	cmd := cksReading(g, &cobra.Command{
		Use:   "show NAME",
		Short: "Show a cluster: its state, nodes and last events",
		Long: `Show a cluster by its name or id: state, size, network, nodes, and the last ten
events of it where the role may list events (all of them with -o json).`,
		Example: `  csccm cks show demo
  csccm cks show demo --watch`,
		Args: oneCluster,
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
		Use:   "kubeconfig NAME",
		Short: "Write the kubeconfig of a cluster's administrator",
		Long: `Write the kubeconfig of a cluster's administrator to stdout, to a file that only
you can read (--output-file), or into your own kubeconfig (--merge): there
cluster, user and context get the cluster's name. What is there already is
replaced only with --yes.

It is a secret: whoever has it administers the cluster.`,
		Example: `  csccm cks kubeconfig demo --output-file demo.kubeconfig
  csccm cks kubeconfig demo --merge && kubectl --context demo get nodes`,
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
			_, err = io.WriteString(g.Out, config)
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
		Long: `Create a cluster of CloudStack Kubernetes Service, and wait until it runs.
Before, csccm checks what CloudStack finds only when VMs were already created:
limits, free addresses, offerings that no later upgrade accepts.

Without --network CloudStack creates one for the cluster, which it deletes with
it. A second run with the same parameters follows the first, or says that the
cluster runs; with other parameters it refuses.

--with csccm installs csccm's controller then, as csccm install does: it takes
the place of the provider that CloudStack has put there, with the same
credentials, and initialises nodes that are added later (adoptNodes). csccm
doctor checks it at the end.`,
		Example: `  csccm cks create demo --zone zone-1 --offering node --size 2

  # highly available, in a network that exists, with the controller, unattended
  csccm cks create prod --version 1.33.1 --offering node --size 5 \
    --control-nodes 3 --network prod-net --with csccm --yes`,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Zone, "zone", "", "name or id of the zone (default the only one)")
	flags.StringVar(&o.Version, "version", "", "name, semantic version or id of the version (default the newest that is Enabled and Ready)")
	addOfferings(cmd, o)
	addPreflight(cmd, o)
	flags.IntVar(&o.Size, "size", 0, "number of workers (default 1)")
	flags.IntVar(&o.ControlNodes, "control-nodes", 0, "number of control nodes; 2 or more are highly available (default 1)")
	flags.StringVar(&o.ExternalLB, "external-lb-address", "", "address of the load balancer of a highly available cluster in a shared network")
	flags.StringVar(&o.Network, "network", "", "name or id of a network that exists (default a new one)")
	flags.StringVar(&o.KeyPair, "keypair", "", "name of the SSH key pair of the nodes")
	flags.IntVar(&o.RootDiskGiB, "root-disk", 0, "size of a node's root disk in GiB (default 8)")
	flags.BoolVar(&o.CSI, "csi", false, "let CloudStack install its CSI driver (CloudStack 4.22)")
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
		in.Chart, in.Values, err = charts.load()
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

func newCKSScaleCommand(g *cli.Globals) *cobra.Command {
	o := &cks.Options{}
	cmd := &cobra.Command{
		Use:   "scale NAME",
		Short: "Change workers, offerings or autoscaling of a cluster",
		Long: `Change one thing of a cluster: the number of its workers, the offerings of its
nodes, or its autoscaling. CloudStack changes one of them at a time. Workers are
added and removed while the cluster runs; the newest are removed first.`,
		Example: `  csccm cks scale demo --size 5
  csccm cks scale demo --worker-offering big
  csccm cks scale demo --autoscaling 2-5
  csccm cks scale demo --autoscaling off`,
	}
	cmd.Flags().IntVar(&o.Size, "size", 0, "number of workers")
	addOfferings(cmd, o)
	addPreflight(cmd, o)
	cmd.Flags().StringVar(&o.Autoscaling, "autoscaling", "", "range of workers, such as 2-5, or off")
	cli.CompleteFlag(cmd, "autoscaling", cli.OneOf("off"))
	return cksChange(g, cmd, func(context.Context) error {
		_, err := o.ScaleRequest()
		return err
	}, cks.Scale, o)
}

func newCKSUpgradeCommand(g *cli.Globals) *cobra.Command {
	o := &cks.Options{}
	cmd := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Upgrade the Kubernetes of a cluster, node after node",
		Long: `Upgrade a cluster to another version that csccm cks versions shows: a newer
patch of the same minor version, or the next minor version. CloudStack drains
and upgrades one node after the other. Before, csccm looks at the nodes of the
cluster where it reaches it.`,
		Example: `  csccm cks upgrade demo --version 1.34.0 --dry-run
  csccm cks upgrade demo --version 1.34.0 --yes`,
	}
	addPreflight(cmd, o)
	cmd.Flags().StringVar(&o.Version, "version", "", "name, semantic version or id of the version")
	return cksChange(g, cmd, func(context.Context) error {
		if o.Version == "" {
			return cli.Usagef("--version names the version to upgrade to; csccm cks versions lists them")
		}
		return nil
	}, cks.Upgrade, o)
}

func newCKSStartCommand(g *cli.Globals) *cobra.Command {
	return cksChange(g, &cobra.Command{
		Use: "start NAME", Short: "Start a cluster that is stopped", Example: "  csccm cks start demo",
		Long: "Start the VMs of a cluster, and wait until its API server answers CloudStack.",
	}, nil, cks.Start, &cks.Options{})
}

func newCKSStopCommand(g *cli.Globals) *cobra.Command {
	return cksChange(g, &cobra.Command{
		Use: "stop NAME", Short: "Stop the VMs of a cluster", Example: "  csccm cks stop demo",
		Long: "Stop the VMs of a cluster. Its disks, network, addresses and rules stay.",
	}, nil, cks.Stop, &cks.Options{})
}

func newCKSDeleteCommand(g *cli.Globals) *cobra.Command {
	o := &cks.Options{}
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a cluster and the load balancers of its Services",
		Long: `Delete a cluster with its VMs, and the network if CloudStack made it for the
cluster.

In a network that was there before, CloudStack leaves the rules and addresses of
Services of type LoadBalancer. With --remove-services csccm deletes these
Services first and waits until the cluster's controller has removed their rules.
Otherwise it names the addresses and rules that stay.`,
		Example: `  csccm cks delete demo --dry-run
  csccm cks delete demo --remove-services --yes`,
	}
	addPreflight(cmd, o)
	cmd.Flags().BoolVar(&o.RemoveServices, "remove-services", false, "delete the Services of type LoadBalancer first, and wait until their rules are gone")
	return cksChange(g, cmd, nil, cks.Delete, o)
}

func newCKSVersionsCommand(g *cli.Globals) *cobra.Command {
	zone := ""
	cmd := cksReading(g, &cobra.Command{
		Use:   "versions",
		Short: "List the Kubernetes versions of CloudStack",
		Long: `List the versions that CloudStack Kubernetes Service can install. A version can
be used when its state is Enabled and its ISO Ready. An administrator changes
the list in CloudStack itself.`,
		Example: `  csccm cks versions --cloud-config cloud-config
  csccm cks versions --zone zone-1 -o json`,
	}, 0, nil, func(ctx context.Context, s *cks.Service, _ []string) error {
		l, err := s.Versions(ctx, zone)
		if err != nil {
			return err
		}
		return g.Show(l, func(w io.Writer) error { return l.Write(w, g.Style(w)) })
	})
	cmd.Flags().StringVar(&zone, "zone", "", "name or id of a zone: only what can be installed there")
	return cmd
}
