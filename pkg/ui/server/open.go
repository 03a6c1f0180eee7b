// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"
)

// Open opens an address with a token in the user's browser. All users of a machine can see command lines, so the
// browser gets the name of a file that only this user can read and that redirects to the address. remove deletes the
// file.
func Open(ctx context.Context, url string) (remove func(), err error) {
	file, err := os.CreateTemp("", "csccm-ui-*.html") // mode 0600
	if err != nil {
		return func() {}, err
	}

	remove = func() { _ = os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file,
		"<!doctype html><meta charset=utf-8><title>csccm ui</title><meta http-equiv=refresh content=\"0; "+
			"url=%[1]s\"><a href=\"%[1]s\">csccm ui</a>\n", html.EscapeString(url))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}

	if err != nil {
		return remove, err
	}

	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}

	// These programs exit as soon as the browser has the address; the browser keeps running when csccm exits.
	return remove,
		exec.CommandContext(ctx, command[0], append(command[1:], file.Name())...).Start() //nolint:gosec // of this list
}
