// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

// Errors of the command line itself are reported without a network, in one line with the error and one with the remedy.
// They do not repeat parts of the command line that may be secret.
func TestWrongCommandLines(t *testing.T) {
	dir := t.TempDir()
	text, none := filepath.Join(dir, "text"), filepath.Join(dir, "none")
	require.NoError(t, os.WriteFile(text, []byte("not what-canary is wanted\nmore\n"), 0o600))
	files := strings.NewReplacer("{text}", text, "{none}", none, "{dir}", dir, `""`, "")

	cases.Run(t, "testdata/wrong-command-lines.yaml", func(t *testing.T, line, says string) {
		args := []string{"--server", "http://127.0.0.1:1"}
		for _, arg := range strings.Fields(line) {
			args = append(args, files.Replace(arg))
		}
		c := execute(t, args...)
		require.Equal(t, report.ExitUsage, c.code, c.errOut)
		require.Regexp(t, `^(error|warning): `, c.errOut)
		require.Contains(t, c.errOut, files.Replace(says))
		require.Contains(t, c.errOut, "\n  fix: ")
		for _, never := range []string{"connection refused", "canary"} {
			require.NotContains(t, c.errOut, never)
		}
		require.Empty(t, c.out)
	})
}

// Every command refuses a flag and a format that it does not have.
func TestWrongFlagsOfEveryCommand(t *testing.T) {
	t.Parallel()
	for _, c := range allCommands() {
		name := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "csccm"))
		flags := []string{"--no-such-flag"}
		if !c.HasSubCommands() && c.Flags().Lookup("output") != nil {
			flags = append(flags, "-o=nonsense")
		}

		for _, flag := range flags {
			t.Run(c.CommandPath()+" "+flag, func(t *testing.T) {
				t.Parallel()
				got := execute(t,
					slices.Concat(strings.Fields(name), cksArguments[name],
						[]string{flag, "--server", "http://127.0.0.1:1"})...)
				require.Equal(t, report.ExitUsage, got.code, got.errOut)
				require.Regexp(t, `(?m)^error: .*\n  fix: `, got.errOut)
			})
		}
	}
}

// Every command that works on a cluster or on CloudStack is in a script. For each check there is a script in which it
// fails, its remedy is applied, and it passes.
func TestScriptsHaveEveryCommandAndCheck(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../test/e2e/testdata/script/*.txtar")
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file) // #nosec G304 -- of the repository
		require.NoError(t, err)
		all.Write(text)
	}
	for _, name := range talking() {
		require.Regexp(t, `(csccm|[{,'])\s*`+name+`\b`, all.String())
	}
	for _, c := range check.All() {
		require.Regexp(t, "(?m)^fails "+c.Code+"\\b", all.String())
		require.Regexp(t, "(?m)^passes "+c.Code+"\\b", all.String())
	}
}

// Each command that changes something is in docs/exit-codes.md, runs in a script in all the ways in which it must not
// change anything, and is interrupted by TestExitCodesOfTimeouts. There are no exceptions.
func TestCommandsThatChangeSomethingAreAlike(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../test/e2e/testdata/script/*.txtar")
	require.NoError(t, err)
	ways := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file) // #nosec G304 -- of the repository
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^changing '\{(.*?)\}'`).FindAllStringSubmatch(string(text), -1) {
			for command := range strings.SplitSeq(m[1], ",") {
				cmd, _, err := rootCommand(cli.New(cli.Streams{})).Find(strings.Fields(command))
				require.NoError(t, err)
				name := strings.TrimPrefix(cmd.CommandPath(), "csccm ")
				ways[name] = cmp.Or(ways[name], strings.TrimSuffix(filepath.Base(file), ".txtar"))
			}
		}
	}

	var rows strings.Builder
	for _, name := range slices.Sorted(slices.Values(changing())) {
		require.Contains(t, talking(), name)
		require.Contains(t, ways, name, "no script has a line: changing '{%s}'", name)
		fmt.Fprintf(&rows, "| `csccm %s` | `TestScripts/%s` | `TestExitCodesOfTimeouts/130_%s` |\n", name, ways[name],
			strings.ReplaceAll(name, " ", "_"))
	}

	page, err := os.ReadFile("../../docs/exit-codes.md")
	require.NoError(t, err)
	before, table, found := strings.Cut(string(page), "| command | ways tested | ^C tested |\n|---|---|---|\n")
	require.True(t, found)
	if *update {
		head := before + "| command | ways tested | ^C tested |\n|---|---|---|\n"
		require.NoError(t, os.WriteFile("../../docs/exit-codes.md", []byte(head+rows.String()), 0o600))
		return
	}

	require.Equal(t, rows.String(), table, "go test ./cmd/csccm -run AreAlike -update writes it")
}

// Shell completion offers files only for paths, and values for flags whose values are known.
func TestCompletionOfValues(t *testing.T) {
	t.Parallel()
	const files, noFiles = ":0\n", ":4\n"
	for line, want := range map[string]string{
		"doctor --phase": "auto\npreflight\ninstalled\n" + noFiles, "install -o": "text\njson\nyaml\n" + noFiles,
		"install --zone":         noFiles,
		"install --chart":        files,
		"install --node-timeout": noFiles,
		"install --account":      noFiles,
		"status":                 noFiles, "template --set": noFiles,
		"rotate-keys --admin-password-file": files,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"__completeNoDesc", "--server", "http://127.0.0.1:1"}, strings.Fields(line)...)
			require.Equal(t, want, execute(t, append(args, "")...).out)
		})
	}
}
