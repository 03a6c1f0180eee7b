// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report holds what every command shows and how it ends: exit codes, colour and width
// decisions, progress lines, tables.
package report

import "fmt"

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

// ExitError is an error that decides the exit code. Err may be nil: then everything has been
// said already and nothing more is printed.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the process's exit code.
func (e *ExitError) ExitCode() int { return e.Code }

// Silent tells that everything has been said already: no message is to be printed.
func (e *ExitError) Silent() bool { return e.Err == nil }
