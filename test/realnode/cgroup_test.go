// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	v1Mounts = `30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cgroup rw,cpuset
35 30 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
`
	v2Mounts = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	systemd  = "32 30 0:28 / /sys/fs/cgroup/systemd rw,nosuid - cgroup cgroup rw,xattr,name=systemd\n"
)

func TestHierarchies(t *testing.T) {
	t.Parallel()
	const root = "/sys/fs/cgroup"
	for _, c := range []struct {
		name, mounts  string
		want, lacking []string
	}{
		{"v1 and hybrid", v1Mounts, []string{root + "/cpu,cpuacct", root + "/cpuset", root + "/memory"},
			[]string{"pids"}},
		{"v2", v2Mounts, []string{root}, nil},
		{"v2 beside systemd's own v1", v2Mounts + systemd, []string{root}, nil},
		{"none", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n", nil, needed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := used(parseHierarchies([]byte(c.mounts)))
			var got []string
			for _, h := range all {
				got = append(got, h.path)
				assert.Equal(t, c.want[0] == root, h.v2, h.path)
			}

			assert.Equal(t, c.want, got)
			if c.want == nil || c.want[0] != root { // what a v2 hierarchy lacks depends on the machine
				assert.Equal(t, c.lacking, lacking(all))
			}
		})
	}
}

// TestV2 creates a cgroup in an ordinary folder with the files of cgroup v2, and removes only that cgroup.
func TestV2(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	name := folderPrefix + "x"
	dirs, h := []string{root, filepath.Join(root, name)}, hierarchy{path: root, v2: true}
	for _, dir := range dirs {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "kubepods"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpu cpuset memory"), 0o600))
	}

	assert.Equal(t, []string{"pids"}, lacking([]hierarchy{h}))
	h.make(name)
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		require.NoError(t, err)
		assert.Equal(t, "+memory", string(b)) // an ordinary file has only the last write
		for _, file := range []string{"cgroup.controllers", "cgroup.subtree_control"} {
			require.NoError(t, os.Remove(filepath.Join(dir, file)))
		}
	}

	require.Error(t, h.remove(t.Context(), "kubepods"))
	require.NoError(t, h.remove(t.Context(), name))
	assert.DirExists(t, filepath.Join(root, "kubepods"))
	assert.NoDirExists(t, filepath.Join(root, name))
}
