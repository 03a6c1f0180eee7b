// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	v1Mounts = `30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/systemd rw,nosuid - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cgroup rw,cpuset
35 30 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
36 30 0:32 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids
`
	v2Mounts = `24 1 8:1 / / rw - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
`
)

func TestParseHierarchies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mounts string
		want         []string
		v2           bool
	}{
		{"v1 and hybrid", v1Mounts, []string{"/sys/fs/cgroup/systemd", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"}, false},
		{"v2", v2Mounts, []string{"/sys/fs/cgroup"}, true},
		{"v2 beside systemd's own v1", v2Mounts + "32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n", []string{"/sys/fs/cgroup"}, true},
		{"none", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, h := range used(parseHierarchies([]byte(c.mounts))) {
				got = append(got, h.path)
				assert.Equal(t, c.v2, h.v2, h.path)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestLacking(t *testing.T) {
	t.Parallel()
	if got := lacking(used(parseHierarchies([]byte(v1Mounts)))); len(got) > 0 {
		t.Errorf("v1 lacks %v", got)
	}
	if got := lacking(nil); !slices.Equal(got, needed()) {
		t.Errorf("without hierarchies %v are lacking, want all of %v", got, needed())
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpuset cpu io memory\n"), 0o600))
	if got := lacking([]hierarchy{{path: dir, v2: true}}); !slices.Equal(got, []string{"pids"}) {
		t.Errorf("lacks %v, want pids", got)
	}
}

// TestMakeV2 creates a cgroup in an ordinary folder with the files of cgroup v2.
func TestMakeV2(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	name := folderPrefix + "x"
	for _, dir := range []string{root, filepath.Join(root, name)} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpu memory"), 0o600))
	}
	h := hierarchy{path: root, v2: true}
	require.NoError(t, h.make(name))
	for _, dir := range []string{root, filepath.Join(root, name)} {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil || string(b) != "+memory" { // the last write; the kernel would add all of them
			t.Errorf("%s: %q, %v", dir, b, err)
		}
	}
}

func TestRemoveRefusesOtherCgroups(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"kubepods", folderPrefix + "1/n1/kubepods/pod"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	h := hierarchy{path: root}
	if err := h.remove("kubepods"); err == nil {
		t.Error("a cgroup that is not a sandbox's is removed")
	}
	require.NoError(t, h.remove(folderPrefix+"1"))
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 || left[0].Name() != "kubepods" {
		t.Errorf("after remove there are %v, %v", left, err)
	}
}
