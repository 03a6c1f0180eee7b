// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"runtime"
	"syscall"
)

// tie makes the child a group of its own that dies with this process.
func tie(a *syscall.SysProcAttr) {
	a.Setpgid = true
	a.Pdeathsig = syscall.SIGKILL
}

func signalGroup(pid int, s syscall.Signal) error {
	if err := syscall.Kill(-pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// startNamed starts a process on a thread that has a hostname of its own, which the
// process inherits. It is false when the system does not allow that; nothing is
// started then. The thread lives until done is closed, for the parent-death signal,
// and is thrown away with its name.
func startNamed(name string, start func() error, started chan<- error, done <-chan struct{}) bool {
	named := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if syscall.Unshare(syscall.CLONE_NEWUTS) != nil || syscall.Sethostname([]byte(name)) != nil {
			named <- false
			return
		}
		named <- true
		err := start()
		started <- err
		if err == nil {
			<-done
		}
	}()
	return <-named
}
