// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	"github.com/csccm/csccm/installer/engine/report"
)

// What is wrong with a command line alone is said without a network, in one line of what and one of how to go on: no API
// server has to answer first. Nothing of the command line is repeated that may be a secret.
func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, none := filepath.Join(dir, "text"), filepath.Join(dir, "none")
	require.NoError(t, os.WriteFile(text, []byte("not what-canary is wanted\nmore\n"), 0o600))
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"cks", "delete", "--cloud-config", "prod", "--yes"}, "needs one argument, the name or id of a cluster"},
		{[]string{"cks", "iso"}, "needs one argument, the file to write"},
		{[]string{"cks", "iso", "x.iso"}, "--from names the ISO"},
		{[]string{"cks", "list", "--cloud-config", none}, "--cloud-config: open " + none},
		{[]string{"completion"}, "needs one argument, the shell"},
		{[]string{"completion", "tcsh"}, `no completion for shell "tcsh"`},
		{[]string{"doctor", "--explain", "NoLeader"}, "did you mean CloudStackCCMNoLeader?"},
		{[]string{"doctor", "--explain", "PortTaken", "--only", "CS"}, "not with --only"},
		{[]string{"doctor", "--explain", ""}, "did you mean"},
		{[]string{"doctor", "--fail-on", "fatal"}, "--fail-on"},
		{[]string{"doctor", "--only", "NODE001"}, "did you mean NODE-001"},
		{[]string{"doctor", "--only", "NOPE-001"}, "NOPE-001"},
		{[]string{"doctor", "--phase", "later"}, "auto, preflight, installed"},
		{[]string{"doctor", "--probe-pod", "--probe-image", ""}, "--probe-image"},
		{[]string{"doctor", "--skip", "nodes"}, "did you mean NODE?"},
		{[]string{"doctor", "--wait", "--watch"}, "exclude each other"},
		{[]string{"doctor", "--watch", "--interval", "0"}, "--interval 0s is too short"},
		{[]string{"doctor", "-o", "xml"}, "text, short, json, yaml"},
		{[]string{"doctor", "everything"}, "no arguments"},
		{[]string{"images", "--kube-version", "v1.37.1", "--set", "flavour=vanilla"}, "chart values: additional properties 'flavour' not allowed"},
		{[]string{"instal"}, `unknown command "instal", did you mean install?`},
		{[]string{"install", "--accept", "web"}, `--accept or --pin "web" is neither NAMESPACE/NAME of a Service nor all`},
		{[]string{"install", "--admin-password", "word-canary"}, "unknown flag: --admin-password"},
		{[]string{"install", "--admin-password-file", text, "--admin-password-stdin"}, "both given"},
		{[]string{"install", "--admin-user", "a", "--admin-password-file", none}, "--admin-password-file: open"},
		{[]string{"install", "--admin-user", "a", "--admin-password-file", text}, "that is not one line of text"},
		{[]string{"install", "--admin-user", "a", "--admin-password-stdin"}, "--admin-password-stdin: the secret is empty"},
		{[]string{"install", "--admin-user", "a", "--api-key-file", text}, "both given"},
		{[]string{"install", "--bogus"}, "unknown flag: --bogus"},
		{[]string{"install", "--cloud-config", text}, "--cloud-config"},
		{[]string{"install", "--dry-run=server"}, `invalid argument "server" for "--dry-run"`},
		{[]string{"install", "--max-parallel", "0"}, "--max-parallel 0 must be 1 or more"},
		{[]string{"install", "--node-timeout", "0"}, "--node-timeout 0s must be more than 0"},
		{[]string{"install", "--set", "nothing"}, `key "nothing" has no value`},
		{[]string{"install", "--skip-check", "NOPE-1"}, "--skip-check"},
		{[]string{"install", "--version", "1.2.3"}, "--version needs --chart"},
		{[]string{"install", "word-canary"}, "csccm install takes no arguments"},
		{[]string{"migrate-rules", "--cloud-config", dir}, "is a directory\n  fix: name a file"},
		{[]string{"migrate-rules", "--cloud-config", none}, "--cloud-config: open " + none},
		{[]string{"plan", "--cloud-confg", none}, "fix: did you mean --cloud-config? csccm plan --help shows all"},
		{[]string{"plan", "--cloud-config", text}, "--cloud-config " + text},
		{[]string{"plan", "--nope"}, "unknown flag: --nope\n  fix: see csccm plan --help"},
		{[]string{"plan", "a", "b", "c"}, "a is not of the form NAMESPACE/NAME"},
		{[]string{"rights", "--help"}, `unknown command "rights"`},
		{[]string{"cks", "nothing", "--help"}, "csccm cks takes no arguments"},
		{[]string{"rollback", "0"}, "rollback takes one revision"},
		{[]string{"rollback", "latest"}, "rollback takes one revision"},
		{[]string{"rotate-keys", "--admin-api-key-file", none}, "--admin-api-key-file: open"},
		{[]string{"statsu"}, `unknown command "statsu", did you mean status?`},
		{[]string{"status", "--fail-on", "all"}, `--fail-on "all" is none of`},
		{[]string{"status", "--namespcae", "x"}, "fix: did you mean --namespace? csccm status --help shows all"},
		{[]string{"ui", "--interval", "10ms"}, "--interval 10ms is too short"},
		{[]string{"ui", "--export", text}, "--export " + text + " exists already"},
		{[]string{"support-bundle", "--file", text}, "--file " + text + " exists already"},
		{[]string{"taint", "--max-parallel", "0"}, "--max-parallel 0 must be 1 or more"},
		{[]string{"taint", "--node-timeout", "0"}, "--node-timeout 0s must be more than 0"},
		{[]string{"taint", "--skip-gate", "no-execute"}, `--skip-gate "no-execute" is none of`},
		{[]string{"takeover", "--accept", "nonsense"}, `--accept or --pin "nonsense" is neither NAMESPACE/NAME of a Service nor all`},
		{[]string{"takeover", "--pin", "shop/"}, `--accept or --pin "shop/" is neither`},
		{[]string{"takeover", "--pin", "shop/web,a/b/c"}, `--accept or --pin "a/b/c" is neither`},
		{[]string{"template", "--kube-version", "banana"}, `--kube-version "banana": want a version`},
		{[]string{"template", "--kube-version", "v1.37.1", "--set", "replicaCount=many"}, "chart values: replicaCount: got string"},
		{[]string{"template", "--kube-version", "v1.37.1", "--set", "tenancy=null"}, "chart values: tenancy: got null, want object"},
		{[]string{"template", "--kube-version", "v1.37.1", "--set", "existingSecret=null"}, "chart values: existingSecret: got null, want object"},
		{[]string{"template", "-o", "json"}, "none of yaml"},
		{[]string{"upgrade", "--chart", "ftp://host/chart"}, "no such file or directory\n  fix: name the chart's folder"},
		{[]string{"upgrade", "--chart", none}, "no such file or directory\n  fix: name the chart's folder"},
		{[]string{"upgrade", "--rollout-timeout", "-5s"}, "--rollout-timeout -5s must be more than 0"},
		{[]string{"upgrade", "-o", "xml", "--chart", "oci://127.0.0.1:1/none"}, "none of text, json, yaml"},
		{[]string{"version", "--color", "red"}, `"red" is none of auto, always, never`},
		{[]string{"version", "--timeout", "-1s"}, "--timeout -1s is negative"},
		{[]string{"version", "-o", "xml"}, `-o "xml" is none of text, json, yaml`},
	} {
		t.Run(strings.ReplaceAll(strings.Join(tc.args, " "), dir, ""), func(t *testing.T) {
			t.Parallel()
			c := execute(t, append([]string{"--server", "http://127.0.0.1:1"}, tc.args...)...)
			require.Equal(t, report.ExitUsage, c.code, c.errOut)
			require.Regexp(t, `^(error|warning): `, c.errOut)
			require.Contains(t, c.errOut, tc.says)
			require.Contains(t, c.errOut, "\n  fix: ")
			for _, never := range []string{"connection refused", "canary"} {
				require.NotContains(t, c.errOut, never)
			}
			require.Empty(t, c.out)
		})
	}
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
				got := execute(t, slices.Concat(strings.Fields(name), cksArguments[name], []string{flag, "--server", "http://127.0.0.1:1"})...)
				require.Equal(t, report.ExitUsage, got.code, got.errOut)
				require.Regexp(t, `(?m)^error: .*\n  fix: `, got.errOut)
			})
		}
	}
}

// Every command that works on a cluster or on CloudStack is in a script, and each check has one in which it fails, its remedy is
// followed, and it passes.
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

// Each command that changes something is in docs/exit-codes.md, runs in a script in all ways in which it must not
// change anything, and is interrupted by TestExitCodesOfTimeouts. There is no exception.
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
				cmd, _, err := newRootCommand(cli.Streams{}).Find(strings.Fields(command))
				require.NoError(t, err)
				ways[strings.TrimPrefix(cmd.CommandPath(), "csccm ")] = strings.TrimSuffix(filepath.Base(file), ".txtar")
			}
		}
	}
	var rows strings.Builder
	for _, name := range slices.Sorted(slices.Values(changing())) {
		require.Contains(t, talking(), name)
		require.Contains(t, ways, name, "no script has a line: changing '{%s}'", name)
		fmt.Fprintf(&rows, "| `csccm %s` | `TestScripts/%s` | `TestExitCodesOfTimeouts/130_%s` |\n", name, ways[name], strings.ReplaceAll(name, " ", "_"))
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

// A shell offers files only where a path is wanted, and values where they are known.
func TestCompletionOfValues(t *testing.T) {
	t.Parallel()
	const files, noFiles = ":0\n", ":4\n"
	for line, want := range map[string]string{
		"doctor --phase": "auto\npreflight\ninstalled\n" + noFiles, "install -o": "text\njson\nyaml\n" + noFiles,
		"install --zone": noFiles, "install --chart": files, "install --node-timeout": noFiles, "install --account": noFiles,
		"status": noFiles, "template --set": noFiles,
		"rotate-keys --admin-password-file": files,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"__completeNoDesc", "--server", "http://127.0.0.1:1"}, strings.Fields(line)...)
			require.Equal(t, want, execute(t, append(args, "")...).out)
		})
	}
}
