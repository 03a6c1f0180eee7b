// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is the width of help texts.
const helpColumns = 80

// advancedAnnotation marks flags that only --help=all shows.
const advancedAnnotation = "csccm.io/advanced"

// Advanced marks flags for special cases, which only --help=all shows. names are separated by spaces.
func Advanced(cmd *cobra.Command, names string) {
	for _, name := range strings.Fields(names) {
		if err := cmd.Flags().SetAnnotation(name, advancedAnnotation, []string{"true"}); err != nil {
			panic(err) // no flag has this name
		}
	}
}

// helpValue is the value of --help: a boolean, or "all".
type helpValue struct{ on, all bool }

func (h *helpValue) String() string { return strconv.FormatBool(h.on) }

func (*helpValue) Type() string { return "bool" } // cobra reads it as one

func (h *helpValue) Set(s string) (err error) {
	if h.all = s == "all"; h.all {
		s = "true"
	}
	h.on, err = strconv.ParseBool(s)
	return err
}

// usageTemplate is what follows the description in the help of a command.
const usageTemplate = `Usage:{{if and .Runnable .HasParent}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{$cmd := .}}{{range .Groups}}
{{.Title}}
{{$id := .ID}}{{range $cmd.Commands}}{{if and (eq .GroupID $id) .IsAvailableCommand}}  {{printf "%-*s" .NamePadding .Name}} {{.Short}}
{{end}}{{end}}{{end}}{{if .HasAvailableSubCommands}}
{{if .Groups}}Other{{else}}Commands{{end}}:
{{range .Commands}}{{if and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help"))}}  {{printf "%-*s" .NamePadding .Name}} {{.Short}}
{{end}}{{end}}{{end}}{{flags .}}{{if .HasAvailableInheritedFlags}}
Flags of every command: {{.Root.CommandPath}} --help
{{end}}`

// AddHelp gives a command tree its help: the texts, 80 columns, commands in groups, and flags for special cases with
// --help=all.
func AddHelp(root *cobra.Command, texts fs.FS) {
	addTexts(root, texts)
	h := &helpValue{}
	root.PersistentFlags().VarPF(h, "help", "h",
		"show help; --help=all shows the flags for special cases, too").NoOptDefVal = "true"
	t := template.Must(template.New("usage").Funcs(template.FuncMap{
		"flags": func(cmd *cobra.Command) string { return ownFlags(cmd, h.all) },
	}).Parse(usageTemplate))
	root.SetUsageFunc(func(cmd *cobra.Command) error { return t.Execute(cmd.OutOrStderr(), cmd) })
}

// addTexts sets the descriptions and examples of commands. Those of csccm cks list are in help/csccm-cks-list.txt. A
// description that a command already has is appended.
func addTexts(cmd *cobra.Command, texts fs.FS) {
	text, err := fs.ReadFile(texts, "help/"+strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".txt")
	if err == nil {
		long, example, _ := strings.Cut(string(text), "\nExamples:\n")
		cmd.Long, cmd.Example = strings.TrimSpace(long)+cmd.Long, strings.TrimRight(example, "\n")
	}
	for _, sub := range cmd.Commands() {
		addTexts(sub, texts)
	}
}

// ownFlags lists the flags of a command.
func ownFlags(cmd *cobra.Command, all bool) string {
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

	text := ""
	if flags.HasFlags() {
		text = "\nFlags:\n" + flags.FlagUsagesWrapped(helpColumns)
	}

	if more > 0 {
		text += fmt.Sprintf("\n%d more flags for special cases: %s --help=all\n", more, cmd.CommandPath())
	}

	return text
}
