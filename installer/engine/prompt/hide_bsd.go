// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd || netbsd || openbsd

package prompt

import "golang.org/x/sys/unix"

const (
	getSettings = unix.TIOCGETA
	setSettings = unix.TIOCSETA
)
