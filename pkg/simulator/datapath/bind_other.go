// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package datapath

import (
	"os/exec"
	"syscall"
)

// anyAddress does nothing: only Linux can bind addresses that are on no interface.
func anyAddress(_, _ string, _ syscall.RawConn) error { return nil }

// endWithParent does nothing: only Linux supports it.
func endWithParent(*exec.Cmd) {}
