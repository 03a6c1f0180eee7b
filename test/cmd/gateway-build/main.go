// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gateway-build builds Traefik for the scenarios of Gateway API, unless it is in the cache, and prints where it
// is. "list" only says whether it is built.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/csccm/csccm/test/gateway"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "gateway-build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	defer must.Return(&err)
	traefik := must.Get(gateway.Traefik())
	switch {
	case len(args) == 0:
		path := must.Get(traefik.Ensure(ctx, program.Print(os.Stderr)))
		fmt.Println(path)
		return nil
	case len(args) == 1 && args[0] == "list":
		_, there := must.Get2(traefik.Cached(ctx))
		fmt.Println(traefik.Release, map[bool]string{true: "built", false: "missing"}[there])
		return nil
	}
	return fmt.Errorf("unexpected arguments %q: only list is supported", args)
}
