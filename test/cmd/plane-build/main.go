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
	"os"
	"os/signal"
	"syscall"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "plane-build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	defer must.Return(&err)
	minors := plane.Minors() // the newest first
	switch {
	case len(args) == 0:
		minors = minors[:1]
	case len(args) == 1 && args[0] == "list":
		for _, minor := range minors {
			_, there := must.Get2(plane.Cached(ctx, minor))
			fmt.Println(minor, map[bool]string{true: "built", false: "missing"}[there])
		}
		return nil
	case len(args) > 1 || args[0] != "all":
		minors = nil
		for _, arg := range args {
			minor := must.Get(plane.ParseMinor(arg))
			minors = append(minors, minor)
		}
	}
	for _, minor := range minors {
		path := must.Get(plane.Ensure(ctx, minor, program.Print(os.Stderr)))
		fmt.Println(path)
	}
	return nil
}
