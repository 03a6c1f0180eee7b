// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
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
		Args:                  cli.OneArgument("shell: bash, zsh, fish, powershell or kubectl"),
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
