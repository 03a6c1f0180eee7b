// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plane-build builds the programs that take minutes to build, unless they are cached, and prints their paths.
// Its arguments are Kubernetes minors ("1.36") for the control planes of the tests and the demo, or "all"; the default
// is the newest minor. "list" only prints which are built: of all minors, or of the arguments after it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := must.Catch(func() { run(ctx, os.Args[1:]) })
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "plane-build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) {
	list := len(args) > 0 && args[0] == "list"
	if list {
		args = args[1:]
	}

	if list && len(args) == 0 || len(args) == 1 && args[0] == "all" {
		args = nil
		for _, minor := range plane.Minors() { // newest first
			args = append(args, string(minor))
		}
	}

	if len(args) == 0 {
		args = []string{string(plane.Newest)}
	}

	for _, name := range args {
		p := must.Get(plane.Program(must.Get(plane.ParseMinor(name))))
		if list {
			_, there := must.Get2(p.Cached(ctx))
			fmt.Println(name, map[bool]string{true: "built", false: "missing"}[there])
			continue
		}
		fmt.Println(must.Get(p.Ensure(ctx, os.Stderr)))
	}
}
