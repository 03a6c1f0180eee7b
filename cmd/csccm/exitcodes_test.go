// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/testenv/exitcodes"
)

// Every command of the tree is in the table, at the least with how it ends when all is fine and when its flags are wrong.
func TestEveryCommandHasItsExitCodes(t *testing.T) {
	t.Parallel()
	covered := map[string][]string{}
	for _, r := range exitcodes.Rows() {
		covered[r.Name] = append(covered[r.Name], r.Commands...)
	}
	names := []string{}
	for _, c := range everyCommand(newRootCommand(cli.Streams{Getenv: environment()})) {
		name := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "csccm"))
		names = append(names, name)
		for _, row := range []string{"fine", "wrong flags"} {
			require.Contains(t, covered[row], name, "installer/testenv/exitcodes has no row %q for csccm %s", row, name)
		}
	}
	for _, r := range exitcodes.Rows() {
		for _, c := range r.Commands {
			require.Contains(t, names, strings.TrimSuffix(c, " --undo"), "row %q names a command that there is not", r.Name)
		}
	}
}

// exitCases are the command lines of the table's cells that need no API server but a fake one.
type exitCases struct {
	dir    string
	server string // an empty cluster, apart from nodes and a Service
	none   string // nothing listens there
	lines  map[string]map[string][]string
}

func (e *exitCases) add(name, command string, args ...string) {
	if e.lines[name] == nil {
		e.lines[name] = map[string][]string{}
	}
	words := strings.Fields(command)
	e.lines[name][command] = append(words, args...)
}

// each adds a case that reads the same for several commands.
func (e *exitCases) each(name string, commands []string, args ...string) {
	for _, c := range commands {
		e.add(name, c, args...)
	}
}

func (e *exitCases) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(e.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func newExitCases(t *testing.T) *exitCases {
	t.Helper()
	a := newFakeCluster(t)
	_, good := cloudConfig(t)
	a.set("/api/v1/services", strings.Replace(strings.TrimSuffix(serviceOfApache, "]")+`,{"metadata":{"namespace":"default","name":"bare","uid":"1"},"spec":{"type":"LoadBalancer"}}]`,
		`"spec":{"type"`, `"spec":{"ports":[{"name":"http","protocol":"TCP","port":80,"nodePort":30080}],"type"`, 1))
	const allowed = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	a.set(allowed, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{},"status":{"allowed":true}}`)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1"},"status":{"nodeInfo":{"kubeletVersion":"v1.37.1","operatingSystem":"linux"}}}]`)
	a.set("/api/v1/nodes/demo-worker-1/proxy/flagz", `{"kind":"Flagz","flags":{"cloud-provider":""}}`)
	left, _, leftConfig := leftCluster(t)
	e := &exitCases{dir: t.TempDir(), server: a.url, none: "http://127.0.0.1:1", lines: map[string]map[string][]string{}}
	here, dry := []string{"--server", a.url, "--cloud-config", good}, []string{"--server", a.url, "--cloud-config", good, "--dry-run"}
	there := []string{"--server", a.url, "--image", "example.org/ccm:v1"}
	text, none := e.file(t, "text", "nothing\n"), filepath.Join(e.dir, "none")

	// Fine.
	e.add("fine", "")
	e.each("fine", []string{"template", "images"}, "--server", a.url)
	e.each("fine", []string{"migrate-rules", "adopt"}, dry...)
	e.add("fine", "test", append(slices.Clone(there), "--dry-run")...)
	e.add("fine", "install", append(dry, "--skip-check", "K8S-003,K8S-004,NODE-001", "--skip-taint")...)
	e.add("fine", "taint", append(dry, "--skip-gate", strings.Join(taint.Gates(), ","))...)
	e.add("fine", "takeover", "--server", left.url, "--cloud-config", leftConfig, "--dry-run", "--accept", "all")
	e.add("fine", "plan", append(here, "nosuch/")...)
	e.add("fine", "cks")
	upstream := testenv.Upstream("v1.37.1", "amd64").ISO(t)
	image := testenv.Image(t, "example.org/ccm:v1")
	disk := []string{filepath.Join(e.dir, "new.iso"), "--from", upstream, "--image", image, "--set", "image.repository=example.org/ccm", "--set", "image.tag=v1"}
	e.add("fine", "cks iso", disk...)
	e.add("fine", "doctor", append(here, "--only", "K8S-002")...)
	e.add("fine", "support-bundle", append(here, "--file", filepath.Join(e.dir, "bundle.tar.gz"))...)
	e.add("fine", "ui", append(here, "--export", filepath.Join(e.dir, "map.html"))...)
	e.add("fine", "version", "--server", a.url)
	e.add("fine", "completion", "bash")

	// Wrong command lines.
	e.each("wrong flags", exitcodes.Commands(), "--no-such-flag")
	arguments := map[string][]string{
		"cks iso": {"x.iso"},
	}
	maps.Copy(arguments, cksArguments)
	for _, c := range exitcodes.Commands() {
		e.add("wrong format", c, append(slices.Clone(arguments[c]), "-o", "nonsense", "--server", e.none)...)
	}

	// No server.
	everywhere := []string{
		"install", "upgrade", "rollback", "rotate-keys", "uninstall", "migrate-rules", "takeover", "adopt", "taint", "plan", "doctor",
		"status", "template", "images", "test", "ui",
	}
	e.each("no cluster", everywhere, "--server", e.none)
	withCloud := []string{"install", "migrate-rules", "takeover", "adopt", "taint", "plan", "doctor", "status"}
	config := func(name, change string) []string {
		body, err := os.ReadFile(good) // #nosec G304 -- written above
		require.NoError(t, err)
		return []string{"--server", a.url, "--cloud-config", e.file(t, name, string(body)+change)}
	}
	e.each("no CloudStack", withCloud, "--server", a.url, "--cloud-config",
		e.file(t, "unheard", "[Global]\napi-url = "+e.none+"/client/api\napi-key = a\nsecret-key = b\n"))
	body, err := os.ReadFile(good) // #nosec G304 -- as above
	require.NoError(t, err)
	apiURL := regexp.MustCompile(`api-url = (\S+)`).FindStringSubmatch(string(body))[1]
	password, wrong := e.file(t, "password", "password\n"), e.file(t, "wrong", "not the password\n")
	login := []string{"--server", a.url, "--api-url", apiURL, "--admin-user", "admin"}
	admin := append(slices.Clone(login), "--admin-password-file", password)
	e.add("login refused", "install", append(login, "--admin-password-file", wrong, "--account", "k8s")...)

	// What must be corrected first.
	e.each("no file", []string{"install", "migrate-rules", "takeover", "adopt", "taint", "plan", "ui"}, "--server", a.url, "--cloud-config", none)
	e.each("no file", []string{"upgrade", "template", "images"}, "--chart", none)
	e.add("no file", "rotate-keys", "--server", a.url, "--admin-user", "admin", "--admin-password-file", none)
	e.add("no file", "migrate-rules --undo", none)
	e.add("no file", "cks iso", filepath.Join(e.dir, "x.iso"), "--from", none, "--image", image)
	e.add("no file", "cks iso", filepath.Join(e.dir, "x.iso"), "--from", upstream, "--image", none)
	e.each("bad ca-file", withCloud, config("noca", "ca-file = "+text+"\n")...)
	e.add("bad ca-file", "install", append(slices.Clone(admin), "--account", "k8s", "--ca-file", text)...)
	e.each("unknown project", withCloud, config("noproject", "project-id = no-such-project\n")...)
	e.each("blank in a key", withCloud, "--server", a.url, "--cloud-config",
		e.file(t, "blank", "[Global]\napi-url = "+apiURL+"\napi-key = \"a b\"\nsecret-key = c\n"))
	e.add("blank in a key", "rotate-keys", "--server", a.url, "--admin-api-key-file", e.file(t, "key", "a b"), "--admin-secret-key-file", text)
	e.add("unknown zone", "install", append(admin, "--account", "k8s", "--zone", "nosuch")...)
	e.add("unknown account", "install", append(admin, "--account", "nosuch")...)
	e.add("unknown domain", "install", append(admin, "--account", "k8s", "--domain", "ROOT/nosuch")...)
	e.each("no credentials", []string{"install", "migrate-rules", "takeover", "adopt", "taint", "plan"}, "--server", a.url)
	e.each("no release", []string{"upgrade", "rollback"}, "--server", a.url, "--yes")
	e.add("no release", "test", "--server", a.url, "--yes")
	e.add("no release", "rotate-keys", "--server", a.url, "--admin-user", "admin", "--admin-password-file", password, "--yes")
	e.add("to do", "plan", append(slices.Clone(here), "--detailed-exitcode")...)

	// Checks and gates.
	e.each("failed", []string{"doctor", "status"}, "--server", a.url)
	e.add("refused", "install", append(here, "--yes")...)
	e.add("refused", "taint", append(here, "--yes")...)
	e.add("refused", "takeover", "--server", left.url, "--cloud-config", leftConfig, "--yes")
	e.add("refused", "adopt", append(config("again", ""), "--yes", "default/bare")...)
	e.cks(t)
	e.undecided(t, here, []string{"--server", left.url, "--cloud-config", leftConfig})
	e.add("warnings", "doctor", append(here, "--only", "NODE-001", "--fail-on", "warning")...)
	return e
}

// undecided adds the commands that wait for somebody's consent.
func (e *exitCases) undecided(t *testing.T, here, left []string) {
	t.Helper()
	tainted := newFakeCluster(t)
	tainted.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1","annotations":{"`+taint.MarkAnnotation+`":"2026-11-26T10:00:00Z","`+taint.BeforeAnnotation+`":"{\"labels\":{}}"}},"spec":{"taints":[`+
		`{"key":"node.cloudprovider.kubernetes.io/uninitialized","value":"true","effect":"PreferNoSchedule"}]}}]`)
	// Of another CloudStack, in which the rules have their new names.
	renamed := newFakeCluster(t)
	_, config := cloudConfig(t)
	renamed.set("/api/v1/services", serviceOfOldRules)
	journal := filepath.Join(e.dir, "renamed.jsonl")
	back := []string{"--server", renamed.url, "--cloud-config", config}
	c := execute(t, slices.Concat([]string{"migrate-rules"}, back, []string{"--yes", "--journal", journal})...)
	require.Equal(t, 0, c.code, c.errOut)
	undo, _, undoConfig := leftCluster(t)
	undo.set("/apis/apps/v1/deployments", keptOld(t, undo)(0))
	for _, name := range []string{"no terminal", "no"} {
		e.each(name, []string{"migrate-rules", "adopt"}, here...)
		e.add(name, "test", "--server", e.server, "--image", "example.org/ccm:v1")
		e.add(name, "taint", append(slices.Clone(here), "--skip-gate", strings.Join(taint.Gates(), ","))...)
		e.add(name, "takeover", append(slices.Clone(left), "--accept", "all")...)
		e.add(name, "taint --undo", "--server", tainted.url)
		e.add(name, "migrate-rules --undo", append([]string{journal}, back...)...)
		e.add(name, "takeover --undo", "--server", undo.url, "--cloud-config", undoConfig)
	}
}

// answeredNo runs a program on a terminal, on which somebody answers its question with no.
func answeredNo(t *testing.T, cmd *exec.Cmd, screen *bytes.Buffer) error {
	t.Helper()
	person, tty, err := pty.Open()
	require.NoError(t, err)
	cmd.Stdin, cmd.Stderr = tty, tty
	cmd.Args = append(cmd.Args, "--accessible")
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	answered := false
	for buffer := make([]byte, 4096); ; {
		n, err := person.Read(buffer)
		screen.Write(buffer[:n])
		if !answered && strings.Contains(screen.String(), "(yes or no)") {
			answered = true
			_, werr := person.WriteString("no\n")
			require.NoError(t, werr)
		}
		if err != nil { // the program has ended
			break
		}
	}
	require.True(t, answered, "it did not ask: %s", screen)
	require.NoError(t, person.Close())
	return cmd.Wait()
}

// TestExitCodeTable runs the program for each cell of the table that is this test's, without a terminal.
func TestExitCodeTable(t *testing.T) {
	t.Parallel()
	e := newExitCases(t)
	for _, r := range exitcodes.Rows() {
		if r.Test != exitcodes.Program {
			continue
		}
		for _, c := range r.Commands {
			t.Run(strings.TrimSpace(r.Name+": csccm "+c), func(t *testing.T) {
				t.Parallel()
				args, ok := e.lines[r.Name][c]
				require.True(t, ok, "no command line for it")
				cmd, stderr := process(t, e.dir, args...)
				var stdout strings.Builder
				cmd.Stdout = &stdout
				run := cmd.Run
				if r.Name == "no" {
					run = func() error { return answeredNo(t, cmd, stderr) }
				}
				require.Equal(t, r.Code, codeOf(t, run()), "%v\n%s%s", args, stdout.String(), stderr)
				if r.Code == report.ExitUsage && r.Name != "to do" || r.Code == report.ExitFailure {
					require.Regexp(t, `(?m)^error: .*\n  fix: `, stderr.String())
				}
				if r.Name == "no terminal" {
					require.Regexp(t, "(?m)^error: nothing has been changed: --yes, which would .+, is not given, and there is no terminal to ask on\n  fix: add --yes", stderr.String())
				}
				require.NotContains(t, stdout.String()+stderr.String(), "goroutine ")
			})
		}
	}
}
