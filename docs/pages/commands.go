// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	shellquote "github.com/kballard/go-shellquote"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command is one command line of a page, without shell operators.
type Command struct {
	Page string
	Text string
	Args []string // Args[0] is the program's name
}

// shells are the languages of code blocks with commands. A block without a language may contain commands, too.
var shells = []string{"", "sh", "bash", "console", "shell"}

// Commands returns the command lines that run a program with one of the names, in code blocks and in the text.
func Commands(all []Page, names ...string) ([]Command, error) {
	var out []Command
	for _, p := range all {
		for _, c := range p.Code {
			if !c.Inline && !slices.Contains(shells, c.Language) {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(c.Text, "\\\n", " ")) {
				for _, piece := range pieces(line) {
					if !startsWith(piece, names) {
						continue
					}
					args, err := shellquote.Split(piece)
					if err != nil {
						return nil, fmt.Errorf("%s: %q: %w", p.Path, piece, err)
					}
					out = append(out, Command{p.Path, piece, program(args)})
				}
			}
		}
	}

	return out, nil
}

// These expressions match shell operators between two commands of a line, comments, and the prompt.
var (
	between = regexp.MustCompile(`\s(?:\|\|?|&&?|;)(?:\s|$)|;\s|\$\(`)
	comment = regexp.MustCompile(`\s#\s.*$|^#.*$`)
	prompt  = regexp.MustCompile(`^\s*(?:[$#>]\s+)?`)
)

func pieces(line string) []string {
	line = comment.ReplaceAllString(strings.TrimRight(line, "\n"), "")
	line = prompt.ReplaceAllString(line, "")
	var out []string
	for _, piece := range between.Split(line, -1) {
		out = append(out, strings.TrimSpace(piece))
	}
	return out
}

// assignment matches a variable assignment before a command.
var assignment = regexp.MustCompile(`^[A-Z_]+=\S*$`)

// startsWith reports whether a piece runs one of the programs. It splits at white space only, without shell quoting,
// because a piece that runs another program need not be valid shell syntax.
func startsWith(piece string, names []string) bool {
	words := program(strings.Fields(piece))
	return len(words) > 0 && slices.Contains(names, words[0])
}

// program removes the words before the program (assignments, sudo, kubectl before a plugin, go run) and the program's
// directory: `go run ./release` runs the program release.
func program(words []string) []string {
	for len(words) > 0 && (assignment.MatchString(words[0]) || words[0] == "sudo") {
		words = words[1:]
	}
	if len(words) > 1 && words[0] == "kubectl" && words[1] == "csccm" {
		words = words[1:]
	}
	if len(words) > 2 && words[0] == "go" && words[1] == "run" {
		words = words[2:]
	}
	if len(words) == 0 {
		return nil
	}
	return append([]string{path.Base(words[0])}, words[1:]...)
}

// Problem describes the first subcommand or flag of the command line that root does not have; "" if there is none.
func (c Command) Problem(root *cobra.Command) string {
	cmd, rest := root, c.Args[1:]
	for len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		sub := subcommand(cmd, rest[0])
		if sub == nil {
			break
		}
		cmd, rest = sub, rest[1:]
	}

	if len(rest) > 0 && cmd.HasAvailableSubCommands() && !strings.HasPrefix(rest[0], "-") && !notation(rest[0]) {
		return fmt.Sprintf("%s: %q has no command %q", c.where(), cmd.CommandPath(), rest[0])
	}

	for _, arg := range rest {
		if arg == "--" {
			break
		}
		if flag := flagOf(arg); flag != "" && !hasFlag(cmd, flag) {
			return fmt.Sprintf("%s: %q has no flag %s", c.where(), cmd.CommandPath(), flag)
		}
	}

	return ""
}

func (c Command) where() string { return c.Page + ": `" + c.Text + "`" }

// notation reports whether a word is an ellipsis or an upper-case placeholder, not a literal argument.
func notation(word string) bool {
	return word == "..." || word == "…" || strings.ToUpper(word) == word
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// flagOf returns the flag that an argument sets: --name or -n; "" for any other word.
func flagOf(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	name = strings.TrimRight(name, ",.:;)")
	switch {
	case strings.HasPrefix(name, "--") && len(name) > 2:
		return name
	case len(name) > 1 && name[0] == '-' && name[1] != '-':
		return name[:2]
	}
	return ""
}

func hasFlag(cmd *cobra.Command, flag string) bool {
	if flag == "--help" || flag == "-h" || flag == "--version" {
		return true
	}
	lookup := func(set *pflag.FlagSet) bool {
		if name, long := strings.CutPrefix(flag, "--"); long {
			return set.Lookup(name) != nil
		}
		return set.ShorthandLookup(flag[1:]) != nil
	}
	return lookup(cmd.Flags()) || lookup(cmd.PersistentFlags()) || lookup(cmd.InheritedFlags())
}
