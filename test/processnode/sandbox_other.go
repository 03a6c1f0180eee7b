// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && unix

package processnode

import "syscall"

// sandbox returns nil: this system has no user namespaces.
func sandbox(string, int64, int64) *syscall.SysProcAttr { return nil }
