// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plane-build builds the control planes of the tests and the demo that are
// not in the cache yet, one after the other, and prints where they are. Its arguments
// are minors of Kubernetes ("1.36"), or "all"; without any it is the newest.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/csccm/csccm/test/plane"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
