// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/typo"
	"github.com/csccm/csccm/pkg/version"
)

//go:embed help
var helpTexts embed.FS

// rootCommand returns the command tree. It makes no connection.
func rootCommand(g *cli.Globals) *cobra.Command {
	root := &cobra.Command{
		Use:               "csccm",
		Short:             "Kubernetes on Apache CloudStack: install, check and migrate the cloud controller manager",
		Version:           version.String(),
		SilenceErrors:     true, // main prints them, with the remedy
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		// A distance of 2 covers two swapped letters.
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			top, _, _ := strings.Cut(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" "), " ")
			if strings.HasPrefix(top, cobra.ShellCompRequestCmd) { // shell completion
				top = "completion"
			}
			cluster.NameCommand(g.Kube, top)
			return g.Validate()
		},
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	root.SetIn(g.In)
	root.SetOut(g.Out)
	root.SetErr(g.ErrOut)
	root.SetFlagErrorFunc(flagError)
	g.AddFlags(root.PersistentFlags())
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "kube-context" { // Helm's name for --context
			name = "context"
		}
		return pflag.NormalizedName(name)
	})
	root.CompletionOptions.DisableDefaultCmd = true // our own command explains how to load it

	cli.CompleteFlag(root, "namespace", cli.CompleteFrom(g, cluster.NamespaceNames))
	cli.CompleteFlag(root, "context", cli.ContextNames(g))
	cli.CompleteFlag(root, "output",
		func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return strings.Fields(cmd.Annotations[cli.OutputsAnnotation]), cobra.ShellCompDirectiveNoFileComp
		})
	cli.CompleteFlag(root, "color", cli.OneOf(report.Colors...))

	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Install", []*cobra.Command{
			newInstallCommand(g), newUpgradeCommand(g), newRollbackCommand(g), newUninstallCommand(g),
			newTemplateCommand(g), newImagesCommand(g),
		}},
		{"Operate", []*cobra.Command{
			newStatusCommand(g), newDoctorCommand(g), newPlanCommand(g), newUICommand(g), newTestCommand(g),
			newRotateKeysCommand(g), newSupportBundleCommand(g),
		}},
		{"Migrate",
			[]*cobra.Command{newTakeoverCommand(g), newMigrateRulesCommand(g), newAdoptCommand(g), newTaintCommand(g)}},
		{"CKS", []*cobra.Command{newCKSCommand(g)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}

	root.AddCommand(newVersionCommand(g), newCompletionCommand(g))
	cli.AddHelp(root, helpTexts)

	root.SetHelpCommand(&cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, _ := root.Find(args)
			if len(rest) > 0 {
				return cli.NoArgs(cmd, rest)
			}
			return cmd.Help()
		},
	})

	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		// For an unknown subcommand, cobra would show the help of its parent without an error.
		if rest := cmd.Flags().Args(); cmd.HasSubCommands() && len(rest) > 0 {
			g.Unknown = cli.NoArgs(cmd, rest)
			return
		}
		help(cmd, args)
	})

	cli.CompleteRest(root)
	return root
}

// flagError returns the error of an invalid flag. For an unknown flag it suggests similar ones.
func flagError(cmd *cobra.Command, err error) error {
	wrong := cli.Usage(err)
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return wrong
	}

	var known []string
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
	}

	name := missing.GetSpecifiedName()
	near := typo.Nearest(name, known, 2)
	if len(name) < 3 || len(near) == 0 { // short names resemble many
		return wrong
	}

	return report.Remedied(wrong,
		fmt.Sprintf("did you mean --%s? %s --help shows all", strings.Join(near, " or --"), cmd.CommandPath()))
}

// asPlugin makes help and errors show the command as the user typed it when the program runs as the plugin
// kubectl-csccm.
func asPlugin(root *cobra.Command, argv0 string) {
	if name, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(argv0), ".exe"), "kubectl-"); ok {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + name}
	}
}

// versions is the output of csccm version.
type versions struct {
	SchemaVersion int `json:"schemaVersion"`
	Client        struct {
		Version string `json:"version"`
		Commit  string `json:"commit"`
		Date    string `json:"date"`
	} `json:"client"`
	Chart   chartVersion    `json:"chart"` // the one embedded in csccm
	Server  string          `json:"server,omitempty"`
	Release *releaseVersion `json:"release,omitempty"`
	Problem string          `json:"problem,omitempty"` // why the fields about the cluster are missing
}

type chartVersion struct {
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

type releaseVersion struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"revision"`
	Status    string `json:"status"`
	chartVersion
}

// versionTimeout limits the calls to the cluster, because people want a version quickly. Tests set a longer time, for
// busy machines.
var versionTimeout = 5 * time.Second

func newVersionCommand(g *cli.Globals) *cobra.Command {
	var clientOnly bool
	cmd := g.Command(&cobra.Command{
		Use:   "version",
		Short: "Print the versions of csccm, chart, controller and Kubernetes",
	}, cli.FlagRelease, func(ctx context.Context, _ []string) error {
		c, err := helm.Embedded()
		if err != nil {
			return err
		}
		v := &versions{SchemaVersion: 1, Chart: chartVersion{c.Version(), c.AppVersion()}}
		v.Client.Version, v.Client.Commit, v.Client.Date = version.Version, version.Commit, version.Date
		if !clientOnly {
			if err := v.ask(ctx, g); err != nil {
				v.Problem = err.Error()
			}
		}
		return g.Show(v, v.writeText)
	})

	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the cluster")
	return cmd
}

// ask adds the versions of what runs in the cluster.
func (v *versions) ask(ctx context.Context, g *cli.Globals) error {
	ctx, cancel := cluster.Within(ctx, g.Kube, versionTimeout)
	defer cancel()
	c, err := g.Cluster(ctx)
	if err != nil {
		return err
	}

	v.Server = c.Version
	history, err := helm.New(g.Kube, c.Namespace, g.Debugf()).History(ctx, g.Release)
	if err == nil {
		r := &history[0]
		v.Release = &releaseVersion{r.Name, r.Namespace, r.Revision, r.Status,
			chartVersion{r.ChartVersion, r.AppVersion}}
	} else if errors.Is(err, helm.ErrReleaseNotFound) {
		err = nil
	}
	return c.Explain(err)
}

// writeText writes the versions as text.
func (v *versions) writeText(w io.Writer) error {
	text := fmt.Sprintf("csccm       %s (commit %s, built %s)\nchart       %s with controller %s, carried by csccm\n",
		v.Client.Version, v.Client.Commit, v.Client.Date, v.Chart.Version, v.Chart.AppVersion)
	switch {
	case v.Problem != "":
		text += fmt.Sprintf("cluster     unknown: %s\n", v.Problem)
	case v.Server != "" && v.Release == nil:
		text += fmt.Sprintf("cluster     Kubernetes %s\ncontroller  not installed\n", v.Server)
	case v.Server != "":
		text += fmt.Sprintf("cluster     Kubernetes %s\ncontroller  %s, chart %s, release %s/%s revision %d, %s\n",
			v.Server, v.Release.AppVersion, v.Release.Version, v.Release.Namespace, v.Release.Name, v.Release.Revision,
			v.Release.Status)
	}
	_, err := io.WriteString(w, text)
	return err
}

func newCompletionCommand(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:                   "completion bash|zsh|fish|powershell|kubectl",
		Short:                 "Print the shell's completion script",
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell", "kubectl"},
		DisableFlagsInUseLine: true,
		Args:                  cli.OneArgument("shell: bash, zsh, fish, powershell or kubectl"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			switch args[0] {
			case "bash":
				err = cmd.Root().GenBashCompletionV2(g.Out, true)
			case "zsh":
				err = cmd.Root().GenZshCompletion(g.Out)
			case "fish":
				err = cmd.Root().GenFishCompletion(g.Out, true)
			case "powershell":
				err = cmd.Root().GenPowerShellCompletionWithDesc(g.Out)
			case "kubectl":
				_, err = io.WriteString(g.Out, "#!/bin/sh\nexec kubectl-csccm __complete \"$@\"\n")
			default:
				err = cli.Usagef("no completion for shell %q: bash, zsh, fish, powershell or kubectl", args[0])
			}

			return err
		},
	}
}
