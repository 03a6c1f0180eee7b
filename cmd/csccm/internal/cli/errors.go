// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
)

// Causes that end a context. net/http returns the cause instead of the context's own error, and packages below cmd
// check for the context's own error; see ended.Is.
const (
	ErrInterrupted = ended("interrupted")
	ErrTimeout     = ended("timed out")
)

type ended string

func (e ended) Error() string { return string(e) }

// Is reports whether target is the context's own error for this cause.
func (e ended) Is(target error) bool {
	return e == ErrInterrupted && target == context.Canceled || e == ErrTimeout && target == context.DeadlineExceeded
}

// Usagef returns the error of a command line that must be corrected.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Usage marks err as a command line that must be corrected.
func Usage(err error) error { return &report.Error{Err: err, Code: report.ExitUsage} }

// ExitCode returns the process's exit code for err. Errors with an ExitCode method, such as report.Error, choose their
// own; all others are plain failures.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return report.ExitOK
	case errors.Is(err, ErrInterrupted):
		return report.ExitInterrupted
	case errors.Is(err, ErrTimeout):
		return report.ExitTimeout
	}
	var coder interface{ ExitCode() int }
	if errors.As(err, &coder) {
		return coder.ExitCode()
	}
	if credentials.BadInput(err) {
		return report.ExitUsage
	}
	return report.ExitFailure
}

// Classify replaces the bare "context canceled" that libraries return by what ended the context: ^C or --timeout.
// Errors that say more keep their text.
func Classify(ctx context.Context, err error) error {
	if errors.Is(err, ErrInterrupted) || errors.Is(err, ErrTimeout) {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrInterrupted) {
		return fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	return err
}

// PrintError writes an error and, if known, its remedy.
func (g *Globals) PrintError(cmd *cobra.Command, err error) {
	g.command = cmd
	text := strings.TrimSpace(err.Error())
	var silent interface{ Silent() bool }
	if text == "" || errors.As(err, &silent) && silent.Silent() {
		return // a report on stdout already shows it
	}
	// The text may contain several errors or output of other programs. Indent it, so that none of its lines looks like
	// one of csccm.
	_, _ = fmt.Fprintf(g.ErrOut, "error: %s\n", strings.ReplaceAll(text, "\n", "\n       "))
	if fix := RemedyOf(cmd, err); fix != "" {
		_, _ = fmt.Fprintf(g.ErrOut, "  fix: %s\n", g.commands(fix))
	}
}

// commands adds the flags of the running command to each command line in a text, see Carry.
func (g *Globals) commands(text string) string {
	if g.command == nil {
		return text
	}
	return Carry(text, g.command, g.Connection)
}

// RemedyOf returns the remedy for an error, or "" if none is known.
func RemedyOf(cmd *cobra.Command, err error) string {
	if fix := report.RemedyOf(err); fix != "" {
		return fix
	}
	if fix := credentials.Remedy(err); fix != "" || cmd == nil || ExitCode(err) != report.ExitUsage {
		return fix
	}
	return fmt.Sprintf("see %s --help", cmd.CommandPath())
}
