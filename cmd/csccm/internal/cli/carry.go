// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/installer/report"
)

// carried are the flags that a printed command line repeats if its command has them: the connection, the files with
// credentials, and choices. None holds a secret.
var carried = []string{
	"namespace", "kubeconfig", "context", "server", "as", "release",
	"cloud-config", "api-url", "api-key-file", "secret-key-file", "admin-user", "admin-domain", "admin-password-file",
	"admin-api-key-file", "admin-secret-key-file", "allow-http", "project",
	"skip-taint", "skip-check", "skip-self-test",
}

// ownCredentials are the flags with credentials: given one of them, a CKS command needs no cluster.
var ownCredentials = []string{"cloud-config", "api-key-file", "admin-user", "admin-api-key-file"}

// commandLine matches a csccm command line with words that may follow it, or the start of a kubectl command line in
// backquotes.
var commandLine = regexp.MustCompile("\\bcsccm( [a-z][a-z-]*)+|`kubectl\\b")

// looking protects the flags of commands: cobra copies flags of parents into a command when its flags are looked up,
// and checks run in parallel.
var looking sync.Mutex

// Carry adds flags to the command lines in a text that a running command prints. A user who pastes such a line then
// works on the same cluster, namespace and CloudStack, and with the same choices. connected returns the flags that
// select the cluster of the running command.
func Carry(text string, running *cobra.Command, connected func() []string) string {
	lines := commandLine.FindAllStringIndex(text, -1)
	if len(lines) == 0 {
		return text // the usual case: do not read the kubeconfig
	}

	looking.Lock()
	defer looking.Unlock()
	connection := connected()
	var b strings.Builder
	end := 0
	for i, at := range lines {
		stop, args := at[1], connection
		line := text[stop:]
		if i+1 < len(lines) {
			line = text[stop:lines[i+1][0]]
		}
		line, _, _ = strings.Cut(line, "\n")

		if words := strings.Split(text[at[0]:stop], " "); words[0] == "csccm" {
			target, rest, err := running.Root().Find(words[1:])
			if err != nil || !target.Runnable() || !target.HasParent() {
				continue
			}
			stop -= len(strings.Join(append([]string{""}, rest...), " "))
			args = repeated(running, target, connection, line+" ")
		}
		b.WriteString(text[end:stop])
		end = stop
		more := " " + report.ShellLine(args...)
		if len(args) > 0 && !strings.HasPrefix(text[end:], more) && !strings.HasPrefix(text[end:], " --help") {
			b.WriteString(more)
		}
	}

	return b.String() + text[end:]
}

// repeated returns the flags of the running command that a command line of target repeats and does not have yet. line
// is the rest of that command line. The context is included even if it is the current one. CKS commands need a cluster
// only if its Secret has the credentials.
func repeated(running, target *cobra.Command, connection []string, line string) []string {
	var args []string
	ofCKS := strings.HasPrefix(running.CommandPath(), running.Root().Name()+" cks ")
	needsCluster := !ofCKS || !slices.ContainsFunc(ownCredentials, running.Flags().Changed)
	if needsCluster && !strings.Contains(line, report.ShellLine(connection...)) {
		args = append(args, connection...)
	}

	for _, name := range carried {
		f, has := running.Flags().Lookup(name), target.Flags().Lookup(name) != nil ||
			target.InheritedFlags().Lookup(name) != nil
		if f != nil &&
			f.Changed &&
			has &&
			!slices.Contains(args, "--"+name) &&
			!strings.Contains(line, " --"+name+" ") {
			args = append(args, typed(f)...)
		}
	}
	return args
}

// Typed returns a command's own flags as they were given, except those named in but.
func Typed(flags *pflag.FlagSet, but ...string) (words []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(but, f.Name) {
			words = append(words, typed(f)...)
		}
	})
	return words
}

func typed(f *pflag.Flag) (words []string) {
	list, ok := f.Value.(pflag.SliceValue)
	switch {
	case f.Value.Type() == "bool" && f.Value.String() == "false":
		words = []string{"--" + f.Name + "=false"}
	case f.Value.Type() == "bool":
		words = []string{"--" + f.Name}
	case f.Value.Type() == "stringArray":
		for _, value := range list.GetSlice() {
			words = append(words, "--"+f.Name, value)
		}
	case ok:
		words = []string{"--" + f.Name, strings.Join(list.GetSlice(), ",")}
	default:
		words = []string{"--" + f.Name, f.Value.String()}
	}
	return words
}
