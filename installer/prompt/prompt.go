// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prompt asks questions on the terminal. Its interface has three implementations: interactive prompts for
// terminals, plain lines for screen readers and scripts, and one that returns an error with the missing flag if there
// is no terminal.
package prompt

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	surveyterminal "github.com/AlecAivazis/survey/v2/terminal"
	"golang.org/x/term"

	"github.com/csccm/csccm/installer/report"
)

// Question is a question for a line of text, or one with YesNo or Choices.
type Question struct {
	Message string // the question, without a colon or question mark
	Help    string // one or two sentences, shown on request
	Default string // used for an empty answer
	// Flag is the flag that gives the answer without a terminal, for example "--api-url" or "--admin-password-file
	// FILE".
	Flag string
	// Validate returns an error for an invalid text; the question is then asked again, with the error.
	Validate func(string) error

	Secret  bool     // the text is not shown
	YesNo   bool     // the answer is "yes" or "no" (the default)
	Choices []Choice // the answer is the value of one of them
}

// Choice is one answer to a question.
type Choice struct {
	Value string // the answer
	Label string // what is shown; "" means Value
}

func (c Choice) label() string { return cmp.Or(c.Label, c.Value) }

// Prompter asks questions one after another. It is not safe for concurrent use.
type Prompter interface {
	Ask(ctx context.Context, q Question) (string, error)
}

// ErrInterrupted is returned if the user pressed ^C.
var ErrInterrupted error = &report.Error{Err: errors.New("interrupted"), Code: report.ExitInterrupted}

// ErrEnded is returned if the input ended before an answer.
var ErrEnded = errors.New("input ended before the answer")

// NewRefusing returns the Prompter for runs without a terminal: it answers every question with an error that names the
// flag.
func NewRefusing() Prompter { return refusing{} }

type refusing struct{}

func (refusing) Ask(_ context.Context, q Question) (string, error) {
	if q.YesNo {
		q.Message = fmt.Sprintf("the answer to %q", q.Message+"?")
	}
	return "", report.Usage("add "+q.Flag, "%s: not given, and there is no terminal", q.Message)
}

// inBackground runs a prompt so that ^C or a time-out ends the question. It then restores the terminal, because the
// prompt may have switched off echo or line mode, and abandons the prompt. The prompt's goroutine runs until the
// process ends, which is soon: no further question is asked.
func inBackground(ctx context.Context, in any, ask func() (string, error)) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}

	restore := func() {}
	if fd, ok := report.Terminal(in); ok {
		if state, err := term.GetState(fd); err == nil {
			restore = func() { _ = term.Restore(fd, state) } // nothing can be done about an error
		}
	}

	type result struct {
		answer string
		err    error
	}
	got := make(chan result, 1)
	go func() {
		answer, err := ask()
		got <- result{answer, err}
	}()

	select {
	case r := <-got:
		return r.answer, r.err
	case <-ctx.Done():
		restore()
		return "", context.Cause(ctx)
	}
}

// hideInput switches off the terminal's echo before a question for a secret is shown, because the user may type or
// paste the secret at once. It does nothing if v is not a terminal.
func hideInput(v any) (restore func()) {
	in, readable := v.(surveyterminal.FileReader)
	if _, ok := report.Terminal(v); ok && readable {
		r := surveyterminal.NewRuneReader(surveyterminal.Stdio{In: in})
		if r.SetTermMode() == nil {
			return func() { _ = r.RestoreTermMode() }
		}
	}
	return func() {}
}
