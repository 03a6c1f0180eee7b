// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/csccm/csccm/test/internal/must"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	exitInterrupted = 130
)

// Program is the demo or the lesson.
type Program interface {
	// Run ends at the first error, see package must.
	Run(ctx context.Context)
	// Explain prints what may show the cause of an error.
	Explain(err error)
	// CleanUp stops all processes of the run and removes its files.
	CleanUp()
}

// StepError is the error of a step or chapter.
type StepError struct {
	What   string // step or chapter
	Number int
	Title  string
	Err    error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("%s %d, %s, failed: %v", e.What, e.Number, e.Title, e.Err)
}
func (e *StepError) Unwrap() error { return e.Err }

// Step does a step or chapter, whose error names it.
func Step(what string, number int, title string, do func()) {
	if err := must.Catch(do); err != nil {
		must.OK(&StepError{what, number, title, err})
	}
}

// Terminal reports whether the program is used on a terminal.
func Terminal() bool {
	return term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stdin.Fd())) // #nosec G115 -- a descriptor fits
}

// Main runs a program until it ends or is interrupted, and returns its exit code.
func Main(name string, p Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := must.Catch(func() { p.Run(ctx) })
	if step := (*StepError)(nil); errors.As(err, &step) && ctx.Err() == nil {
		p.Explain(err)
	}
	interrupted := ctx.Err() != nil
	// From here, a second ^C ends the program at once; on Linux the kernel then kills the child processes.
	stop()
	p.CleanUp()
	switch {
	case err == nil:
		return ExitOK
	case interrupted:
		_, _ = fmt.Fprintf(os.Stderr, "%s: interrupted; everything is stopped and removed\n", name)
		return exitInterrupted
	}
	_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return ExitFailure
}

// Lines returns the lines that are typed, until the input ends. Nothing else can read from the input afterwards.
func Lines(ctx context.Context, in *os.File) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(in)
		for scan.Scan() {
			select {
			case lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}
