// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func newCompletionCommand(g *globals) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell", "kubectl"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell|kubectl",
		Short: "Print the shell's completion script",
		Long: `Print the script that completes csccm in a shell. With kubectl it is a program
instead, which kubectl's own completion runs as kubectl_complete-csccm.`,
		Example: `  source <(csccm completion bash)
  csccm completion zsh > "${fpath[1]}/_csccm"
  csccm completion fish | source

  # for kubectl csccm, in a folder of the PATH
  csccm completion kubectl > /usr/local/bin/kubectl_complete-csccm
  chmod +x /usr/local/bin/kubectl_complete-csccm`,
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one shell: bash, zsh, fish, powershell, or kubectl")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(g.out, true)
			case "zsh":
				return root.GenZshCompletion(g.out)
			case "fish":
				return root.GenFishCompletion(g.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(g.out)
			case "kubectl":
				_, err := io.WriteString(g.out, kubectlComplete)
				return err
			}
			return usagef("no completion for shell %q: bash, zsh, fish, powershell or kubectl", args[0])
		},
	}
}

// kubectlComplete is what kubectl's completion runs for kubectl csccm.
const kubectlComplete = `#!/bin/sh
# kubectl_complete-csccm: completion of kubectl csccm.
exec kubectl-csccm __complete "$@"
`

// completeFlag registers a completion; a flag that does not exist is a mistake
// of this program.
func completeFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// completionTimeout bounds the calls that a <TAB> makes. Tests, on a busy machine, give it more.
var completionTimeout = 3 * time.Second

// oneOf completes fixed values.
func oneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// offer completes the names that list returns. Where it fails there are none; files are never offered.
func offer(list func(context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		names, err := list(ctx)
		if err != nil {
			names = nil
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// namesOf returns a name for each item.
func namesOf[T any](items []T, name func(*T) string) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = name(&items[i])
	}
	return names
}

// completeFrom lists names out of the cluster.
func completeFrom(g *globals, list func(context.Context, kubernetes.Interface) ([]string, error)) cobra.CompletionFunc {
	return offer(func(ctx context.Context) ([]string, error) {
		rest, err := g.kube.ToRESTConfig()
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

// contextNames are the contexts of the kubeconfig; they need no connection.
func contextNames(g *globals) cobra.CompletionFunc {
	return offer(func(context.Context) ([]string, error) {
		raw, err := g.kube.ToRawKubeConfigLoader().RawConfig()
		return slices.Collect(maps.Keys(raw.Contexts)), err
	})
}

// releaseNames are the Helm releases of the controller's namespace.
func releaseNames(g *globals) cobra.CompletionFunc {
	return completeFrom(g, func(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
		return cluster.ReleaseNames(ctx, kube, *g.kube.Namespace)
	})
}

// takesFile reports whether a flag's value is a path.
func takesFile(flag string) bool {
	switch flag {
	case "cloud-config", "cmk-config", "kubeconfig", "values", "chart", "file", "journal", "undo", "snapshot", "cache-dir",
		"certificate-authority", "client-certificate", "client-key":
		return true
	}
	return strings.HasSuffix(flag, "-file") || strings.HasSuffix(flag, "-dir")
}

// completeRest gives what no completion was made for its own: releases are those of the cluster, and a shell offers
// its files only where a path is wanted.
func completeRest(g *globals, cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.NonInheritedFlags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, known := cmd.GetFlagCompletionFunc(f.Name); known {
				return
			}
			switch {
			case f.Name == "release":
				completeFlag(cmd, f.Name, releaseNames(g))
			case !takesFile(f.Name):
				completeFlag(cmd, f.Name, cobra.NoFileCompletions)
			}
		})
	}
	switch cmd.Name() {
	case "files": // of a release
	case "save", "load":
	default:
		if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	for _, sub := range cmd.Commands() {
		completeRest(g, sub)
	}
}

// completeFromCloud lists names out of CloudStack with the credentials that the command line gives so far, else those of
// the cluster's Secret. Without any there are none; nothing is asked for and stdin is not read.
func (f *installFlags) completeFromCloud(g *globals, list func(context.Context, *cloudstack.Client) ([]string, error)) cobra.CompletionFunc {
	return offer(func(ctx context.Context) ([]string, error) {
		client, end, err := f.cloudSoFar(ctx, g)
		if err != nil {
			return nil, err
		}
		defer end()
		return list(ctx, client)
	})
}

func (f *installFlags) cloudSoFar(ctx context.Context, g *globals) (client *cloudstack.Client, end func(), err error) {
	f.AdminPasswordStdin = false
	if err := f.read(g); err != nil {
		return nil, nil, err
	}
	c := &f.options.Credentials
	keys := c.Keys
	if c.AdminKeys.APIKey != "" {
		keys = c.AdminKeys
	}
	if c.APIURL == "" || keys.APIKey == "" {
		k, err := cluster.New(g.kube)
		if err != nil {
			return nil, nil, err
		}
		cs, err := cloud.OfSecret(ctx, k)
		if err != nil {
			return nil, nil, err
		}
		return cs.Client, cs.Close, nil
	}
	config := cloudconfig.Default()
	config.APIURL, config.CAFile, config.SSLNoVerify = c.APIURL, c.CAFile, c.SSLNoVerify
	config.APIKey, config.SecretKey = keys.APIKey, keys.SecretKey
	client, err = cloudstack.NewClient(&config)
	return client, func() {}, err
}
