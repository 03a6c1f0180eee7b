// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command recording runs a program in a pseudo-terminal and writes its output as an animated SVG: `make demo RECORD=FILE`
// records the demo for the README. The SVG shows the output unchanged; only pauses are shortened.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/csccm/csccm/test/internal/must"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	defer must.Return(&err)
	out := flag.String("o", "", "file to write; empty means standard output")
	title := flag.String("title", "", "title of the window; empty means the command line")
	columns := flag.Int("columns", 144, "width of the terminal in characters")
	rows := flag.Int("rows", 40, "height of the drawn window in lines")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("no program given; usage: recording [-o FILE] PROGRAM [ARGUMENT ...]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	lines := must.Get(record(ctx, *columns, flag.Args()))
	if secret := suspicious(lines); secret != "" {
		return fmt.Errorf("the output contains text that looks like a key (%s...): the recording is not written", secret[:6])
	}
	if *title == "" {
		*title = strings.Join(flag.Args(), " ")
	}
	svg := draw(lines, window{Title: *title, Columns: *columns, Rows: *rows})
	if *out == "" {
		_, err = io.WriteString(os.Stdout, svg)
		return err
	}
	return os.WriteFile(*out, []byte(svg), 0o644) // #nosec G306 -- a picture for the documentation
}

// record runs a program until it ends, in a terminal that is high enough for all of its output.
func record(ctx context.Context, columns int, args []string) ([]line, error) {
	const height = 2000
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) // #nosec G204 -- the program that the caller names
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "CLICOLOR_FORCE=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: height, Cols: uint16(columns)}) // #nosec G115 -- a width fits
	if err != nil {
		return nil, err
	}
	defer func() { _ = terminal.Close() }()
	s := newScreen(columns, height, time.Now())
	buffer := make([]byte, 32<<10)
	for {
		n, err := terminal.Read(buffer)
		s.write(buffer[:n], time.Now())
		if err != nil { // the program has closed its end
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w; it ended with:\n%s", args[0], err, s.tail(15))
	}
	return s.lines(), nil
}
