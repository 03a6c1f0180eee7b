// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/AlecAivazis/survey/v2"
	"github.com/AlecAivazis/survey/v2/core"
	surveyterminal "github.com/AlecAivazis/survey/v2/terminal"
	"golang.org/x/term"

	plain "github.com/csccm/csccm/pkg/ui/terminal"
)

// NewSurvey makes the Prompter for terminals: drawn prompts with a list to move
// in and a masked secret. in and out must be terminals; color false draws
// without colours. The colour setting is one for the whole process.
func NewSurvey(in surveyterminal.FileReader, out surveyterminal.FileWriter, color bool) Prompter {
	if core.DisableColor == color { // not written without need: an abandoned prompt may still read it
		core.DisableColor = !color
	}
	return &drawn{in: &keyboard{FileReader: in}, out: out}
}

type drawn struct {
	in  surveyterminal.FileReader
	out surveyterminal.FileWriter
}

func (d *drawn) Input(ctx context.Context, q Question) (string, error) {
	var answer string
	err := d.ask(ctx, q, &survey.Input{Message: d.fit(q.Message + ":"), Default: plain.Line(q.Default), Help: plain.Plain(q.Help)}, &answer)
	if err != nil {
		return "", err
	}
	return answer, nil
}

func (d *drawn) Secret(ctx context.Context, q Question) (string, error) {
	defer hideInput(d.in)()
	var answer string
	err := d.ask(ctx, q, &survey.Password{Message: d.fit(q.Message + ":"), Help: plain.Plain(q.Help)}, &answer)
	if err != nil {
		return "", err
	}
	return answer, nil
}

func (d *drawn) Select(ctx context.Context, q Question, choices []Choice) (string, error) {
	labels := make([]string, len(choices))
	start := 0
	for i, c := range choices {
		labels[i] = plain.Line(c.label())
		if c.Value == q.Default {
			start = i
		}
	}
	index := start
	q.Validate = nil // one of the choices by construction
	err := d.ask(ctx, q, &survey.Select{
		Message: d.fit(q.Message + ":"), Options: labels, Default: start, Help: plain.Plain(q.Help), PageSize: 12,
	}, &index)
	if err != nil {
		return "", err
	}
	return choices[index].Value, nil
}

func (d *drawn) Confirm(ctx context.Context, q Question) (bool, error) {
	answer := false
	q.Validate = nil
	err := d.ask(ctx, q, &survey.Confirm{Message: d.fit(q.Message + "?"), Default: q.Default == "yes", Help: plain.Plain(q.Help)}, &answer)
	if err != nil {
		return false, err
	}
	return answer, nil
}

// answerRoom is how many columns the signs around a question and a short answer take.
const answerRoom = 32

// fit breaks a question into lines that leave room for its answer: on the last line of a terminal, survey does not erase all of an
// answer that reaches the right edge.
func (d *drawn) fit(question string) string {
	question = plain.Line(question)
	width, _, err := term.GetSize(int(d.out.Fd()))
	if err != nil {
		return question
	}
	return strings.Join(plain.Wrap(question, width-answerRoom), "\n")
}

// ask runs one prompt in the background: survey knows no context. When ctx
// ends first, the terminal is put back and the prompt abandoned; the caller
// must not read answer then.
func (d *drawn) ask(ctx context.Context, q Question, p survey.Prompt, answer any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	opts := []survey.AskOpt{survey.WithStdio(d.in, d.out, d.out)}
	if q.Validate != nil {
		opts = append(opts, survey.WithValidator(func(v any) error {
			s, _ := v.(string)
			if err := q.Validate(s); err != nil {
				return errors.New(plain.Plain(err.Error()))
			}
			return nil
		}))
	}
	restore := saveTerminal(d.in)
	got := make(chan error, 1)
	go func() { got <- survey.AskOne(p, answer, opts...) }()
	select {
	case err := <-got:
		switch {
		case errors.Is(err, surveyterminal.InterruptErr):
			return ErrInterrupted
		case errors.Is(err, io.EOF):
			return ErrEnded
		}
		return err
	case <-ctx.Done():
		restore()
		return context.Cause(ctx)
	}
}
