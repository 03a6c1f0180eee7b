// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cloudstack-sim is an in-memory CloudStack management server for trying out and testing clients of the
// CloudStack API.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cloudstack-sim:", err)
		os.Exit(1)
	}
}
