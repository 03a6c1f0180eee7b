// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArgs is cobra.NoArgs with a usage exit code; on the root it names the
// unknown command.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasParent() {
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return Usagef("unknown command %q, did you mean %s?", args[0], strings.Join(near, " or "))
		}
		return Usagef("unknown command %q", args[0])
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("%s has no such subcommand, did you mean %s?", cmd.CommandPath(), strings.Join(near, " or "))
	}
	// Not repeated: it may be a secret in the wrong place.
	return Usagef("%s takes no arguments beside its flags", cmd.CommandPath())
}

// OneArgument requires one argument and says what it names.
func OneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return Usagef("%s needs one argument, the %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// AlsoValid judges more than the number of arguments before the command connects; more may be nil.
func AlsoValid(args cobra.PositionalArgs, more func(args []string) error) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil || more == nil {
			return err
		}
		return more(given)
	}
}

// positive is a flag's number from 1 on; 0 means that it is not given.
type positive int

// Positives declares a flag for a number from 1 on.
func Positives(flags *pflag.FlagSet, to *int, name, usage string) {
	flags.Var((*positive)(to), name, usage)
}

func (p *positive) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.Itoa(int(*p))
}

func (p *positive) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err == nil && n < 1 {
		err = errors.New("give a number from 1 on")
	}
	*p = positive(n)
	return err
}

func (*positive) Type() string { return "int" }
