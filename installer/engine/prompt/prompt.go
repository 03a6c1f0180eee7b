// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prompt asks the person at the terminal. One interface has three
// implementations: drawn prompts on a terminal, plain lines for screen readers
// and scripts, and a refusal that names the missing flag when nobody is there.
package prompt

import (
	"context"
	"errors"
	"fmt"
)

// Question is one thing to ask.
type Question struct {
	Message string // what is asked, without a colon or question mark
	Help    string // one or two sentences, shown on request
	Default string // taken for an empty answer; for Confirm "yes" or "no" (default no)
	// Flag is how to give the answer without a terminal, for example
	// "--api-url" or "--admin-password-file FILE".
	Flag string
	// Validate refuses an answer; the question is asked again with the reason.
	Validate func(string) error
}

// Choice is one answer of a Select.
type Choice struct {
	Value string // what Select returns
	Label string // what is shown; "" means Value
}

func (c Choice) label() string {
	if c.Label == "" {
		return c.Value
	}
	return c.Label
}

// Prompter asks questions one after another; it is not for concurrent use.
type Prompter interface {
	// Input asks for a line of text.
	Input(ctx context.Context, q Question) (string, error)
	// Secret asks for a line of text that is not shown.
	Secret(ctx context.Context, q Question) (string, error)
	// Select asks for one of the choices and returns its value.
	Select(ctx context.Context, q Question, choices []Choice) (string, error)
	// Confirm asks for yes or no.
	Confirm(ctx context.Context, q Question) (bool, error)
}

// ErrInterrupted is returned when the person pressed ^C.
var ErrInterrupted error = interruptedError{}

// ErrEnded is returned when the input ended before an answer.
var ErrEnded = errors.New("input ended before the answer")

type interruptedError struct{}

func (interruptedError) Error() string { return "interrupted" }
func (interruptedError) ExitCode() int { return 130 }

// MissingError is a question that nobody is there to answer.
type MissingError struct {
	What string // the question's message
	Flag string // the flag that answers it
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: not given, and there is no terminal to ask on", e.What)
}

// Remedy names the flag.
func (e *MissingError) Remedy() string {
	if e.Flag == "" {
		return "run the command on a terminal"
	}
	return "add " + e.Flag
}

// ExitCode is that of a usage error.
func (e *MissingError) ExitCode() int { return 2 }

// NewRefusing makes the Prompter for runs without a terminal: every question
// is a *MissingError.
func NewRefusing() Prompter { return refusing{} }

type refusing struct{}

func (refusing) refuse(q Question) error { return &MissingError{What: q.Message, Flag: q.Flag} }

func (r refusing) Input(_ context.Context, q Question) (string, error)  { return "", r.refuse(q) }
func (r refusing) Secret(_ context.Context, q Question) (string, error) { return "", r.refuse(q) }
func (r refusing) Select(_ context.Context, q Question, _ []Choice) (string, error) {
	return "", r.refuse(q)
}
func (r refusing) Confirm(_ context.Context, q Question) (bool, error) {
	q.Message = fmt.Sprintf("the answer to %q", q.Message+"?")
	return false, r.refuse(q)
}

func (q Question) check(answer string) error {
	if q.Validate == nil {
		return nil
	}
	return q.Validate(answer)
}
