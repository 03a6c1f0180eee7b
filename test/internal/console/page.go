// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
)

// Lines returns the lines that are typed, until the input ends. Nothing can be read from the input afterwards.
func Lines(ctx context.Context, in *os.File) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(in)
		for scan.Scan() {
			select {
			case lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// Open opens an address in the user's browser, and reports whether there is one.
func Open(ctx context.Context, url string) bool {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	return exec.CommandContext(ctx, program, url).Run() == nil // #nosec G204 -- an address of this run
}
