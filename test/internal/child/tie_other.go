// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && unix

package child

import (
	"errors"
	"syscall"
)

// tie makes the child a group of its own; there is no parent-death signal here.
func tie(a *syscall.SysProcAttr) { a.Setpgid = true }

func signalGroup(pid int, s syscall.Signal) error {
	if err := syscall.Kill(-pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// startNamed is not possible here.
func startNamed(string, func() error, chan<- error, <-chan struct{}) bool { return false }
