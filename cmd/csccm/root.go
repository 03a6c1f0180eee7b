// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/version"
)

// newRootCommand makes the command tree. It makes no connection.
func newRootCommand(s cli.Streams) *cobra.Command { return rootCommand(cli.New(s)) }

func rootCommand(g *cli.Globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "csccm",
		Short: "Kubernetes on Apache CloudStack: install, check and migrate the cloud controller manager",
		Long: `csccm brings the cloud controller manager for Apache CloudStack into a cluster,
checks that it works, and moves running clusters onto it.

Results go to stdout, questions and progress to stderr.
Exit codes: 0 fine, 1 error, 2 usage, 3 a check failed, 4 warnings with
--fail-on=warning, 124 time-out, 130 interrupted.`,
		Version:           version.String(),
		SilenceErrors:     true, // main prints them, with the remedy
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		// Two letters swapped are two changes.
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			cluster.NameCommand(g.Kube, topCommand(cmd))
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
		if name == "kube-context" { // as Helm calls it
			name = "context"
		}
		return pflag.NormalizedName(name)
	})
	root.CompletionOptions.DisableDefaultCmd = true // ours says how to load it

	cli.CompleteFlag(root, "namespace", cli.CompleteFrom(g, cluster.NamespaceNames))
	cli.CompleteFlag(root, "context", cli.ContextNames(g))
	cli.CompleteFlag(root, "output", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return strings.Fields(cmd.Annotations[cli.OutputsAnnotation]), cobra.ShellCompDirectiveNoFileComp
	})
	cli.CompleteFlag(root, "color", cli.OneOf("auto", "always", "never"))

	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Install", []*cobra.Command{
			newInstallCommand(g), newUpgradeCommand(g), newRollbackCommand(g), newUninstallCommand(g), newTemplateCommand(g), newImagesCommand(g),
		}},
		{"Operate", []*cobra.Command{
			newStatusCommand(g), newDoctorCommand(g), newPlanCommand(g), newUICommand(g), newTestCommand(g), newRotateKeysCommand(g), newSupportBundleCommand(g),
		}},
		{"Migrate", []*cobra.Command{newTakeoverCommand(g), newMigrateRulesCommand(g), newAdoptCommand(g), newTaintCommand(g)}},
		{"CKS", []*cobra.Command{newCKSCommand(g)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersionCommand(g), newCompletionCommand(g))
	cli.AddHelp(root)
	cli.CompleteRest(g, root)
	return root
}

// topCommand is the name of the command below csccm itself that cmd is, or is a part of. A <TAB> is completion's.
func topCommand(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	if strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) {
		return "completion"
	}
	return cmd.Name()
}

// flagError is a flag that is not as it must be; for one that does not exist it names those that may be meant.
func flagError(cmd *cobra.Command, err error) error {
	wrong := cli.Usage(err)
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return wrong
	}
	// cobra knows what is near for names of commands.
	names := &cobra.Command{SuggestionsMinimumDistance: cmd.Root().SuggestionsMinimumDistance}
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
			}
		})
	}
	near := names.SuggestionsFor(missing.GetSpecifiedName())
	if len(missing.GetSpecifiedName()) < 3 || len(near) == 0 { // a letter is near to everything
		return wrong
	}
	return report.Remedied(wrong, fmt.Sprintf("did you mean --%s? %s --help shows all", strings.Join(near, " or --"), cmd.CommandPath()))
}

// pluginName is "csccm" when the program was started as kubectl-csccm.
func pluginName(argv0 string) string {
	if name, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(argv0), ".exe"), "kubectl-"); ok {
		return name
	}
	return ""
}

// asPlugin makes help and errors show the command as the user typed it.
func asPlugin(root *cobra.Command, name string) {
	if root.Annotations == nil {
		root.Annotations = map[string]string{}
	}
	root.Annotations[cobra.CommandDisplayNameAnnotation] = "kubectl " + name
}
