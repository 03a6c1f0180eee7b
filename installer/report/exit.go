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

// Error is a problem in the operator's terms: the one error type of csccm that has a way to go on and an exit code.
type Error struct {
	Err  error  // what is wrong with which object; nil = everything has been said already
	Fix  string // what to do
	Code int    // exit code; 0 means that of Err, or ExitFailure
}

// Errorf is a failure with what to do about it. The text follows fmt.Errorf.
func Errorf(fix, format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), Fix: fix}
}

// Usage is input that must be corrected before the command can do anything.
func Usage(fix, format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), Fix: fix, Code: ExitUsage}
}

// CheckFailed is what does not work, or would not.
func CheckFailed(fix, format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), Fix: fix, Code: ExitCheckFailed}
}

// Refused is a change that is not begun, because of what was found.
func Refused(fix, format string, args ...any) *Error {
	return CheckFailed(fix, "nothing was changed: "+format, args...)
}

// Declined is a question about a change that was answered with no.
func Declined(what string) *Error {
	return Usage("confirm, or run with --yes; --dry-run shows what would be done", "%s: not confirmed", what)
}

// Error implements error.
func (e *Error) Error() string {
	if e.Silent() {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
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
func (e *Error) Silent() bool { return e.Err == nil }
