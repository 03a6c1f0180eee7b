// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd || linux || netbsd || openbsd

package prompt

import (
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// hideInput switches the terminal's echo off before a question for a secret is
// shown: who types or pastes at once would see the secret otherwise. What is
// no terminal is left alone.
func hideInput(v any) (restore func()) {
	fd, ok := terminal(v)
	if !ok {
		return func() {}
	}
	before, err := term.GetState(fd)
	if err != nil {
		return func() {}
	}
	settings, err := unix.IoctlGetTermios(fd, getSettings)
	if err != nil {
		return func() {}
	}
	settings.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, setSettings, settings); err != nil {
		return func() {}
	}
	return func() { _ = term.Restore(fd, before) } // nothing better to do on the way out
}
