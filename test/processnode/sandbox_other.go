// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && unix

package processnode

import (
	"fmt"
	"syscall"
)

// sandboxAttr returns EPERM: this system has no sandbox, so processes run as plainSandbox.
func sandboxAttr(kind sandboxKind, _ string, _ identity) (*syscall.SysProcAttr, error) {
	return nil, fmt.Errorf("%s on this system: %w", kind, syscall.EPERM)
}
