// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command recording runs a program in a terminal of its own and draws what a person would have seen as an SVG that
// plays: `make recording` records the demo for the README. What is drawn is what was printed; only pauses are shortened.
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
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("o", "", "file to write; empty means standard output")
	title := flag.String("title", "", "title of the window; empty: the command line")
	columns := flag.Int("columns", 144, "width of the terminal")
	rows := flag.Int("rows", 40, "height of the window that is drawn")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("no program: recording [-o FILE] PROGRAM [ARGUMENT ...]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	lines, err := record(ctx, *columns, flag.Args())
	if err != nil {
		return err
	}
	if secret := suspicious(lines); secret != "" {
		return fmt.Errorf("the recording holds what looks like a key (%s...): it is not written", secret[:6])
	}
	if *title == "" {
		*title = strings.Join(flag.Args(), " ")
	}
	svg := draw(lines, look{Title: *title, Columns: *columns, Rows: *rows})
	if *out == "" {
		_, err = io.WriteString(os.Stdout, svg)
		return err
	}
	return os.WriteFile(*out, []byte(svg), 0o644) // #nosec G306 -- a picture for the documentation
}

// record runs a program to its end in a terminal that is as high as what it prints.
func record(ctx context.Context, columns int, args []string) ([]line, error) {
	const height = 2000
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) // #nosec G204 -- what the caller asked for
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
