// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command csccm installs the cloud controller manager for Apache CloudStack
// into a Kubernetes cluster, checks it, and moves running clusters onto it.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/report"
)

func main() {
	silenceLibraryLogs()
	os.Exit(run(os.Args, cli.Stdio(), os.Exit))
}

// run is main without the process: args is the whole argv, and the result is the exit code. die ends the process at
// once; it is called at the second ^C.
func run(args []string, s cli.Streams, die func(int)) int {
	ctx, stop := interruptible(context.Background(), s.ErrOut, die)
	defer stop()

	g := cli.New(s)
	root := rootCommand(g)
	asPlugin(root, args[0])
	root.SetArgs(args[1:])
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = g.Unknown
	}
	if err == nil {
		return report.ExitOK
	}
	err = cli.Classify(ctx, err)
	g.PrintError(cmd, err)
	return cli.ExitCode(err)
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels. Steps that must not be interrupted use
// context.WithoutCancel, so the command ends after the step in progress. The second signal ends the process at once.
func interruptible(parent context.Context, errOut io.Writer, die func(int)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-done:
			return
		case <-signals:
		}
		_, _ = io.WriteString(errOut, "\ninterrupted: stopping after the current step; press ^C again to stop at "+
			"once\n")
		cancel(cli.ErrInterrupted)
		select {
		case <-done:
		case <-signals:
			die(report.ExitInterrupted)
		}
	}()

	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// silenceLibraryLogs keeps the log lines of client-go and Helm off the terminal: csccm reports what matters itself.
func silenceLibraryLogs() {
	klog.SetLogger(klog.Logger{})
	log.SetOutput(io.Discard)
}
