// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/csccm/csccm/installer/report"
)

// NewLines returns a Prompter that writes each question as a line to out and reads the answer as a line from in,
// without cursor movement and colour. Secrets are not echoed if in is a terminal.
func NewLines(in io.Reader, out io.Writer) Prompter {
	return &lines{in: bufio.NewReader(in), raw: in, out: out}
}

type lines struct {
	in  *bufio.Reader
	raw io.Reader
	out io.Writer
}

// Ask repeats the question until an answer is valid or the input ends.
func (l *lines) Ask(ctx context.Context, q Question) (string, error) {
	suffix := ""
	switch {
	case q.Secret:
		defer hideInput(l.raw)()
		q.Default, suffix = "", " (not shown)"
	case q.YesNo:
		q.Default = cmp.Or(q.Default, "no")
		suffix = " (yes or no) [" + q.Default + "]"
	case len(q.Choices) > 0:
		list := ""
		for i, c := range q.Choices {
			list += fmt.Sprintf("  %d) %s\n", i+1, c.label())
		}
		q.Message, suffix = list+q.Message, fmt.Sprintf(" [1-%d]", len(q.Choices))
		if q.Default != "" {
			suffix = fmt.Sprintf(" [1-%d, default %s]", len(q.Choices), q.Default)
		}
	case q.Default != "":
		suffix = " [" + q.Default + "]"
	}

	for say := q.Message + suffix + ": "; ; {
		if _, err := io.WriteString(l.out, say); err != nil {
			return "", err
		}

		answer, err := inBackground(ctx, l.raw, func() (string, error) { return l.read(q.Secret) })
		if err != nil {
			return "", err
		}

		if answer = cmp.Or(answer, q.Default); answer == "?" && q.Help != "" {
			err = errors.New(q.Help)
		} else if answer, err = q.parse(answer); err == nil {
			return answer, nil
		}
		say = fmt.Sprintf("  %v\n%s%s: ", err, q.Message, suffix)
	}
}

// parse converts a line to an answer.
func (q *Question) parse(line string) (string, error) {
	switch {
	case q.YesNo:
		for _, answer := range []string{"yes", "no"} {
			if line != "" && strings.HasPrefix(answer, strings.ToLower(line)) {
				return answer, nil
			}
		}
		return "", fmt.Errorf("%q is neither yes nor no", line)
	case len(q.Choices) > 0:
		n, _ := strconv.Atoi(line)
		for i, c := range q.Choices {
			if n == i+1 || strings.EqualFold(line, c.Value) {
				return c.Value, nil
			}
		}
		return "", fmt.Errorf("%q is not one of the choices; give a number from 1 to %d", line, len(q.Choices))
	case q.Validate != nil:
		return line, q.Validate(line)
	}

	return line, nil
}

// read reads a line. A secret that is typed on a terminal is not echoed.
func (l *lines) read(secret bool) (line string, err error) {
	if fd, ok := report.Terminal(l.raw); secret && ok && l.in.Buffered() == 0 {
		var text []byte
		text, err = term.ReadPassword(fd)
		line = string(text)
		_, _ = io.WriteString(l.out, "\n")
	} else if line, err = l.in.ReadString('\n'); line != "" && errors.Is(err, io.EOF) {
		err = nil // the last line need not end in a newline
	}
	if errors.Is(err, io.EOF) {
		err = ErrEnded
	}
	if line = strings.TrimRight(line, "\r\n"); !secret {
		line = strings.TrimSpace(line)
	}
	return line, err
}
