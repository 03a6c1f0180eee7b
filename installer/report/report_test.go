// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(k string) string { return m[k] }
}

func TestDecide(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		mode  string
		tty   bool
		width int
		env   func(string) string
		want  Style
	}{
		{"terminal", ColorAuto, true, 100, env("LANG", "en_US.UTF-8"),
			Style{Color: true, Unicode: true, TTY: true, Width: 100}},
		{"pipe", ColorAuto, false, 0, env("LANG", "en_US.UTF-8"), Style{Unicode: true}},
		{"NO_COLOR", ColorAuto, true, 80, env("NO_COLOR", "1"), Style{Unicode: true, TTY: true, Width: 80}},
		{"empty NO_COLOR counts as unset", ColorAuto, true, 80, env("NO_COLOR", ""),
			Style{Color: true, Unicode: true, TTY: true, Width: 80}},
		{"NO_COLOR beats CLICOLOR_FORCE", ColorAuto, false, 0, env("NO_COLOR", "1", "CLICOLOR_FORCE", "1"),
			Style{Unicode: true}},
		{"CLICOLOR_FORCE in a pipe", ColorAuto, false, 0, env("CLICOLOR_FORCE", "1"),
			Style{Color: true, Unicode: true}},
		{"CLICOLOR_FORCE=0 is off", ColorAuto, false, 0, env("CLICOLOR_FORCE", "0"), Style{Unicode: true}},
		{"TERM=dumb neither colours nor redraws", ColorAuto, true, 80, env("TERM", "dumb"), Style{Width: 80}},
		{"always beats NO_COLOR", ColorAlways, false, 0, env("NO_COLOR", "1"), Style{Color: true, Unicode: true}},
		{"never on a terminal", ColorNever, true, 80, env(), Style{Unicode: true, TTY: true, Width: 80}},
		{"COLUMNS beats the terminal", ColorNever, true, 80, env("COLUMNS", "40"),
			Style{Unicode: true, TTY: true, Width: 40}},
		{"bad COLUMNS is ignored", ColorNever, true, 80, env("COLUMNS", "wide"),
			Style{Unicode: true, TTY: true, Width: 80}},
		{"C locale is ASCII", ColorNever, true, 80, env("LC_ALL", "C", "LANG", "en_US.UTF-8"),
			Style{TTY: true, Width: 80}},
		{"Linux console is ASCII", ColorNever, true, 80, env("TERM", "linux", "LANG", "en_US.UTF-8"),
			Style{TTY: true, Width: 80}},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, decide(tt.mode, tt.tty, tt.width, tt.env))
		})
	}
}

func TestDetectOnPseudoTerminal(t *testing.T) {
	t.Parallel()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
	require.NoError(t, pty.Setsize(slave, &pty.Winsize{Rows: 24, Cols: 47}))
	require.Equal(t, Style{Color: true, Unicode: true, TTY: true, Width: 47},
		Detect(slave, ColorAuto, env("TERM", "xterm")))
	require.Equal(t, Style{Unicode: true}, Detect(&bytes.Buffer{}, ColorAuto, env()))
}

func TestWrap(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"one two three"}, terminal.Wrap("one two three", 0))
	require.Equal(t, []string{"the quick brown fox", "jumps over the lazy", "dog"},
		terminal.Wrap("the quick brown fox jumps over the lazy dog", 20))
	require.Equal(t, []string{"see", "https://example.org/a/very/long/address", "now"},
		terminal.Wrap("see https://example.org/a/very/long/address now", 24))
	require.Equal(t, []string{"ä ö ü ß ä ö ü ß ä ö ü"}, terminal.Wrap("ä ö ü ß ä ö ü ß ä ö ü", 21),
		"columns, not bytes")
	require.Equal(t, []string{"two", "lines"}, terminal.Wrap("two\nlines\n", 80))
}

func TestTable(t *testing.T) {
	t.Parallel()
	tab := Table{Header: []string{"NAME", "ACTION"}}
	tab.Add("web", "rename to web-tcp-80")
	tab.Add("a-longer-name", "")
	var b bytes.Buffer
	require.NoError(t, tab.Write(&b, Style{Width: 80}))
	require.Equal(t, "NAME            ACTION\nweb             rename to web-tcp-80\na-longer-name   \n", b.String())
}

func TestProgressWithoutTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	p := NewProgress(&out, Style{Unicode: true}, c)
	p.Info("before")
	p.Step("first %s", "step")
	c.Step(1500 * time.Millisecond)
	p.Info("half-way")
	p.Done("%d things", 3)
	p.Done("no open step: nothing") // must not print
	p.Step("second")
	p.Step("third")
	p.Warn("careful")
	p.Fail("it broke")
	p.Step("fourth")
	p.Close()
	require.Equal(t, `  → before
  → half-way
✓ first step: 3 things (1.5s)
✓ second
  ! careful
✗ third: it broke
? fourth: not finished
`, out.String())

	require.NotContains(t, out.String(), "\x1b")
}

func TestProgressOnTerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(terminal.Writer(&out), Style{TTY: true, Width: 16}, nil)
		p.Step("a title that is too long")
		require.Equal(t, "| a title that ", out.String(), "cut to the width, so that it can be redrawn")
		time.Sleep(spinnerPeriod)
		synctest.Wait()
		require.True(t, strings.HasSuffix(out.String(), "\r\x1b[K/ a title that "), "%q", out.String())
		p.Done("")
		require.True(t, strings.HasSuffix(out.String(), "\r\x1b[Kok   a title that is too\n     long\n"), "%q",
			out.String())
		p.Close()
	})
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := NewProgress(&out, Style{Unicode: true, TTY: true}, nil)
	p.Quiet = true
	p.Step("x")
	p.Info("x")
	p.Warn("careful")
	p.Done("x")
	p.Step("y")
	p.Fail("it broke")
	p.Step("z")
	p.Close()
	require.Equal(t, "  ! careful\n✗ y: it broke\n", out.String())
}

func TestShellLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, `csccm --set 'a=$(B)' 'it'\''s' '' plain=1,2`,
		ShellLine("csccm", "--set", "a=$(B)", "it's", "", "plain=1,2"))
}
