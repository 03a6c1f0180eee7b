// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ReadMachine returns the state of the machine that a sandbox could change, without the lines in before. The lines are
// sorted, one per object: "mount /x", "link eth0", "nftables table inet x", "network namespace x", "cgroup /x",
// "folder /x", "process 12".
func ReadMachine(ctx context.Context, before []string) []string {
	var m []string
	add := func(what string, names ...string) {
		for _, n := range names {
			m = append(m, what+" "+filepath.Clean(n))
		}
	}

	text, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range lines(text) {
		add("mount", strings.Fields(line)[4]) // the mount point: proc_pid_mountinfo(5)
	}

	tables, _ := exec.CommandContext(ctx, "nft", "list", "tables").Output()
	add("nftables", lines(tables)...)
	add("link", glob("/sys/class/net/*")...)
	add("network namespace", glob("/run/netns/*")...)
	for _, h := range allHierarchies() {
		add("cgroup", glob(filepath.Join(h.path, folderPrefix+"*"))...)
	}

	add("folder", glob(filepath.Join(tmp(), folderPrefix+"*"))...)
	for _, path := range glob("/proc/[0-9]*/environ") { // processes of sandboxes have dirVariable in their environment
		environ, _ := os.ReadFile(path) // #nosec G304 -- of /proc; it may have ended
		if strings.Contains("\x00"+string(environ), "\x00"+dirVariable+"="+filepath.Join(tmp(), folderPrefix)) {
			add("process", filepath.Base(filepath.Dir(path)))
		}
	}

	slices.Sort(m)
	return slices.DeleteFunc(m, func(line string) bool { return slices.Contains(before, line) })
}

func lines(text []byte) []string {
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern) // an error would mean a malformed pattern
	return found
}
