// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"runtime"
	"syscall"
)

// tie puts the child in its own process group and makes the kernel kill it when this process ends.
func tie(a *syscall.SysProcAttr) {
	a.Setpgid = true
	a.Pdeathsig = syscall.SIGKILL
}

// startNamed starts a process on a thread with its own UTS namespace and hostname, which the process inherits. If the
// kernel does not allow that, it starts nothing and returns false. The thread lives until done is closed, because its
// end would send the parent-death signal. Then the thread and its namespace end.
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
