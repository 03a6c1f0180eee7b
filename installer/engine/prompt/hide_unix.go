// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd || linux || netbsd || openbsd

package prompt

import "golang.org/x/sys/unix"

// hideInput switches the terminal's echo off before a question for a secret is
// shown: who types or pastes at once would see the secret otherwise. What is
// no terminal is left alone.
func hideInput(v any) (restore func()) {
	restore = saveTerminal(v)
	fd, ok := terminal(v)
	if !ok {
		return restore
	}
	settings, err := unix.IoctlGetTermios(fd, getSettings)
	if err != nil {
		return restore
	}
	settings.Lflag &^= unix.ECHO
	_ = unix.IoctlSetTermios(fd, setSettings, settings) // without it, reading the secret still hides it
	return restore
}
