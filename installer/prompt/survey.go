// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/AlecAivazis/survey/v2"
	"github.com/AlecAivazis/survey/v2/core"
	surveyterminal "github.com/AlecAivazis/survey/v2/terminal"
	"golang.org/x/term"

	plain "github.com/csccm/csccm/pkg/ui/terminal"
)

// NewSurvey returns the Prompter for terminals: interactive prompts with selection lists and masked secrets. in and out
// must be terminals. The colour setting applies to the whole process.
func NewSurvey(in surveyterminal.FileReader, out surveyterminal.FileWriter, color bool) Prompter {
	if core.DisableColor == color { // avoid an unnecessary write: an abandoned prompt may still read it
		core.DisableColor = !color
	}
	return &drawn{in: &keyboard{FileReader: in}, out: out}
}

type drawn struct {
	in  surveyterminal.FileReader
	out surveyterminal.FileWriter
}

func (d *drawn) Ask(ctx context.Context, q Question) (string, error) {
	message, help := d.truncate(q.Message+":"), plain.Plain(q.Help)
	var p survey.Prompt
	switch {
	case q.Secret:
		defer hideInput(d.in)()
		p = &survey.Password{Message: message, Help: help}
	case q.YesNo:
		p = &survey.Confirm{Message: d.truncate(q.Message + "?"), Default: q.Default == "yes", Help: help}
	case len(q.Choices) > 0:
		list := &survey.Select{Message: message, Help: help, PageSize: 12}
		for i, c := range q.Choices {
			list.Options = append(list.Options, plain.Line(c.label()))
			if c.Value == q.Default {
				list.Default = i
			}
		}
		p = list
	default:
		p = &survey.Input{Message: message, Default: plain.Line(q.Default), Help: help}
	}

	return inBackground(ctx, d.in, func() (string, error) {
		a := answer{question: &q}
		err := survey.AskOne(p, &a, survey.WithStdio(d.in, d.out, d.out), survey.WithValidator(a.validate))
		switch {
		case errors.Is(err, surveyterminal.InterruptErr):
			return "", ErrInterrupted
		case errors.Is(err, io.EOF):
			return "", ErrEnded
		}
		return a.text, err
	})
}

// answer receives the answer of survey's prompts.
type answer struct {
	question *Question
	text     string
}

// WriteAnswer implements core.Settable.
func (a *answer) WriteAnswer(_ string, value any) error {
	switch v := value.(type) {
	case core.OptionAnswer:
		a.text = a.question.Choices[v.Index].Value
	case bool:
		a.text = map[bool]string{true: "yes", false: "no"}[v]
	case string:
		a.text = v
	}
	return nil
}

func (a *answer) validate(value any) error {
	text, ok := value.(string)
	if !ok || a.question.Validate == nil {
		return nil
	}
	if err := a.question.Validate(text); err != nil {
		return errors.New(plain.Plain(err.Error()))
	}
	return nil
}

// answerRoom is the number of columns for survey's marks around a question and a short answer.
const answerRoom = 32

// truncate wraps a question so that each line leaves room for the answer: on the last line of a terminal, survey does
// not completely erase an answer that reaches the right edge.
func (d *drawn) truncate(question string) string {
	question = plain.Line(question)
	width, _, err := term.GetSize(int(d.out.Fd()))
	if err != nil {
		return question
	}
	return strings.Join(plain.Wrap(question, width-answerRoom), "\n")
}

// keyboard prevents survey from dropping keys. Before a prompt, survey asks the terminal for the cursor position, and
// drops what the same Read returns after the reply. At the end of a prompt, it drops what the same Read returns after
// the line. So keyboard ends each Read there and returns the rest in the next Read.
type keyboard struct {
	surveyterminal.FileReader

	mu    sync.Mutex // an abandoned prompt may still read
	ahead []byte
}

func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	if len(k.ahead) > 0 {
		n := copy(p, k.ahead[:unit(k.ahead)])
		k.ahead = k.ahead[n:]
		k.mu.Unlock()
		return n, nil
	}
	k.mu.Unlock()

	read, err := k.FileReader.Read(p)
	n := unit(p[:read])
	if n < read {
		k.mu.Lock()
		k.ahead = append(k.ahead, p[n:read]...)
		k.mu.Unlock()
	}
	return n, err
}

// unit returns the length of the first line or cursor position reply in b, or the length of b if there is neither. The
// reply ends with R; it does no harm that a Read also ends at other Rs.
func unit(b []byte) int {
	if i := bytes.IndexAny(b, "R\r\n"); i >= 0 {
		return i + 1
	}
	return len(b)
}
