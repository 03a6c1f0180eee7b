// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pause holds a Pod's namespaces: it waits for SIGTERM or SIGINT.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
