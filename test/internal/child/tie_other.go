// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && unix

package child

import (
	"errors"
	"syscall"
)

// tie puts the child in its own process group; this system has no parent-death signal.
func tie(a *syscall.SysProcAttr) { a.Setpgid = true }

func signalGroup(pid int, s syscall.Signal) error {
	if err := syscall.Kill(-pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// startNamed returns false: this system has no UTS namespaces.
func startNamed(string, func() error, chan<- error, <-chan struct{}) bool { return false }
