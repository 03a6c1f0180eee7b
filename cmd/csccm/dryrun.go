// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
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

// addDryRun adds --dry-run. Without a value it is client.
func addDryRun(cmd *cobra.Command, to *dryRun) {
	flags := cmd.Flags()
	flags.StringVar((*string)(to), "dry-run", "", dryRunUsage)
	flags.Lookup("dry-run").NoOptDefVal = string(dryRunClient)
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

// readWith is read, and refuses --yes with a dry run: one of the two is a mistake.
func (d dryRun) readWith(yes bool) (dry bool, err error) {
	if dry, _, err = d.read(); err == nil && dry && yes {
		err = usagef("--yes and --dry-run exclude each other")
	}
	return dry, err
}

// agreed asks before the first change. what says what the command would do, such as "taint 3 nodes". Where nobody can
// be asked, without a terminal or with results for programs, --yes is missing: exit code 2.
func (g *globals) agreed(ctx context.Context, format, what string, q prompt.Question) error {
	if g.yes {
		return nil
	}
	if format != "text" || !g.interactive() {
		why := "there is no terminal to ask on"
		if g.interactive() {
			why = "-o " + format + " does not ask"
		}
		return report.Usage(fmt.Sprintf("nothing has been changed: --yes, which would %s, is not given, and %s", what, why), "add --yes to do it, or --dry-run to only look")
	}
	q.Flag = "--yes"
	ok, err := g.prompter().Confirm(ctx, q)
	if err == nil && !ok {
		err = report.Declined("nothing has been changed")
	}
	return err
}
