// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// Keys that a person types. In a list, the first choice is selected at the beginning.
const (
	enter     = "\r"
	down      = "\x1b[B"
	clearLine = "\x15"    // ^U
	interrupt = "\x03"    // ^C
	terminate = "SIGTERM" // not a key: sends the signal
)

// answer is a question on the screen and the keys that a person types then.
type answer struct{ question, keys string }

// terminal is a real terminal with the screen that a person would see.
type terminal struct {
	end    *os.File // the person's end
	screen vt10x.Terminal
	seen   string        // the screen when it was last read
	closed chan struct{} // closed after the last output
}

// newTerminal starts a program in a terminal that is high enough for its whole output.
func newTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	const columns, rows = 132, 400
	end, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	require.NoError(t, err)
	return onScreen(t, end, columns, rows)
}

// onScreen shows what is written to the other end of a terminal.
func onScreen(t *testing.T, end *os.File, columns, rows int) *terminal {
	t.Helper()
	x := &terminal{
		end:    end,
		screen: vt10x.New(vt10x.WithSize(columns, rows), vt10x.WithWriter(end)),
		closed: make(chan struct{}),
	}

	go func() {
		defer close(x.closed)
		buffer := make([]byte, 32<<10)
		for {
			n, err := end.Read(buffer)
			_, _ = x.screen.Write(buffer[:n])
			if err != nil { // the program has ended
				return
			}
		}
	}()

	t.Cleanup(func() { _ = end.Close(); <-x.closed })
	return x
}

// text returns the program's output as it is on the screen, but joins wrapped lines.
func (x *terminal) text() string {
	const broken = 1 << 6 // of the last glyph of such a line; vt10x does not export it
	x.screen.Lock()
	defer x.screen.Unlock()
	columns, rows := x.screen.Size()
	var b, line strings.Builder
	for y := range rows {
		var last vt10x.Glyph
		for c := range columns {
			last = x.screen.Cell(c, y)
			line.WriteRune(last.Char)
		}
		if last.Mode&broken == 0 {
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
			line.Reset()
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// asks fails by package must unless a question is the last one on the screen and waits for keys. Before that, the
// terminal would echo the keys; and a prompt that was just drawn asks the terminal for the cursor position and loses
// what is typed meanwhile.
func (x *terminal) asks(question string) {
	last, screen := "", x.screen.String()
	for line := range strings.Lines(screen) {
		if strings.HasPrefix(line, "? ") {
			last = line
		}
	}
	must.Be(strings.HasPrefix(last, "? "+question), "it is not asked")
	drawn := screen == x.seen
	x.seen = screen
	must.Be(drawn, "it is being drawn")
	raw := must.Get(x.end.SyscallConn()) // not Fd, after which Close would not end a Read
	must.OK(raw.Control(func(fd uintptr) {
		settings := must.Get(unix.IoctlGetTermios(int(fd), unix.TCGETS))
		must.Be(settings.Lflag&unix.ICANON == 0, "it does not read keys yet")
	}))
}

// press types keys until the screen changes.
func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	var err error
	for range 4 {
		before := x.screen.String()
		_, err = x.end.WriteString(keys)
		require.NoError(t, err)
		err = testenv.Wait(t.Context(), time.Minute, fmt.Sprintf("the screen to change by %q", keys),
			func(context.Context) error {
				must.Be(x.screen.String() != before, "it has not")
				return nil
			})
		if err == nil {
			return
		}
	}
	t.Fatalf("%v:\n%s", err, x.text())
}

// dialog runs csccm in a terminal and answers its questions in turn. The output is the final screen.
func (e *env) dialog(t *testing.T, answers []answer, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := e.command(ctx, args...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	x := newTerminal(t, cmd)
	for _, a := range answers {
		err := testenv.Wait(t.Context(), limit, fmt.Sprintf("csccm %s to ask %q", args[0], a.question),
			func(context.Context) error {
				select {
				case <-x.closed:
				default:
					x.asks(a.question)
				}
				return nil
			})

		require.NoError(t, err, x.text())
		select {
		case <-x.closed:
			t.Fatalf("csccm %s ended before it asked %q:\n%s", args[0], a.question, x.text())
		default:
		}

		if a.keys == terminate {
			require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
			continue
		}

		text, entered := strings.CutSuffix(a.keys, enter)
		if text != "" {
			x.press(t, text)
		}

		if entered {
			x.press(t, enter)
		}
	}

	<-x.closed
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}

	return e.record(said{args, x.text(), "", cmd.ProcessState.ExitCode()})
}

// shows is like want, but the texts must appear in this order.
func (s said) shows(t *testing.T, code int, texts ...string) {
	t.Helper()
	rest := strings.Join(strings.Fields(s.want(t, code).all), " ")
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		require.True(t, ok, "the screen does not show %q (after what comes before it):\n%s", text, s.all)
		rest = after
	}
}

// TestPlainSecretOnATerminal asks for a secret without drawing, as for screen readers. Meanwhile the echo is off.
func TestPlainSecretOnATerminal(t *testing.T) {
	t.Parallel()
	person, tty, err := pty.Open()
	require.NoError(t, err)
	defer func() { _, _ = person.Close(), tty.Close() }()
	var shown output
	go func() { _, _ = io.Copy(&shown, person) }()
	for message, keys := range map[string]string{"User": "admin", "Password (not shown)": "hunter2-canary"} {
		go func() {
			_ = testenv.Wait(t.Context(), limit, message, func(context.Context) error {
				must.Be(strings.Contains(shown.String(), message+": "), "it is not asked")
				return nil
			})
			_, _ = person.WriteString(keys + enter)
		}()
		name, secret := strings.CutSuffix(message, " (not shown)")
		got, err := prompt.NewLines(tty, tty).Ask(t.Context(), prompt.Question{Message: name, Secret: secret})
		require.NoError(t, err)
		require.Equal(t, keys, got)
	}

	require.Contains(t, shown.String(), "admin")
	require.NotContains(t, shown.String(), "canary")
}

// TestQuestionsLeaveNoTrace asks questions that are about as wide as the terminal, on its last line. Afterwards each
// question is on the screen once, with its answer.
func TestQuestionsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	const columns, rows = 60, 20
	for width := columns - 14; width <= columns-3; width++ {
		for kind, keys := range map[string]string{"Go on": "y", "Choose": down, "Type": "yes"} {
			t.Run(fmt.Sprint(kind, width), func(t *testing.T) {
				t.Parallel()
				person, tty, err := pty.Open()
				require.NoError(t, err)
				require.NoError(t, pty.Setsize(tty, &pty.Winsize{Rows: rows, Cols: columns}))
				x := onScreen(t, person, columns, rows)
				_, _ = io.WriteString(tty, strings.Repeat("\n", rows)+"before\n")
				q := prompt.Question{Message: strings.Repeat(kind+" ", width)[:width], YesNo: kind == "Go on"}
				want := "before ? " + q.Message + map[bool]string{true: "? Yes", false: ": yes"}[q.YesNo]
				if kind == "Choose" {
					q.Choices = []prompt.Choice{{Value: "a"}, {Value: "yes"}}
				}

				asked := make(chan error, 1)
				go func() {
					_, err := prompt.NewSurvey(tty, tty, false).Ask(t.Context(), q)
					asked <- err
				}()

				require.NoError(t,
					testenv.Wait(t.Context(), limit, "the question",
						func(context.Context) error { x.asks(kind); return nil }))
				x.press(t, keys)
				x.press(t, enter)
				require.NoError(t, <-asked)
				_ = tty.Close()
				<-x.closed
				require.Equal(t, strings.Fields(want), strings.Fields(x.text()))
			})
		}
	}
}
