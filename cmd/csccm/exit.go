// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
)

// What ends a context. net/http hands out its cause in place of the context's own error, for which packages below cmd look.
const (
	errInterrupted = ended("interrupted")
	errTimeout     = ended("timed out")
)

type ended string

func (e ended) Error() string { return string(e) }

// Is reports what the context's own error would be.
func (e ended) Is(target error) bool {
	return e == errInterrupted && target == context.Canceled || e == errTimeout && target == context.DeadlineExceeded
}

// usagef is a command line that must be corrected.
func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

func usage(err error) error { return &report.Error{Err: err, Code: report.ExitUsage} }

// exitCode is the process's exit code for err. Errors name theirs with an ExitCode method, report.Error above all;
// everything else is a plain error.
func exitCode(err error) int {
	switch {
	case err == nil:
		return report.ExitOK
	case errors.Is(err, errInterrupted):
		return report.ExitInterrupted
	case errors.Is(err, errTimeout):
		return report.ExitTimeout
	}
	var coder interface{ ExitCode() int }
	if errors.As(err, &coder) {
		return coder.ExitCode()
	}
	if credentials.BadInput(err) {
		return report.ExitUsage
	}
	return report.ExitFailure
}

// classify turns the bare "context canceled" that libraries return into what
// ended the context: ^C or --timeout. Errors that say more keep their text.
func classify(ctx context.Context, err error) error {
	if errors.Is(err, errInterrupted) || errors.Is(err, errTimeout) {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return err
}

// printError writes what is wrong and, where known, what would be right.
func printError(w io.Writer, cmd *cobra.Command, err error) {
	text := strings.TrimSpace(err.Error())
	var silent interface{ Silent() bool }
	if text == "" || errors.As(err, &silent) && silent.Silent() {
		return // a report on stdout has said it already
	}
	_, _ = fmt.Fprintf(w, "error: %s\n", text)
	if fix := remedyOf(cmd, err); fix != "" {
		_, _ = fmt.Fprintf(w, "  fix: %s\n", fix)
	}
}

func remedyOf(cmd *cobra.Command, err error) string {
	var remedied interface{ Remedy() string }
	if errors.As(err, &remedied) && remedied.Remedy() != "" {
		return remedied.Remedy()
	}
	if fix := credentials.Remedy(err); fix != "" || cmd == nil || exitCode(err) != report.ExitUsage {
		return fix
	}
	return fmt.Sprintf("see %s --help", cmd.CommandPath())
}

// silenceLibraryLogs keeps client-go's and Helm's own log lines off the
// terminal: csccm says itself what matters.
func silenceLibraryLogs() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("alsologtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	log.SetOutput(io.Discard)
}
