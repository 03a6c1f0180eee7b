// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plane-build builds the control plane of the tests and the demo, if it is
// not in the cache yet, and prints where it is.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/csccm/csccm/test/plane"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := plane.Ensure(ctx, plane.Print(os.Stderr))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "plane-build:", err)
		return 1
	}
	fmt.Println(path)
	return 0
}
