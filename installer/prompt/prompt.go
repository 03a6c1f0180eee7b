// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prompt asks the person at the terminal. One interface has three
// implementations: drawn prompts on a terminal, plain lines for screen readers
// and scripts, and a refusal that names the missing flag when nobody is there.
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

// Question is one thing to ask: for a line of text, unless it says otherwise.
type Question struct {
	Message string // what is asked, without a colon or question mark
	Help    string // one or two sentences, shown on request
	Default string // taken for an empty answer
	// Flag is how to give the answer without a terminal, for example
	// "--api-url" or "--admin-password-file FILE".
	Flag string
	// Validate refuses a text; the question is asked again with the reason.
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

// Prompter asks questions one after another; it is not for concurrent use.
type Prompter interface {
	Ask(ctx context.Context, q Question) (string, error)
}

// ErrInterrupted is returned when the person pressed ^C.
var ErrInterrupted error = &report.Error{Err: errors.New("interrupted"), Code: report.ExitInterrupted}

// ErrEnded is returned when the input ended before an answer.
var ErrEnded = errors.New("input ended before the answer")

// NewRefusing makes the Prompter for runs without a terminal: every question
// is an error that names the flag.
func NewRefusing() Prompter { return refusing{} }

type refusing struct{}

func (refusing) Ask(_ context.Context, q Question) (string, error) {
	if q.YesNo {
		q.Message = fmt.Sprintf("the answer to %q", q.Message+"?")
	}
	return "", report.Usage("add "+q.Flag, "%s: not given, and there is no terminal to ask on", q.Message)
}

// inBackground runs a prompt so that ^C or a time-out ends the question: then the terminal is put back, and the prompt,
// which may have switched off echo or line mode, is abandoned. It ends with the process: no further question is asked
// then.
func inBackground(ctx context.Context, in any, ask func() (string, error)) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}

	restore := func() {}
	if fd, ok := report.Terminal(in); ok {
		if state, err := term.GetState(fd); err == nil {
			restore = func() { _ = term.Restore(fd, state) } // nothing better to do on the way out
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

// hideInput switches the terminal's echo off before a question for a secret is shown: who types or pastes at once would
// see the secret otherwise. What is no terminal is left alone.
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
