// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is the width of help texts.
const helpColumns = 80

// advancedAnnotation marks flags that only --help=all shows.
const advancedAnnotation = "csccm.io/advanced"

// Advanced marks flags of a command for special cases: its help shows them with --help=all alone.
func Advanced(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.Flags().SetAnnotation(name, advancedAnnotation, []string{"true"}); err != nil {
			panic(err) // a name that no flag has
		}
	}
}

// helpValue is the value of --help: a switch that also knows all.
type helpValue struct{ on, all bool }

func (h *helpValue) String() string { return strconv.FormatBool(h.on) }

func (*helpValue) Type() string { return "bool" } // cobra reads it as one

func (h *helpValue) Set(s string) (err error) {
	if s == "all" {
		h.on, h.all = true, true
		return nil
	}
	h.on, err = strconv.ParseBool(s)
	return err
}

// AddHelp gives a command tree its help: 80 columns, commands in groups, and flags for special cases with --help=all.
func AddHelp(root *cobra.Command) {
	h := &helpValue{}
	root.PersistentFlags().VarPF(h, "help", "h", "show help; --help=all shows the flags for special cases, too").NoOptDefVal = "true"
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usage(cmd, h.all))
		return err
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		_, _ = io.WriteString(cmd.OutOrStdout(), reflowed(text)+"\n"+usage(cmd, h.all))
	})
}

// usage is what follows the description in the help of a command.
func usage(cmd *cobra.Command, all bool) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() && cmd.HasParent() {
		b.WriteString("  " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("  " + cmd.CommandPath() + " [command]\n")
	}
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	commands(&b, cmd)
	flags, more := pflag.NewFlagSet("", pflag.ContinueOnError), 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case f.Annotations[advancedAnnotation] != nil && !all:
			more++
		default:
			flags.AddFlag(f)
		}
	})
	if flags.HasFlags() {
		b.WriteString("\nFlags:\n" + flags.FlagUsagesWrapped(helpColumns))
	}
	if more > 0 {
		fmt.Fprintf(&b, "\n%d more flags for special cases: %s --help=all\n", more, cmd.CommandPath())
	}
	var inherited []string
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			inherited = append(inherited, "--"+f.Name)
		}
	})
	if len(inherited) > 0 {
		b.WriteString("\n" + broken("Flags of every command ("+cmd.Root().CommandPath()+" --help): "+strings.Join(inherited, ", "), "  "))
	}
	return b.String()
}

// commands lists the subcommands of a command in its groups.
func commands(b *strings.Builder, cmd *cobra.Command) {
	list := func(title, group string) {
		for _, sub := range cmd.Commands() {
			if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			if title != "" {
				b.WriteString("\n" + title + "\n")
				title = ""
			}
			fmt.Fprintf(b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	other := "Commands:"
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
		other = "Other:"
	}
	list(other, "")
}

// reflowed breaks the paragraphs of a text at words. Lines that begin with a blank stay as they are.
func reflowed(text string) string {
	var b strings.Builder
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			b.WriteString(broken(strings.Join(paragraph, " "), ""))
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		b.WriteString(line + "\n")
	}
	end()
	return b.String()
}

// broken breaks a text at words; the second and further lines begin with the indent.
func broken(text, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > helpColumns:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}
