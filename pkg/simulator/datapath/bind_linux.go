// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"os/exec"
	"syscall"
)

// anyAddress allows a listener to bind an address that is on no interface yet.
func anyAddress(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_IP, syscall.IP_FREEBIND, 1) // #nosec G115 -- a file descriptor
	}); cerr != nil {
		return cerr
	}
	return err
}

// endWithParent makes the kernel end a program when this process exits without having ended it.
func endWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
