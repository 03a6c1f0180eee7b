// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plane-build builds the control planes of the tests and the demo that are
// not in the cache yet, one after the other, and prints where they are. Its arguments
// are minors of Kubernetes ("1.36"), or "all"; without any it is the newest. "list" only
// says which minors there are and which of them are built.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/csccm/csccm/test/plane"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 1 && args[0] == "list" {
		if err := list(ctx, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "plane-build:", err)
			return 1
		}
		return 0
	}
	minors, err := parse(args)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "plane-build:", err)
		return 2
	}
	for _, minor := range minors {
		path, err := plane.Ensure(ctx, minor, plane.Print(os.Stderr))
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "plane-build:", err)
			return 1
		}
		fmt.Println(path)
	}
	return 0
}

// list prints a line a minor, the newest first: "1.36 missing".
func list(ctx context.Context, out io.Writer) error {
	for _, minor := range plane.Minors() {
		_, there, err := plane.Cached(ctx, minor)
		if err != nil {
			return err
		}
		state := "missing"
		if there {
			state = "built"
		}
		if _, err := fmt.Fprintln(out, minor, state); err != nil {
			return err
		}
	}
	return nil
}

func parse(args []string) ([]plane.Minor, error) {
	if len(args) == 0 {
		return []plane.Minor{plane.Newest}, nil
	}
	if len(args) == 1 && args[0] == "all" {
		return plane.Minors(), nil
	}
	var minors []plane.Minor
	for _, arg := range args {
		minor, err := plane.ParseMinor(arg)
		if err != nil {
			return nil, err
		}
		minors = append(minors, minor)
	}
	return minors, nil
}
