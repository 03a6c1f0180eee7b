// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"os"
	"syscall"
)

// sandboxAttr returns attributes that run a process with root as its root directory, as the container's user.
func sandboxAttr(kind sandboxKind, root string, id identity) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{
		Chroot:     root,
		Credential: &syscall.Credential{Uid: uint32(id.uid), Gid: uint32(id.gid)}, // #nosec G115 -- the API server checks the range
	}
	for _, g := range id.extra {
		attr.Credential.Groups = append(attr.Credential.Groups, uint32(g)) // #nosec G115 -- likewise
	}
	if id.fsGroup != nil {
		attr.Credential.Groups = append(attr.Credential.Groups, uint32(*id.fsGroup)) // #nosec G115 -- likewise
	}
	if kind == userSandbox {
		// An ordinary user may map only one ID: the container's user is mapped to ours.
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(id.uid), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(id.gid), HostID: os.Getegid(), Size: 1}}
		attr.Credential.Groups = nil
		attr.Credential.NoSetGroups = true
	}
	return attr, nil
}
