// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

// What is wrong with a command line alone is said without a network: no API server has to answer first.
func TestJudgedWithoutTheNetwork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("not what is wanted\n"), 0o600))
	none := filepath.Join(dir, "none")
	kubeconfig := apiServer(t)
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"upgrade, no chart":            {[]string{"upgrade", "--chart", none}, "chart " + none + ": no such file or directory\n  fix: name the chart's folder"},
		"upgrade, no such scheme":      {[]string{"upgrade", "--chart", "ftp://host/chart"}, "scheme ftp is none of http, https, oci"},
		"upgrade, format before chart": {[]string{"upgrade", "-o", "xml", "--chart", "oci://127.0.0.1:1/none"}, "none of text, json, yaml"},
		"upgrade, dry run":             {[]string{"upgrade", "--dry-run=maybe", "--chart", "oci://127.0.0.1:1/none"}, "--dry-run=maybe is not known"},
		"install, no chart":            {[]string{"install", "--chart", none}, "chart " + none + ": no such file or directory"},
		"template, no chart":           {[]string{"template", "--chart", none}, "chart " + none + ": no such file or directory"},
		"install, --accept":            {[]string{"install", "--accept", "web"}, `--accept "web" is neither NAMESPACE/NAME of a Service nor all`},
		"takeover, --accept":           {[]string{"takeover", "--accept", "nonsense"}, `--accept "nonsense" is neither NAMESPACE/NAME of a Service nor all`},
		"takeover, --pin":              {[]string{"takeover", "--pin", "shop/web,a/b/c"}, `--pin "a/b/c" is neither`},
		"takeover, a namespace":        {[]string{"takeover", "--pin", "shop/"}, `--pin "shop/" is neither`},
		"takeover, no cloud-config":    {[]string{"takeover", "--cloud-config", none}, "--cloud-config: open " + none},
		"plan, words":                  {[]string{"plan", "a", "b", "c"}, "a is not of the form NAMESPACE/NAME"},
		"plan, cloud-config":           {[]string{"plan", "--cloud-config", text}, "--cloud-config " + text},
		"cks, cloud-config":            {[]string{"cks", "--cloud-config", none}, "--cloud-config: open " + none},
		"taint, cloud-config":          {[]string{"taint", "--cloud-config", none}, "--cloud-config: open " + none},
		"taint, no snapshot":           {[]string{"taint", "--undo", "--snapshot", none}, "--snapshot: open " + none},
		"taint, no snapshot's text":    {[]string{"taint", "--undo", "--snapshot", text}, text + " is no snapshot of nodes"},
		"migrate-rules, no journal":    {[]string{"migrate-rules", "--undo", none}, "--undo: open " + none},
		"migrate-rules, another file":  {[]string{"migrate-rules", "--undo", text}, "not a journal"},
		"migrate-rules, journal":       {[]string{"migrate-rules", "--journal", text}, "--journal " + text + " exists already"},
		"migrate-rules, cloud-config":  {[]string{"migrate-rules", "--cloud-config", none}, "--cloud-config: open " + none},
		"template, version":            {[]string{"template", "--kube-version", "banana"}, `--kube-version "banana": want a version`},
		"upgrade, wait":                {[]string{"upgrade", "--rollout-timeout", "-5s"}, "--rollout-timeout -5s must be more than 0"},
		"install, wait":                {[]string{"install", "--node-timeout", "0"}, "--node-timeout 0s must be more than 0"},
		"taint, wait":                  {[]string{"taint", "--node-timeout", "0"}, "--node-timeout 0s must be more than 0"},
		"verify, evidence":             {[]string{"verify", "image", "--require", "luck", "x"}, `--require "luck" is none of signature, provenance, sbom`},
		"a flag that is near":          {[]string{"plan", "--cloud-confg", none}, "fix: did you mean --cloud-config? csccm plan --help shows all"},
		"a flag of all commands":       {[]string{"status", "--namespcae", "x"}, "fix: did you mean --namespace? csccm status --help shows all"},
		"a context that is not there":  {[]string{"status", "--kubeconfig", kubeconfig, "--context", "prod"}, `context "prod" does not exist` + "\n  fix: name one with --context: test"},
		"uninstall, finalizers":        {[]string{"uninstall", "--remove-finalizers"}, "--remove-finalizers is for"},
		"support-bundle, file":         {[]string{"support-bundle", "--file", text}, "--file " + text + " exists already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := execute(t, append([]string{"--server", "http://127.0.0.1:1"}, tc.args...)...)
			want := report.ExitUsage
			if tc.args[0] == "plan" || strings.Contains(name, "context") {
				want = report.ExitFailure // 2 is something to do; a kubeconfig is no flag
			}
			require.Equal(t, want, c.code, c.errOut)
			require.Contains(t, c.errOut, tc.says)
			require.Contains(t, c.errOut, "\n  fix: ")
			require.NotContains(t, c.errOut, "connection refused")
			require.Empty(t, c.out)
		})
	}
}

// Each command that has formats says so to the shell, the same ones as it names when a format is none of them; a command
// without results has none.
func TestFormatsOfEveryCommand(t *testing.T) {
	t.Parallel()
	arguments := map[string][]string{ // what a command wants before it looks at -o
		"rollback":     nil,
		"verify image": {"example.org/image:v1"}, "verify files": {"SHA256SUMS"},
		"images save": {"x.tar"}, "images load": {"x.tar", "127.0.0.1:1/x"},
	}
	for _, cmd := range everyCommand(newRootCommand(streams{getenv: environment()})) {
		path := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "csccm"), " ")
		if path == "" || path == "chart" || path == "verify" || path == "completion" {
			continue // they show their help, or a script
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			formats := strings.Fields(cmd.Annotations[outputsAnnotation])
			require.NotEmpty(t, formats)
			c := execute(t, append(append(strings.Fields(path), arguments[path]...), "--server", "http://127.0.0.1:1", "-o", "nonsense")...)
			require.Contains(t, c.errOut, `-o "nonsense" is none of `+strings.Join(formats, ", ")+"\n")
			require.Empty(t, c.out)
			c = execute(t, append(strings.Fields("__complete "+path), "-o", "")...)
			for _, format := range formats {
				require.Contains(t, c.out, format+"\n")
			}
		})
	}
}

// A shell offers files only where a path is wanted, and what the cluster and CloudStack know where they know it.
func TestCompletionOfValues(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	_, file, _ := cloudConfig(t)
	a.set("/api/v1/namespaces/kube-system/secrets", `[{"metadata":{"name":"x.v2","labels":{"owner":"helm","name":"mine"}}},{"metadata":{"name":"x.v1","labels":{"owner":"helm","name":"mine"}}}]`)
	const files, noFiles = ":0\n", ":4\n"
	for line, want := range map[string]string{
		"install --zone": "zone-1\n" + noFiles, "status --release": "mine\n" + noFiles, "upgrade --release": "mine\n" + noFiles,
		"verify image --require": "signature\nprovenance\nsbom\n" + noFiles, "install --chart": files, "install --node-timeout": noFiles,
		"install --account": noFiles, "migrate-rules --lb": noFiles, "migrate-rules --undo": files, "status": noFiles, "verify files": files,
		"chart save": files, "template --set": noFiles, "rotate-keys --admin-password-file": files, "upgrade --backup-dir": files,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"__completeNoDesc", "--server", a.url}, strings.Fields(line)...)
			if strings.HasPrefix(line, "install --zone") {
				args = append([]string{"__completeNoDesc", "--server", a.url, "install", "--cloud-config", file}, "--zone")
			}
			require.Equal(t, want, execute(t, append(args, "")...).out)
		})
	}
}

// A deadline that a call would meet too late is a time-out, whoever gives up.
func TestTimeoutBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	g := newGlobals(streams{getenv: environment()})
	g.timeout = 500 * time.Millisecond
	limited := errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	err := g.runE(func(context.Context, []string) error { return limited })(cmd, nil)
	require.Equal(t, report.ExitTimeout, exitCode(err))
	require.ErrorContains(t, err, "timed out after 500ms (--timeout)")
	g.timeout = time.Hour // a limit of a part of the command is not --timeout's
	err = g.runE(func(context.Context, []string) error { return limited })(cmd, nil)
	require.Equal(t, report.ExitFailure, exitCode(err))
}
