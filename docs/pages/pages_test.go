// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestSlugIsGitHubs(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"Install":                          "install",
		"What it cannot know":              "what-it-cannot-know",
		"doctor, status, support-bundle":   "doctor-status-support-bundle",
		"NODE-001":                         "node-001",
		"cloudstack-sim: CloudStack in it": "cloudstack-sim-cloudstack-in-it",
		"431 / 432":                        "431--432",
		"Grün":                             "grün",
	} {
		require.Equal(t, want, Slug(heading))
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	p := Parse("a.md", []byte("# One `two`\n\n# One two\n\n<a id=\"mine\"></a>\n\nSee [b](b.md#x) and `csccm doctor`.\n\n```sh\ncsccm plan\n```\n\n    csccm status\n"))
	require.Equal(t, map[string]bool{"one-two": true, "one-two-1": true, "mine": true}, p.Anchors)
	require.Equal(t, []string{"b.md#x"}, p.Links)
	require.Equal(t, []Code{
		{Inline: true, Text: "two"}, {Inline: true, Text: "csccm doctor"}, {Language: "sh", Text: "csccm plan\n"}, {Text: "csccm status\n"},
	}, p.Code)
}

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
		"csccm verify image X --yes -o json":         "",
		"KUBECONFIG=x bin/csccm verify image -ojson": "",
		"kubectl csccm verify image --yes=true":      "",
		"true && csccm verify image --no | cat":      "a.md: `csccm verify image --no`: \"csccm verify image\" has no flag --no",
		"csccm verify chart":                         "a.md: `csccm verify chart`: \"csccm verify\" has no command \"chart\"",
		"go run ./cmd/csccm verify image --no":       "a.md: `go run ./cmd/csccm verify image --no`: \"csccm verify image\" has no flag --no",
		"csccm verify COMMAND":                       "",
		"csccm verify image -x  # -y":                "a.md: `csccm verify image -x`: \"csccm verify image\" has no flag -x",
		"csccm verify image -- -x":                   "",
		"csccm verify image \\\n  --bad":             "a.md: `csccm verify image    --bad`: \"csccm verify image\" has no flag --bad",
	} {
		commands, err := Commands([]Page{Parse("a.md", []byte("```sh\n"+line+"\n```\n"))}, "csccm")
		require.NoError(t, err)
		require.Len(t, commands, 1, line)
		require.Equal(t, want, commands[0].Problem(root), line)
	}
	none, err := Commands([]Page{Parse("a.md", []byte("```yaml\ncsccm bad\n```\n\n`csccm-cloudstack` and `helm csccm`\n"))}, "csccm")
	require.NoError(t, err)
	require.Empty(t, none)
}
