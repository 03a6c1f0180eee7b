// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package prompt tests the questions of csccm on a virtual terminal. It is in this module because the packages that emulate a
// terminal are needed by tests only.
package prompt

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/Netflix/go-expect"
	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/csccm/csccm/installer/engine/prompt"
)

// screen is a virtual terminal on which go-expect answers questions.
type screen struct {
	term vt10x.Terminal
	con  *expect.Console
	tty  *os.File
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	s := openScreen(t)
	t.Cleanup(func() { _ = s.con.Close() })
	return s
}

// openScreen makes a screen that stays open to the end of the process.
func openScreen(t *testing.T) *screen {
	t.Helper()
	ptmx, tty, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}))
	term := vt10x.New(vt10x.WithWriter(tty), vt10x.WithSize(80, 24))
	con, err := expect.NewConsole(expect.WithStdin(ptmx), expect.WithStdout(term),
		expect.WithCloser(ptmx, tty), expect.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	return &screen{term: term, con: con, tty: con.Tty()}
}

// talk runs the questions on the screen while person answers them. The person
// keeps reading until the questions have ended: survey asks the terminal where
// its cursor is, and the virtual terminal answers only while somebody reads.
func (s *screen) talk(t *testing.T, person func(*expect.Console), questions func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		person(s.con)
		_, _ = s.con.ExpectEOF()
	}()
	questions()
	require.NoError(t, s.tty.Close())
	<-done
}

// whereIsCursor is what a prompt for a line asks the terminal once it has taken over the keyboard: for its size, then for
// the place.
const whereIsCursor = "\x1b[6n"

// drawn answers a drawn prompt for a line.
func (s *screen) drawn(t *testing.T, text, keys string) {
	t.Helper()
	for _, shown := range []string{text, whereIsCursor} {
		if _, err := s.con.ExpectString(shown); err != nil {
			t.Errorf("waiting for %q of %q: %v", shown, text, err)
			return
		}
	}
	if _, err := s.con.Send(keys); err != nil {
		t.Errorf("typing %q: %v", keys, err)
	}
}

// chosen answers a drawn list: it is shown before it takes over the keyboard, and until then the terminal itself would
// swallow keys such as ^C.
func (s *screen) chosen(t *testing.T, text, keys string) {
	t.Helper()
	if _, err := s.con.ExpectString(text); err != nil {
		t.Errorf("waiting for %q: %v", text, err)
		return
	}
	for begin := time.Now(); ; runtime.Gosched() {
		settings, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
		if err != nil || time.Since(begin) > time.Minute {
			t.Errorf("after %q the prompt does not take over the keyboard: %v", text, err)
			return
		}
		if settings.Lflag&unix.ICANON == 0 {
			break
		}
	}
	if _, err := s.con.Send(keys); err != nil {
		t.Errorf("typing %q: %v", keys, err)
	}
}

// expectThenSend answers a plain prompt, which hides the keys, where it must, before it asks.
func expectThenSend(t *testing.T, c *expect.Console, text, keys string) {
	t.Helper()
	if _, err := c.ExpectString(text); err != nil {
		t.Errorf("waiting for %q: %v", text, err)
		return
	}
	if _, err := c.Send(keys); err != nil {
		t.Errorf("typing %q: %v", keys, err)
	}
}

// One pass through all kinds of question on a drawn terminal. The prompts of a
// process share one colour setting, so the pty tests do not run in parallel.
func TestSurveyOnTerminal(t *testing.T) {
	s := newScreen(t)
	p := prompt.NewSurvey(s.tty, s.tty, false)
	ctx := t.Context()
	var (
		url, password, choice string
		sure                  bool
		errs                  [4]error
	)
	s.talk(t, func(*expect.Console) {
		s.drawn(t, "API URL:", "nonsense\r")
		s.drawn(t, "must start with http", "\x15http://127.0.0.1:8080\r") // ^U clears the line
		s.drawn(t, "Password:", "hunter2-canary\r")
		s.chosen(t, "Use existing keys", "\x1b[B\r") // down, enter
		s.drawn(t, "Go on?", "y\r")
	}, func() {
		url, errs[0] = p.Input(ctx, prompt.Question{Message: "API URL", Validate: func(s string) error {
			if !strings.Contains(s, "http://") {
				return errors.New("must start with http://")
			}
			return nil
		}})
		password, errs[1] = p.Secret(ctx, prompt.Question{Message: "Password"})
		choice, errs[2] = p.Select(ctx, prompt.Question{Message: "Credentials"},
			[]prompt.Choice{{Value: "admin", Label: "Log in"}, {Value: "keys", Label: "Use existing keys"}})
		sure, errs[3] = p.Confirm(ctx, prompt.Question{Message: "Go on"})
	})
	require.Equal(t, [4]error{}, errs)
	require.True(t, strings.HasSuffix(url, "http://127.0.0.1:8080"), "got %q", url)
	require.Equal(t, "hunter2-canary", password)
	require.Equal(t, "keys", choice)
	require.True(t, sure)
	shown := s.term.String()
	require.Contains(t, shown, "Go on?")
	require.NotContains(t, shown, "hunter2-canary", "the password is on the screen")
}

// Keys may come together with the terminal's answers, or before them.
func TestSurveyInterrupted(t *testing.T) {
	s := newScreen(t)
	p := prompt.NewSurvey(s.tty, s.tty, false)
	var err error
	s.talk(t, func(*expect.Console) {
		s.drawn(t, "Password:", "half\x03")
	}, func() {
		_, err = p.Secret(t.Context(), prompt.Question{Message: "Password"})
	})
	require.ErrorIs(t, err, prompt.ErrInterrupted)
	var coder interface{ ExitCode() int }
	require.ErrorAs(t, err, &coder)
	require.Equal(t, 130, coder.ExitCode())
}

// A time-out or SIGTERM ends a prompt that nobody answers.
func TestSurveyEndsWithContext(t *testing.T) {
	s := openScreen(t) // the abandoned prompt reads from it to the end
	p := prompt.NewSurvey(s.tty, s.tty, false)
	why := errors.New("asked to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		if _, err := s.con.ExpectString("API URL:"); err != nil {
			t.Errorf("waiting for the question: %v", err)
		}
		cancel(why)
	}()
	// Not talk: the abandoned prompt goes on reading, so the terminal has no end.
	_, err := p.Input(ctx, prompt.Question{Message: "API URL"})
	require.ErrorIs(t, err, why)
}

// The plain prompter on a terminal switches the echo off for secrets.
func TestLinesSecretOnTerminal(t *testing.T) {
	s := newScreen(t)
	p := prompt.NewLines(s.tty, s.tty)
	var (
		user, password string
		errs           [2]error
	)
	s.talk(t, func(c *expect.Console) {
		expectThenSend(t, c, "User: ", "admin\r")
		expectThenSend(t, c, "Password (not shown): ", "hunter2-canary\r")
	}, func() {
		user, errs[0] = p.Input(t.Context(), prompt.Question{Message: "User"})
		password, errs[1] = p.Secret(t.Context(), prompt.Question{Message: "Password"})
	})
	require.Equal(t, [2]error{}, errs)
	require.Equal(t, "admin", user)
	require.Equal(t, "hunter2-canary", password)
	require.NotContains(t, s.term.String(), "hunter2-canary", "the password is on the screen")
}
