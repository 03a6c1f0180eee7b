// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Machine is the state of the machine that a sandbox could change, one object per line: "mount /x",
// "link eth0", "nftables table inet x", "network namespace x", "cgroup /x", "folder /x", "process 12".
type Machine []string

// ReadMachine returns the current state of the machine. What cannot be read is a line as well ("unknown: ...").
func ReadMachine(ctx context.Context) Machine {
	var m Machine
	add := func(what string, names []string, err error) {
		if err != nil && !os.IsNotExist(err) {
			names = []string{"unknown: " + err.Error()}
		}
		for _, n := range names {
			m = append(m, what+" "+n)
		}
	}
	mounts, err := mountPoints()
	add("mount", mounts, err)
	links, err := entries("/sys/class/net")
	add("link", links, err)
	tables, err := exec.CommandContext(ctx, "nft", "list", "tables").Output()
	add("nftables", lines(tables), err)
	spaces, err := entries("/run/netns")
	add("network namespace", spaces, err)
	for _, h := range allHierarchies() {
		groups, err := filepath.Glob(filepath.Join(h.path, folderPrefix+"*"))
		add("cgroup", groups, err)
	}
	folders, err := filepath.Glob(filepath.Join(tmp(), folderPrefix+"*"))
	add("folder", folders, err)
	processes, err := sandboxed()
	add("process", processes, err)
	slices.Sort(m)
	return m
}

// Added returns the lines of m that are not in before.
func (m Machine) Added(before Machine) []string {
	return slices.DeleteFunc(slices.Clone([]string(m)), func(line string) bool { return slices.Contains(before, line) })
}

func lines(text []byte) []string {
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func entries(dir string) ([]string, error) {
	found, err := os.ReadDir(dir)
	var names []string
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names, err
}

// mountPoints returns the mount points, the fifth fields of mountinfo: proc_pid_mountinfo(5).
func mountPoints() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	var points []string
	for _, line := range lines(text) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, fields[4])
		}
	}
	return points, err
}

// sandboxed returns the IDs of the processes of sandboxes: they have dirVariable in their environment.
func sandboxed() ([]string, error) {
	mark := []byte("\x00" + dirVariable + "=" + filepath.Join(tmp(), folderPrefix))
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	var ids []string
	for _, path := range found {
		environ, err := os.ReadFile(path) // #nosec G304 -- of /proc
		if err != nil {
			continue // it has ended
		}
		if bytes.Contains(append([]byte{0}, environ...), mark) {
			ids = append(ids, filepath.Base(filepath.Dir(path)))
		}
	}
	return ids, err
}
