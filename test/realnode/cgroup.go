// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// hierarchy is a mounted cgroup hierarchy: one of v1, or that of v2.
type hierarchy struct {
	path string
	v2   bool
	// controllers are those of v1; those of v2 are in its file cgroup.controllers.
	controllers []string
}

// needed returns the controllers without which a kubelet or a container does not start.
func needed() []string { return []string{"cpu", "cpuset", "memory", "pids"} }

// hierarchies returns the hierarchies whose controllers containers of this machine use.
func hierarchies() []hierarchy { return used(allHierarchies()) }

// allHierarchies returns all mounted hierarchies. Container runtimes create cgroups in each of them.
func allHierarchies() []hierarchy {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return parseHierarchies(text)
}

// used returns the hierarchies that hold limits: those of v1 when v1 controllers are
// mounted, because v2 beside them ("hybrid") has no controllers, and else that of v2.
func used(all []hierarchy) []hierarchy {
	v1 := slices.ContainsFunc(all, func(h hierarchy) bool { return slices.Contains(h.controllers, "memory") })
	return slices.DeleteFunc(slices.Clone(all), func(h hierarchy) bool { return h.v2 == v1 })
}

// parseHierarchies parses mountinfo, see proc_pid_mountinfo(5).
func parseHierarchies(mountinfo []byte) []hierarchy {
	var all []hierarchy
	for _, line := range lines(mountinfo) {
		left, right, _ := strings.Cut(line, " - ")
		at, about := strings.Fields(left), strings.Fields(right)
		if len(at) < 5 || len(about) < 3 {
			continue
		}
		switch about[0] {
		case "cgroup":
			options := strings.Split(about[2], ",")
			controllers := slices.DeleteFunc(options, func(o string) bool { return o == "rw" || o == "ro" || o == "xattr" })
			all = append(all, hierarchy{path: at[4], controllers: controllers})
		case "cgroup2":
			all = append(all, hierarchy{path: at[4], v2: true})
		}
	}
	return all
}

// lacking returns the needed controllers that no hierarchy has.
func lacking(all []hierarchy) []string {
	have := map[string]bool{}
	for _, h := range all {
		controllers := h.controllers
		if h.v2 {
			b, _ := os.ReadFile(filepath.Join(h.path, "cgroup.controllers"))
			controllers = strings.Fields(string(b))
		}
		for _, c := range controllers {
			have[c] = true
		}
	}
	return slices.DeleteFunc(needed(), func(c string) bool { return have[c] })
}

// make creates a cgroup whose children can have limits.
func (h hierarchy) make(name string) (err error) {
	defer must.Return(&err)
	dir := filepath.Join(h.path, name)
	if h.v2 {
		// A cgroup has only the controllers that cgroup.subtree_control of its parent enables.
		must.OK(h.delegate(h.path))
	}
	must.OK(os.MkdirAll(dir, 0o755)) // #nosec G301 -- a cgroup
	if h.v2 {
		return h.delegate(dir)
	}
	if slices.Contains(h.controllers, "cpuset") {
		// A new v1 cpuset is empty, and no process can run in an empty one.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			b := must.Get(os.ReadFile(filepath.Join(filepath.Dir(dir), file))) // #nosec G304 -- a cgroup
			must.OK(os.WriteFile(filepath.Join(dir, file), b, 0o600))
		}
	}
	return nil
}

func (h hierarchy) delegate(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")) // #nosec G304 -- a cgroup
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(have)) {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o600)
		if err != nil && slices.Contains(needed(), c) {
			return fmt.Errorf("enable the controller %s for the children of cgroup %s (are there processes in the cgroup itself?): %w", c, dir, err)
		}
	}
	return nil
}

// removeLimit is how long remove waits for killed processes to leave their cgroup.
const removeLimit = time.Minute

// remove removes a cgroup and its descendants.
func (h hierarchy) remove(name string) error {
	if !strings.HasPrefix(name, folderPrefix) {
		return fmt.Errorf("cgroup %s is not one of a sandbox (%s...): not removed", name, folderPrefix)
	}
	deadline := time.Now().Add(removeLimit)
	for {
		err := removeTree(filepath.Join(h.path, name))
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// removeTree removes a cgroup and its descendants. The files of a cgroup cannot be
// removed one by one; rmdir removes them with it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: dir, Err: err}
	}
	return nil
}
