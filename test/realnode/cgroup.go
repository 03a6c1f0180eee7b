// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
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
	"github.com/csccm/csccm/test/testenv"
)

// hierarchy is a mounted cgroup hierarchy: one of v1 with its controllers, or that of v2.
type hierarchy struct {
	path        string
	v2          bool
	controllers []string
}

// needed are the controllers that kubelets and containers need to start.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// hierarchies returns the hierarchies whose controllers containers of this machine use.
func hierarchies() []hierarchy { return used(allHierarchies()) }

// allHierarchies returns all mounted hierarchies. Container runtimes create cgroups in each of them.
func allHierarchies() []hierarchy {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return parseHierarchies(text)
}

// used returns the hierarchies with limits. If v1 controllers are mounted, these are those of v1, because v2 beside
// them ("hybrid") has no controllers. Otherwise it is that of v2.
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
		switch {
		case len(at) < 5 || len(about) < 3:
		case about[0] == "cgroup":
			all = append(all, hierarchy{path: at[4], controllers: strings.Split(about[2], ",")})
		case about[0] == "cgroup2":
			all = append(all, hierarchy{path: at[4], v2: true})
		}
	}
	return all
}

// lacking returns the needed controllers that no hierarchy has.
func lacking(all []hierarchy) []string {
	var have []string
	for _, h := range all {
		b, _ := os.ReadFile(filepath.Join(h.path, "cgroup.controllers")) // cgroup v2 lists its controllers in this file
		have = append(append(have, h.controllers...), strings.Fields(string(b))...)
	}
	return slices.DeleteFunc(slices.Clone(needed), func(c string) bool { return slices.Contains(have, c) })
}

// make creates a cgroup whose children can have limits.
func (h hierarchy) make(name string) {
	dir := filepath.Join(h.path, name)
	if h.v2 { // a cgroup has only the controllers that cgroup.subtree_control of its parent enables
		delegate(h.path)
	}
	must.OK(os.MkdirAll(dir, 0o755)) // #nosec G301 -- a cgroup
	if h.v2 {
		delegate(dir)
		// a new cpuset is empty, and no process can run in an empty one
	} else if slices.Contains(h.controllers, "cpuset") {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			b := must.Get(os.ReadFile(filepath.Join(filepath.Dir(dir), file))) // #nosec G304 -- a cgroup
			must.OK(os.WriteFile(filepath.Join(dir, file), b, 0o600))
		}
	}
}

// delegate enables the controllers of a cgroup for its children.
func delegate(dir string) {
	have := must.Get(os.ReadFile(filepath.Join(dir, "cgroup.controllers"))) // #nosec G304 -- a cgroup
	for _, c := range strings.Fields(string(have)) {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o600)
		must.Be(err == nil || !slices.Contains(needed, c), "enable the controller %s for the children of cgroup %s "+
			"(are there processes in the cgroup itself?): %v", c, dir, err)
	}
}

// remove removes a cgroup of a sandbox and its descendants once their processes have ended.
func (h hierarchy) remove(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, folderPrefix) {
		return fmt.Errorf("cgroup %s is not one of a sandbox (%s...): not removed", name, folderPrefix)
	}
	return testenv.Wait(ctx, time.Minute, "cgroup "+name+" to be removed", func(context.Context) error {
		return removeTree(filepath.Join(h.path, name))
	})
}

// removeTree removes a cgroup and its descendants. The files in a cgroup cannot be removed one by one; rmdir removes
// them.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if e := syscall.Rmdir(d); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
