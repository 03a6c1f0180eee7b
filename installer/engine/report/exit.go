// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report holds what every command shows and how it ends: exit codes, colour and width
// decisions, progress lines, tables.
package report

import (
	"errors"
	"fmt"
)

// Exit codes of csccm, the same in every output format.
const (
	ExitOK          = 0   // fine
	ExitFailure     = 1   // the command could not do its work
	ExitUsage       = 2   // wrong flags or arguments
	ExitCheckFailed = 3   // a check failed
	ExitWarnings    = 4   // warnings, and --fail-on=warning
	ExitTimeout     = 124 // --timeout passed
	ExitInterrupted = 130 // interrupted from the keyboard
)

// Error is a problem in the operator's terms: the one error type of csccm that has a text, a way to go on and an exit
// code.
type Error struct {
	What string // the object and what is wrong with it; "" = Err says it
	Fix  string // what to do
	Code int    // exit code; 0 means that of Err, or ExitFailure
	Err  error  // cause, if any; its text follows What
}

// Usage is input that must be corrected before the command can do anything.
func Usage(what, fix string) *Error { return &Error{What: what, Fix: fix, Code: ExitUsage} }

// Refused is a change that is not begun, because of what was found.
func Refused(fix, format string, args ...any) *Error {
	return &Error{What: "nothing was changed: " + fmt.Sprintf(format, args...), Fix: fix, Code: ExitCheckFailed}
}

// Declined is a question about a change that was answered with no.
func Declined(what string) *Error {
	return Usage(what+": not confirmed", "confirm, or run with --yes; --dry-run shows what would be done")
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Silent():
		return fmt.Sprintf("exit code %d", e.Code)
	case e.Err == nil:
		return e.What
	case e.What == "":
		return e.Err.Error()
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Remedy is what to do.
func (e *Error) Remedy() string { return e.Fix }

// RemedyOf returns the remedy of an error that has one; "" for others.
func RemedyOf(err error) string {
	var remedied interface{ Remedy() string }
	if errors.As(err, &remedied) {
		return remedied.Remedy()
	}
	return ""
}

// ExitCode is the process's exit code.
func (e *Error) ExitCode() int {
	var cause interface{ ExitCode() int }
	switch {
	case e.Code != 0:
		return e.Code
	case errors.As(e.Err, &cause):
		return cause.ExitCode()
	}
	return ExitFailure
}

// Remedied adds to an error what to do; nil stays nil.
func Remedied(err error, fix string) error {
	if err == nil {
		return nil
	}
	return &Error{Err: err, Fix: fix}
}

// Silent reports whether everything has been said already: then no message is printed, and Code alone counts.
func (e *Error) Silent() bool { return e.What == "" && e.Err == nil }
