// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func newCompletionCommand(g *cli.Globals) *cobra.Command {
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
				return cli.Usagef("name one shell: bash, zsh, fish, powershell, or kubectl")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(g.Out, true)
			case "zsh":
				return root.GenZshCompletion(g.Out)
			case "fish":
				return root.GenFishCompletion(g.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(g.Out)
			case "kubectl":
				_, err := io.WriteString(g.Out, kubectlComplete)
				return err
			}
			return cli.Usagef("no completion for shell %q: bash, zsh, fish, powershell or kubectl", args[0])
		},
	}
}

// kubectlComplete is what kubectl's completion runs for kubectl csccm.
const kubectlComplete = `#!/bin/sh
# kubectl_complete-csccm: completion of kubectl csccm.
exec kubectl-csccm __complete "$@"
`

// completeFromCloud lists names out of CloudStack with the credentials that the command line gives so far, else those of
// the cluster's Secret. Without any there are none; nothing is asked for and stdin is not read.
func (f *installFlags) completeFromCloud(g *cli.Globals, list func(context.Context, *cloudapi.Client) ([]string, error)) cobra.CompletionFunc {
	return cli.Offer(func(ctx context.Context) ([]string, error) {
		client, end, err := f.cloudSoFar(ctx, g)
		if err != nil {
			return nil, err
		}
		defer end()
		return list(ctx, client)
	})
}

func (f *installFlags) cloudSoFar(ctx context.Context, g *cli.Globals) (client *cloudapi.Client, end func(), err error) {
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
		k, err := cluster.New(g.Kube)
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
	client, err = cloudapi.NewClient(&config)
	return client, func() {}, err
}
