// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// NewLines makes a Prompter that writes each question as a line to out and
// reads the answer as a line from in: no cursor movement, no colour. Secrets
// are not echoed when in is a terminal.
func NewLines(in io.Reader, out io.Writer) Prompter {
	return &lines{in: bufio.NewReader(in), raw: in, out: out}
}

type lines struct {
	in  *bufio.Reader
	raw io.Reader
	out io.Writer
}

func (l *lines) Input(ctx context.Context, q Question) (string, error) {
	return l.ask(ctx, q, bracketed(q.Default), l.readLine, func(answer string) (string, error) {
		return answer, q.check(answer)
	})
}

func (l *lines) Secret(ctx context.Context, q Question) (string, error) {
	defer hideInput(l.raw)()
	q.Default = ""
	return l.ask(ctx, q, " (not shown)", l.readSecret, func(answer string) (string, error) {
		return answer, q.check(answer)
	})
}

func (l *lines) Select(ctx context.Context, q Question, choices []Choice) (string, error) {
	for i, c := range choices {
		if _, err := fmt.Fprintf(l.out, "  %d) %s\n", i+1, c.label()); err != nil {
			return "", err
		}
	}
	suffix := fmt.Sprintf(" [1-%d]", len(choices))
	if q.Default != "" {
		suffix = fmt.Sprintf(" [1-%d, default %s]", len(choices), q.Default)
	}
	return l.ask(ctx, q, suffix, l.readLine, func(answer string) (string, error) {
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(choices) {
			return choices[n-1].Value, nil
		}
		for _, c := range choices {
			if strings.EqualFold(answer, c.Value) || strings.EqualFold(answer, c.label()) {
				return c.Value, nil
			}
		}
		return "", fmt.Errorf("%q is none of the choices; give a number from 1 to %d", answer, len(choices))
	})
}

func (l *lines) Confirm(ctx context.Context, q Question) (bool, error) {
	if q.Default == "" {
		q.Default = "no"
	}
	answer, err := l.ask(ctx, q, " (yes or no)"+bracketed(q.Default), l.readLine, func(answer string) (string, error) {
		switch strings.ToLower(answer) {
		case "y", "yes":
			return "yes", nil
		case "n", "no":
			return "no", nil
		}
		return "", fmt.Errorf("%q is neither yes nor no", answer)
	})
	return answer == "yes", err
}

func bracketed(s string) string {
	if s == "" {
		return ""
	}
	return " [" + s + "]"
}

// ask repeats the question until parse takes the answer or the input ends.
func (l *lines) ask(ctx context.Context, q Question, suffix string,
	read func() (string, error), parse func(string) (string, error),
) (string, error) {
	for {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		if _, err := fmt.Fprintf(l.out, "%s%s: ", q.Message, suffix); err != nil {
			return "", err
		}
		answer, err := l.readWith(ctx, read)
		if err != nil {
			return "", err
		}
		if answer == "" {
			answer = q.Default
		}
		if answer == "?" && q.Help != "" {
			if _, err := fmt.Fprintf(l.out, "  %s\n", q.Help); err != nil {
				return "", err
			}
			continue
		}
		value, err := parse(answer)
		if err == nil {
			return value, nil
		}
		if _, err := fmt.Fprintf(l.out, "  %s\n", err); err != nil {
			return "", err
		}
	}
}

// readWith reads in the background so that ^C or a time-out ends the question.
// The abandoned read ends with the process: no further question is asked then.
func (l *lines) readWith(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		line string
		err  error
	}
	restore := saveTerminal(l.raw)
	got := make(chan result, 1)
	go func() {
		line, err := read()
		got <- result{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		restore()
		return "", context.Cause(ctx)
	}
}

func (l *lines) readLine() (string, error) {
	line, err := l.in.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	if errors.Is(err, io.EOF) {
		if line != "" {
			return line, nil // the last line need not end in a newline
		}
		return "", ErrEnded
	}
	return strings.TrimSpace(line), err
}

func (l *lines) readSecret() (string, error) {
	fd, ok := terminal(l.raw)
	if !ok || l.in.Buffered() > 0 {
		line, err := l.in.ReadString('\n')
		if errors.Is(err, io.EOF) && line != "" {
			err = nil
		}
		if errors.Is(err, io.EOF) {
			return "", ErrEnded
		}
		return strings.TrimRight(line, "\r\n"), err
	}
	secret, err := term.ReadPassword(fd)
	if _, werr := io.WriteString(l.out, "\n"); werr != nil && err == nil {
		err = werr
	}
	if errors.Is(err, io.EOF) {
		return "", ErrEnded
	}
	return string(secret), err
}

// terminal is v's descriptor when v is a terminal.
func terminal(v any) (int, bool) {
	f, ok := v.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	fd := int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// saveTerminal returns a function that puts the terminal back as it is now:
// an abandoned prompt may have switched off echo or line mode.
func saveTerminal(v any) (restore func()) {
	fd, ok := terminal(v)
	if !ok {
		return func() {}
	}
	state, err := term.GetState(fd)
	if err != nil {
		return func() {}
	}
	return func() { _ = term.Restore(fd, state) } // nothing better to do on the way out
}
