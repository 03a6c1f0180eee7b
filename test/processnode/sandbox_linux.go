// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"os"
	"syscall"
)

// sandbox returns attributes that run a process with root as its root directory, as the container's user. This
// process' own user is mapped to it: an ordinary user may map no other user.
func sandbox(root string, uid, gid int64) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Chroot:      root,
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: int(uid), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: int(gid), HostID: os.Getegid(), Size: 1}},
		// #nosec G115 -- the API server checks the range
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true},
	}
}
