// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
)

// CompleteFlag registers a completion. It panics if the flag does not exist.
func CompleteFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// CompletionTimeout limits the calls of a completion. Tests set a longer time, for busy machines.
var CompletionTimeout = 3 * time.Second

// OneOf returns a completion with fixed values.
func OneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// Offer returns a completion with the names that list returns, or with none if it fails. It never offers files.
func Offer(list func(context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
		defer cancel()
		names, err := list(ctx)
		if err != nil {
			names = nil
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFrom returns a completion with names that list reads from the cluster.
func CompleteFrom(g *Globals, list func(context.Context, kubernetes.Interface) ([]string, error)) cobra.CompletionFunc {
	return Offer(func(ctx context.Context) ([]string, error) {
		rest, err := g.Kube.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		kube, err := kubernetes.NewForConfig(rest)
		if err != nil {
			return nil, err
		}
		return list(ctx, kube)
	})
}

// ContextNames returns a completion with the contexts of the kubeconfig. It makes no connection.
func ContextNames(g *Globals) cobra.CompletionFunc {
	return Offer(func(context.Context) ([]string, error) {
		raw, err := g.Kube.ToRawKubeConfigLoader().RawConfig()
		return slices.Collect(maps.Keys(raw.Contexts)), err
	})
}

// takesFile reports whether a flag's value is a path.
func takesFile(flag string) bool {
	switch flag {
	case "cloud-config", "kubeconfig", "values", "chart", "file", "journal", "snapshot", "cache-dir",
		"certificate-authority", "client-certificate", "client-key":
		return true
	}
	return strings.HasSuffix(flag, "-file") || strings.HasSuffix(flag, "-dir")
}

// CompleteRest turns off file completion for all flags and arguments that have no completion of their own and take no
// path.
func CompleteRest(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.NonInheritedFlags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, known := cmd.GetFlagCompletionFunc(f.Name); !known && !takesFile(f.Name) {
				CompleteFlag(cmd, f.Name, cobra.NoFileCompletions)
			}
		})
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		CompleteRest(sub)
	}
}

// NoArgs is cobra.NoArgs with the exit code of usage errors. It suggests similar names for an unknown subcommand.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	problem := fmt.Sprintf("unknown command %q", args[0])
	switch {
	case cmd.HasSubCommands() && cmd.HasParent():
		problem = cmd.CommandPath() + " has no such subcommand"
	case cmd.HasParent(): // the error does not repeat the argument: it may be a secret in the wrong place
		problem = cmd.CommandPath() + " takes no arguments besides its flags"
	}

	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		problem += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("%s", problem)
}

// OneArgument requires one argument; what describes it for the error.
func OneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return Usagef("%s needs one argument, the %s", cmd.CommandPath(), what)
		}
		return nil
	}
}
