// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manual generates manual pages and shell completions by running the built program, so that they always match
// the program.
package manual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/csccm/csccm/release/internal/pack"
	"github.com/csccm/csccm/release/internal/source"
)

// Pages returns the manual pages man/NAME.1 and man/NAME-COMMAND.1 for all commands of the program in file.
func Pages(ctx context.Context, file, name string, tree source.Tree) ([]pack.File, error) {
	return pages(ctx, file, []string{name}, tree)
}

func pages(ctx context.Context, file string, command []string, tree source.Tree) ([]pack.File, error) {
	help, err := ask(ctx, file, append(command[1:len(command):len(command)], "--help")...)
	if err != nil {
		return nil, err
	}
	title := strings.Join(command, "-")
	all := []pack.File{{Name: "man/" + title + ".1", Mode: 0o644, Data: Page(title, help, tree)}}
	for _, sub := range commands(help) {
		more, err := pages(ctx, file, append(command[:len(command):len(command)], sub), tree)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// shells are the shells that cobra supports, with the names of their completion files; %s is the program.
var shells = []struct{ name, file string }{
	{"bash", "completions/%s.bash"},
	{"zsh", "completions/_%s"},
	{"fish", "completions/%s.fish"},
	{"powershell", "completions/%s.ps1"},
}

// Completions returns the completion scripts of the program in file.
func Completions(ctx context.Context, file, name string) ([]pack.File, error) {
	var all []pack.File
	for _, shell := range shells {
		script, err := ask(ctx, file, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(script, name) {
			return nil, fmt.Errorf("%s completion %s prints no completion", name, shell.name)
		}
		all = append(all, pack.File{Name: fmt.Sprintf(shell.file, name), Mode: 0o644, Data: []byte(script)})
	}
	return all, nil
}

func ask(ctx context.Context, file string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, file, args...)
	// The text must not depend on this machine.
	cmd.Env = []string{"HOME=/home/user", "NO_COLOR=1", "TERM=dumb", "LANG=C.UTF-8", "PATH=/usr/bin"}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("%s: %w", strings.Join(append([]string{file}, args...), " "), err)
	}
	return string(out), nil
}

var commandLine = regexp.MustCompile(`^  ([a-z][a-z0-9-]*) +\S`)

// commands returns the names in a help text's list of commands.
func commands(help string) []string {
	var names []string
	listing := false
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasSuffix(line, "Commands:"):
			listing = true
		case line == "":
			listing = false
		case listing:
			if match := commandLine.FindStringSubmatch(line); match != nil && match[1] != "help" {
				names = append(names, match[1])
			}
		}
	}
	return names
}

// Page returns a manual page of section 1 with the help text.
func Page(title, help string, tree source.Tree) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, ".TH %q 1 %q %q \"csccm\"\n", strings.ToUpper(title), tree.Time.UTC().Format("2006-01-02"), tree.Tag())
	description, rest := split(help)
	short, _, _ := strings.Cut(description, "\n")
	fmt.Fprintf(&out, ".SH NAME\n%s \\- %s\n", escape(title), escape(strings.TrimSuffix(short, ".")))
	out.WriteString(".SH DESCRIPTION\n")
	verbatim(&out, description)
	out.WriteString(".SH USAGE\n")
	verbatim(&out, rest)
	if i := strings.Index(title, "-"); i > 0 && strings.HasPrefix(title, "csccm-") {
		fmt.Fprintf(&out, ".SH SEE ALSO\n.BR %s (1)\n", title[:i])
	}
	return []byte(out.String())
}

// split splits a help text before "Usage:".
func split(help string) (description, rest string) {
	help = strings.TrimSpace(help)
	i := strings.Index(help, "Usage:")
	if i < 0 {
		return help, ""
	}
	return strings.TrimSpace(help[:i]), help[i:]
}

func verbatim(out *strings.Builder, text string) {
	out.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		out.WriteString(escape(strings.TrimRight(line, " \r\n")))
		out.WriteByte('\n')
	}
	out.WriteString(".fi\n")
}

// escape escapes a line of text for troff.
func escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
