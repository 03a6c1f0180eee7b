// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt

import "golang.org/x/sys/unix"

const (
	getSettings = unix.TCGETS
	setSettings = unix.TCSETS
)
