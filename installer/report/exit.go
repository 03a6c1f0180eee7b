// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report formats the output of all commands, and has their errors: exit codes, colour and width, progress
// lines, tables.
package report

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes of csccm, the same in every output format.
const (
	ExitOK          = 0   // success
	ExitFailure     = 1   // the command could not do its work
	ExitUsage       = 2   // wrong flags or arguments
	ExitCheckFailed = 3   // a check failed
	ExitWarnings    = 4   // warnings, and --fail-on=warning
	ExitTimeout     = 124 // --timeout passed
	ExitInterrupted = 130 // interrupted from the keyboard
)

// Error is an error with a remedy for the user and an exit code.
type Error struct {
	Err  error  // what is wrong with which object; nil = already reported
	Fix  string // what to do
	Code int    // exit code; 0 means that of Err, or ExitFailure
}

// Errorf returns an error with a remedy. format and args are those of fmt.Errorf.
func Errorf(fix, format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), Fix: fix}
}

// Usage returns an error for input that must be corrected before the command can do anything.
func Usage(fix, format string, args ...any) *Error {
	err := Errorf(fix, format, args...)
	err.Code = ExitUsage
	return err
}

// CheckFailed returns an error for something that does not work, or would not.
func CheckFailed(fix, format string, args ...any) *Error {
	err := Errorf(fix, format, args...)
	err.Code = ExitCheckFailed
	return err
}

// Interrupted reports whether an error means that the user, or a time limit, ended a call.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Refused returns an error for a change that was not started because of what was found.
func Refused(fix, format string, args ...any) *Error {
	return CheckFailed(fix, "nothing was changed: "+format, args...)
}

// Declined returns an error for a change that the user did not confirm.
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

// Remedy returns what to do.
func (e *Error) Remedy() string { return e.Fix }

// RemedyOf returns the remedy of an error that has one; "" for others.
func RemedyOf(err error) string {
	var remedied interface{ Remedy() string }
	if errors.As(err, &remedied) {
		return remedied.Remedy()
	}
	return ""
}

// ExitCode returns the exit code of the process.
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

// Remedied returns err with a remedy; nil if err is nil.
func Remedied(err error, fix string) error {
	if err == nil {
		return nil
	}
	return &Error{Err: err, Fix: fix}
}

// Silent reports whether the problem has already been reported: no message is printed, only Code is used.
func (e *Error) Silent() bool { return e.Err == nil }
