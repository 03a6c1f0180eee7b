// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
)

// dryRun is the value of --dry-run, which means the same in every command that changes something.
type dryRun string

const (
	dryRunOff    dryRun = ""
	dryRunClient dryRun = "client"
	dryRunServer dryRun = "server"
)

// dryRunUsage is the text of the flag, and serverIsClient what the help of a command adds whose changes no API server
// can judge in advance.
const (
	dryRunUsage    = "client: read, check and show the plan, change nothing; server: let the API server judge the objects too"
	serverIsClient = `

--dry-run=server does the same as --dry-run=client here: the API server has no
objects of a chart to judge.`
)

// errDryYes: one of the two is a mistake.
var errDryYes = usagef("--yes and --dry-run exclude each other")

// addDryRun adds --dry-run, which without a value is client, and --plan.
func addDryRun(cmd *cobra.Command, to *dryRun) {
	flags := cmd.Flags()
	flags.StringVar((*string)(to), "dry-run", "", dryRunUsage)
	flags.Lookup("dry-run").NoOptDefVal = string(dryRunClient)
	flags.BoolFunc("plan", "the same as --dry-run=client", func(value string) error {
		if value == "true" && *to == dryRunOff {
			*to = dryRunClient
		}
		return nil
	})
	completeFlag(cmd, "dry-run", fixedCompletion(string(dryRunClient), string(dryRunServer)))
}

// read returns what the value asks for. true and false are from the time when the flag of some commands was a boolean.
func (d dryRun) read() (dry, server bool, err error) {
	switch d {
	case dryRunOff, "false":
		return false, false, nil
	case dryRunClient, "true":
		return true, false, nil
	case dryRunServer:
		return true, true, nil
	}
	return false, false, usagef("--dry-run=%s is not known; there are --dry-run=client and --dry-run=server, and --dry-run alone means client", string(d))
}

// agreed asks before the first change. what says what the command would do.
func (g *globals) agreed(ctx context.Context, format, what string, q prompt.Question) error {
	return (&engine.Env{Yes: g.yes, Output: format, Interactive: g.interactive(), Prompt: g.prompter()}).Agreed(ctx, what, q)
}
