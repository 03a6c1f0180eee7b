// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command recording runs a program in a pseudo-terminal and writes its output as an animated SVG: `make demo
// RECORD=FILE` records the demo for the README. The SVG shows the output unchanged; only pauses are shortened.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/csccm/csccm/test/internal/must"
)

// The size of the terminal and of the window.
const (
	columns = 144
	rows    = 40
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	defer must.Return(&err)
	out := flag.String("o", "", "file to write")
	title := flag.String("title", "", "title of the window")
	if flag.Parse(); flag.NArg() == 0 || *out == "" {
		return errors.New("usage: recording -o FILE PROGRAM [ARGUMENT ...]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	svg := draw(must.Get(record(ctx, flag.Args()...)), *title)
	return os.WriteFile(*out, []byte(svg), 0o644) // #nosec G306 -- a picture for the documentation
}

// line is a line on the screen and the time when it was complete.
type line struct {
	at    time.Duration
	texts []text
}

// text starts at a column. class is the name of its style.
type text struct {
	column         int
	content, class string
}

// record runs a program in a terminal until it ends. It fails if the output contains text that could be a key.
func record(ctx context.Context, args ...string) (lines []line, err error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) // #nosec G204 -- the program that the caller names
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "CLICOLOR_FORCE=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		return nil, err
	}
	defer func() { _ = terminal.Close() }()
	begun, all := time.Now(), []string(nil)
	for scan := bufio.NewScanner(terminal); scan.Scan(); { // until the program has closed its end
		content := scan.Text()
		if at := strings.LastIndex(content, erase); at >= 0 {
			content = content[at+len(erase):] // without the progress that was drawn before
		}
		if key := suspicious(paints.ReplaceAllString(content, "")); key != "" {
			err = fmt.Errorf("the output contains what looks like a key, which begins with %s", key[:6])
		}
		all = append(all, content)
		lines = append(lines, wrapped(content, time.Since(begun))...)
	}

	if failed := cmd.Wait(); failed != nil {
		err = fmt.Errorf("%s: %w; it ended with:\n%s", args[0], failed, strings.Join(all[max(0, len(all)-15):], "\n"))
	}

	return lines, err
}

// erase is how a progress line is removed.
const erase = "\r\x1b[K"

var (
	paints  = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	classes = map[string]string{"1": "b", "2": "f", "31": "r", "32": "g", "33": "y"}
)

// wrapped returns the lines that a line of output takes on the screen. Their texts end at gaps of two or more spaces,
// because some renderers collapse spaces.
func wrapped(content string, at time.Duration) (lines []line) {
	type cell struct {
		char  rune
		class string
	}

	var cells []cell
	class := ""
	for content != "" {
		before := content
		if next := paints.FindStringSubmatchIndex(content); next != nil && next[0] == 0 {
			class, content = classes[content[next[2]:next[3]]], content[next[1]:]
			continue
		} else if next != nil {
			before = content[:next[0]]
		}
		for _, r := range before {
			cells = append(cells, cell{r, class})
		}
		content = content[len(before):]
	}

	for part := range slices.Chunk(cells, columns) {
		var texts []text
		gap := 2
		for i, c := range part {
			if c.char == ' ' {
				gap++
				continue
			}
			if last := len(texts) - 1; gap < 2 && texts[last].class == c.class {
				texts[last].content += strings.Repeat(" ", gap) + string(c.char)
			} else {
				texts = append(texts, text{i, string(c.char), c.class})
			}
			gap = 0
		}
		lines = append(lines, line{at, texts})
	}

	if lines == nil {
		lines = []line{{at: at}}
	}

	return lines
}

// A CloudStack key has 86 characters without separators. Names of Pods and leases may be as long, but consist of short
// words.
var (
	long  = regexp.MustCompile(`[A-Za-z0-9_-]{64,}`)
	words = regexp.MustCompile(`^[a-z0-9]{1,16}(?:[-_][a-z0-9]{1,16})+$`)
)

// suspicious returns the first text that could be a key, "" if there is none.
func suspicious(content string) string {
	for _, found := range long.FindAllString(content, -1) {
		if !words.MatchString(found) && strings.Trim(found, "-") != "" {
			return found
		}
	}
	return ""
}
