// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && unix

package child

import "syscall"

// tie puts the child in its own process group; this system has no parent-death signal.
func tie(a *syscall.SysProcAttr) { a.Setpgid = true }

// startNamed returns false: this system has no UTS namespaces.
func startNamed(string, func() error, chan<- error, <-chan struct{}) bool { return false }
