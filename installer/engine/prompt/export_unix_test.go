// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd || linux || netbsd || openbsd

package prompt

import (
	"os"

	"golang.org/x/sys/unix"
)

// LineMode tells whether a terminal hands over whole lines, as it does while nothing is drawn on it.
func LineMode(tty *os.File) (bool, error) {
	settings, err := unix.IoctlGetTermios(int(tty.Fd()), getSettings)
	if err != nil {
		return false, err
	}
	return settings.Lflag&unix.ICANON != 0, nil
}
