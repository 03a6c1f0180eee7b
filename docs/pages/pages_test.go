// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Incorrect commands and flags on a page are found in every notation.
func TestCommandsAndTheirProblems(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "csccm", Run: func(*cobra.Command, []string) {}}
	verify := &cobra.Command{Use: "verify"}
	image := &cobra.Command{Use: "image", Run: func(*cobra.Command, []string) {}}
	image.Flags().StringP("output", "o", "", "")
	root.PersistentFlags().Bool("yes", false, "")
	verify.AddCommand(image)
	root.AddCommand(verify)
	for line, want := range map[string]string{
		"KUBECONFIG=x bin/csccm verify image -ojson": "",
		"kubectl csccm verify image --yes=true":      "",
		"true && csccm verify image --no | cat":      `"csccm verify image" has no flag --no`,
		"csccm verify chart":                         `"csccm verify" has no command "chart"`,
		"go run ./cmd/csccm verify image --no":       `"csccm verify image" has no flag --no`,
		"csccm verify COMMAND":                       "",
		"csccm verify image -x  # -y":                `"csccm verify image" has no flag -x`,
		"csccm verify image -- -x":                   "",
		"csccm verify image \\\n  --bad":             `"csccm verify image" has no flag --bad`,
	} {
		commands, err := Commands([]Page{Parse("a.md", []byte("```sh\n"+line+"\n```\n"))}, "csccm")
		require.NoError(t, err)
		require.Len(t, commands, 1, line)
		problem := commands[0].Problem(root)
		require.Contains(t, problem, want, line)
		require.Equal(t, want == "", problem == "", line)
	}
}
