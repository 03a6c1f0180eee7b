// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// cksTimeout is how long commands wait for CloudStack's work on a cluster. It is CloudStack's own limit for such a job.
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

If csccm stops, by ^C or after --timeout (an hour here), CloudStack continues.
Run the same command again, or csccm cks show NAME --watch, to follow the
operation to its end.`

func newCKSCommand(g *cli.Globals) *cobra.Command {
	cmd := group("cks", "Manage clusters of CloudStack Kubernetes Service")
	cmd.AddCommand(newCKSListCommand(g), newCKSShowCommand(g), newCKSKubeconfigCommand(g), newCKSVersionsCommand(g),
		newCKSCreateCommand(g))
	cmd.AddCommand(newCKSChangeCommands(g)...)
	cmd.AddCommand(newCKSCNICommand(g), newCKSDashboardCommand(g), newCKSISOCommand(g))
	return cmd
}

// group returns a command that only has subcommands.
func group(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cli.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// cksBody is the work of a command after it has connected to CloudStack.
type cksBody = func(ctx context.Context, s *cks.Service, args []string) error

// cksCommand completes a command that only calls CloudStack. It adds the flags that the table of options has for the
// command, and those for credentials. validate, if not nil, runs before the connection is made. names is the kind of
// objects that the arguments name, for shell completion.
func cksCommand(
	g *cli.Globals, cmd *cobra.Command, has cli.FlagSet, o *cks.Options, names string,
	validate func(context.Context) error, body cksBody,
) *cobra.Command {
	f := &installFlags{}
	cmd.Long += credentialsText
	g.Command(cmd, has, func(ctx context.Context, args []string) error {
		if validate != nil {
			if err := validate(ctx); err != nil {
				return err
			}
		}
		return f.onCKS(ctx, g, has&cli.FlagDryRun != 0, func(s *cks.Service) error { return body(ctx, s, args) })
	})
	f.addKeys(cmd)
	f.addAdmin(cmd)
	flags := cmd.Flags()
	f.setting(flags, "project", "project-id", "string",
		"name or id of the project that owns the clusters (default the account itself, or project-id of the "+
			"cloud-config)")
	cli.Advanced(cmd, "admin-api-key-file admin-secret-key-file admin-domain allow-http ssl-no-verify")

	offer := func(kind string) cobra.CompletionFunc {
		return cli.Offer(func(ctx context.Context) (found []string, err error) {
			noProgress := *g
			noProgress.NonInteractive, noProgress.Quiet = true, true
			err = f.onCKS(ctx, &noProgress, false, func(s *cks.Service) error {
				found, err = s.Names(ctx, kind)
				return err
			})
			return found, err
		})
	}

	if names != "" {
		cmd.ValidArgsFunction = offer(names)
	}

	for _, flag := range o.Flags(key(cmd)) {
		if flag.Since != "" {
			flag.Help += " (CloudStack " + flag.Since + ")"
		}
		switch to := flag.Value.(type) {
		case *string:
			flags.StringVar(to, flag.Name, "", flag.Help)
		case *int:
			flags.IntVar(to, flag.Name, 0, flag.Help)
		case *bool:
			flags.BoolVar(to, flag.Name, false, flag.Help)
		case *[]string:
			flags.StringArrayVar(to, flag.Name, nil, flag.Help)
		}
		if flag.Names != "" {
			cli.CompleteFlag(cmd, flag.Name, offer(flag.Names))
		}
	}
	return cmd
}

// key returns the name of a command in the table of flags.
func key(cmd *cobra.Command) string { return cmp.Or(cmd.Annotations[flagsOf], cmd.Name()) }

// flagsOf is the annotation with that name for commands whose own name is not unique.
const flagsOf = "csccm.io/flags"

// cksReading completes a command that changes nothing.
func cksReading(g *cli.Globals, cmd *cobra.Command, validate func(context.Context) error, body cksBody) *cobra.Command {
	names := ""
	if cmd.Args != nil {
		names = cks.Clusters
	}
	return cksCommand(g, cmd, 0, nil, names, validate, body)
}

var oneCluster = cli.OneArgument("name or id of a cluster")

// cksListing completes a command that shows what read returns.
func cksListing[T interface {
	Write(w io.Writer, style report.Style) error
}](
	g *cli.Globals, cmd *cobra.Command, o *cks.Options, read func(*cks.Service, context.Context) (T, error),
) *cobra.Command {
	return cksCommand(g, cmd, 0, o, "", nil, func(ctx context.Context, s *cks.Service, _ []string) error {
		l, err := read(s, ctx)
		if err != nil {
			return err
		}
		return g.Show(l, func(w io.Writer) error { return l.Write(w, g.Style(w)) })
	})
}

// cksChange completes a command that carries out an operation on the cluster that its argument names.
func cksChange(
	g *cli.Globals, cmd *cobra.Command, validate func(context.Context) error, op cks.Operation, o *cks.Options,
) *cobra.Command {
	cmd.Long += followText
	names := ""
	if cmd.Name() != "create" {
		names = cks.Clusters
	}
	if cmd.Args == nil {
		cmd.Args = oneCluster
	}
	cksCommand(g, cmd, cli.FlagJournal|cli.FlagDryRun, o, names, validate,
		func(ctx context.Context, s *cks.Service, args []string) error {
			o.VMs = args[1:]
			return s.Run(ctx, op, args[0], *o)
		})
	g.DefaultTimeout(cmd, cksTimeout, nil)
	return cmd
}

// onCKS connects to CloudStack with the credentials that the flags select, and runs body in the project that they name.
// A command that changes something shows the owner of the clusters and the source of the credentials.
func (f *installFlags) onCKS(ctx context.Context, g *cli.Globals, changes bool, body func(*cks.Service) error) error {
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
			err = report.Usage(
				"give --cloud-config FILE, or --admin-user USER with --api-url URL",
				"no credentials are given, and the Secret in the cluster of the kubeconfig cannot be read: %w", err,
			)
		}
		if err != nil {
			return nil, err
		}
		found, err := access.OfSecret(ctx, c, g.Release)
		if err == nil {
			found.From += " of cluster " + cmp.Or(c.Context, c.Server)
		}
		return found, err
	})
	if err != nil {
		return err
	}
	defer cs.Close()
	if cs.Secret == nil {
		g.Connection = func() []string { return nil } // printed command lines need no cluster
	}

	e.Place = "CloudStack " + cs.Config.APIURL
	project, err := cs.Project(ctx)
	if err != nil {
		return err
	}

	if changes {
		owner := "an account that the role may not see"
		if q, err := cs.Client.ReadQuota(ctx, project); err == nil {
			owner = q.Owner
		} else if !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return err
		}
		e.Place += ", " + owner + ", with the credentials of " + cs.From
	}

	return body(&cks.Service{Env: e, API: cs.Client, Project: project})
}

func newCKSListCommand(g *cli.Globals) *cobra.Command {
	return cksListing(g, &cobra.Command{
		Use:   "list",
		Short: "List the clusters of CloudStack Kubernetes Service",
	}, nil, (*cks.Service).List)
}

func newCKSShowCommand(g *cli.Globals) *cobra.Command {
	var watch cli.WatchFlags
	cmd := cksReading(g, &cobra.Command{
		Use:   "show NAME",
		Short: "Show a cluster: its state, nodes and last events",
		Args:  oneCluster,
	}, func(context.Context) error { return watch.Validate() },
		func(ctx context.Context, s *cks.Service, args []string) error {
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
	}, func(context.Context) error {
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
			if err != nil { // err is left out: it may quote the configuration
				return cli.Usagef("CloudStack's kubeconfig of cluster %s is not YAML; write it as it is, "+
					"without -o json", name)
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
			_, err = io.WriteString(terminal.Raw(g.Out), terminal.Plain(config)) // keeps a proxy's password
		}

		return err
	})

	cmd.Flags().StringVar(&file, "output-file", "", "write to this file, with mode 0600")
	cmd.Flags().BoolVar(&merge, "merge", false,
		"add it to your kubeconfig (--kubeconfig, KUBECONFIG or ~/.kube/config)")
	return cmd
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
		in := install.Config{Pin: []string{takeover.All}}
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

// installInto installs the controller into the cluster of a kubeconfig, and then runs csccm doctor. Both print to
// stderr, because the result of the command is the cluster. The kubeconfig stays in memory. The credentials are in the
// Secret that CloudStack has made, and no Service exists yet whose load balancer could change.
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
			err := report.Errorf("fix the problems that it lists above", "csccm doctor has found problems")
			err.Code = said.Code
			return err
		}
		return err
	})
}

// newCKSChangeCommands returns the commands that change an existing cluster.
func newCKSChangeCommands(g *cli.Globals) (all []*cobra.Command) {
	for _, c := range []struct {
		use, short string
		op         cks.Operation
	}{
		{"scale NAME", "Change workers, offerings or autoscaling of a cluster", cks.Scale},
		{"upgrade NAME", "Upgrade the Kubernetes of a cluster, node after node", cks.Upgrade},
		{"start NAME", "Start a cluster that is stopped", cks.Start},
		{"stop NAME", "Stop the VMs of a cluster", cks.Stop},
		{"delete NAME", "Delete a cluster and the load balancers of its Services", cks.Delete},
		{"add-nodes NAME VM...", "Add existing VMs as workers", cks.AddNodes},
		{"remove-nodes NAME NODE...", "Drain added workers, and remove them", cks.RemoveNodes},
	} {
		cmd, o := &cobra.Command{Use: c.use, Short: c.short}, &cks.Options{}
		if strings.HasSuffix(c.use, "...") {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if len(args) < 2 || slices.Contains(args, "") {
					return cli.Usagef("%s needs a cluster and at least one VM, by name or id", cmd.CommandPath())
				}
				return nil
			}
		}
		all = append(all, cksChange(g, cmd, func(context.Context) error { return o.Validate(c.op) }, c.op, o))
	}

	return all
}

func newCKSCNICommand(g *cli.Globals) *cobra.Command {
	cmd, file := group("cni", "Manage configurations of network plugins (CloudStack 4.21)"), ""
	list := &cobra.Command{Use: "list", Short: "List the CNI configurations"}
	cmd.AddCommand(cksListing(g, list, nil, (*cks.Service).CNIConfigs))

	add := cksCommand(g, &cobra.Command{
		Use:   "add NAME",
		Short: "Register a file with cloud-config user data as a CNI configuration",
		Args:  cli.OneArgument("name of the configuration"),
	}, cli.FlagJournal|cli.FlagDryRun, nil, "", func(context.Context) error {
		if file == "" {
			return cli.Usagef("--file is not given: the cloud-config user data that installs the network plugin")
		}
		return nil
	}, func(ctx context.Context, s *cks.Service, args []string) error { return s.AddCNI(ctx, args[0], file) })

	add.Flags().StringVar(&file, "file", "", "file with the user data; its variables, such as {{ PEER }}, are declared")
	cmd.AddCommand(add, cksCommand(g, &cobra.Command{
		Use: "delete NAME", Short: "Delete a CNI configuration", Args: cli.OneArgument("name or id of a configuration"),
	}, cli.FlagJournal|cli.FlagDryRun, nil, cks.CNIConfigs, nil,
		func(ctx context.Context, s *cks.Service, args []string) error {
			return s.DeleteCNI(ctx, args[0])
		}))

	return cmd
}

func newCKSVersionsCommand(g *cli.Globals) *cobra.Command {
	o := &cks.Options{}
	list := cksListing(g, &cobra.Command{
		Use:   "versions",
		Short: "List and manage the Kubernetes versions of CloudStack",
	}, o, func(s *cks.Service, ctx context.Context) (*cks.VersionList, error) { return s.Versions(ctx, o.Zone) })

	const has = cli.FlagJournal | cli.FlagDryRun
	v, oneNumber := &cks.Options{}, cli.OneArgument("number of the version")
	add := &cobra.Command{
		Use: "add NUMBER", Short: "Register a version, and wait for its ISO (administrators)",
		Annotations: map[string]string{flagsOf: "versions-add", cli.OutputsAnnotation: "text json yaml"},
		Args: func(cmd *cobra.Command, args []string) error {
			if err := oneNumber(cmd, args); err != nil {
				return err
			}
			return v.ValidateVersion(args[0])
		},
	}
	list.AddCommand(cksCommand(g, add, has, v, "", nil,
		func(ctx context.Context, s *cks.Service, args []string) error { return s.AddVersion(ctx, args[0], v) }))
	g.DefaultTimeout(add, cksTimeout, nil)

	for _, c := range []struct{ name, short string }{
		{"enable", "Enable a version for new clusters and upgrades (administrators)"},
		{"disable", "Disable a version for new clusters and upgrades (administrators)"},
		{"delete", "Delete a version with its ISO (administrators)"},
	} {
		cmd := &cobra.Command{
			Use: c.name + " NAME", Short: c.short, Args: cli.OneArgument("name, number or id of the version"),
		}
		do := func(ctx context.Context, s *cks.Service, args []string) error {
			if c.name == "delete" {
				return s.DeleteVersion(ctx, args[0])
			}
			return s.SetVersion(ctx, args[0], c.name)
		}
		list.AddCommand(cksCommand(g, cmd, has, nil, cks.Versions, nil, do))
	}

	return list
}

func newCKSDashboardCommand(g *cli.Globals) *cobra.Command {
	port := 0
	cmd := cksReading(g, &cobra.Command{
		Use:         "dashboard NAME",
		Short:       "Serve the web dashboard of a cluster on this machine",
		Args:        oneCluster,
		Annotations: cli.Outputs("text"),
	}, nil, func(ctx context.Context, s *cks.Service, args []string) error {
		return s.Dashboard(ctx, args[0], port, func(url string) {
			_, _ = io.WriteString(g.Out, url+"\n")
			s.Progress.Info("it asks for a token: `kubectl -n kubernetes-dashboard create token " +
				"kubernetes-dashboard`; ^C ends it")
		})
	})
	cmd.Flags().IntVar(&port, "port", 8001, "port on 127.0.0.1; 0 is any free one")
	g.DefaultTimeout(cmd, 0, nil)
	return cmd
}
