// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample are files as an ISO of CKS has them: long names, many in one directory, one that is empty, one of whole sectors.
func sample() map[string]string {
	out := map[string]string{
		"network.yaml": "kind: DaemonSet\n", "10-kubeadm.conf": "[Service]\n", "empty": "",
		"k8s/kubelet": strings.Repeat("k", 2*sector), "a/b/c/d": "deep", "cni/cni-plugins-linux-amd64.tgz": strings.Repeat("c", sector+1),
		"docker/" + strings.Repeat("n", maxName): "long",
	}
	for i := range 60 {
		out[fmt.Sprintf("docker/an-image-with-a-long-name-%d:v1.33.1.tar", i)] = fmt.Sprint(i)
	}
	return out
}

func files(content map[string]string) []File {
	var out []File
	for name, text := range content { // in no order
		out = append(out, File{Path: name, Size: int64(len(text)), Executable: strings.HasPrefix(name, "k8s/"), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}})
	}
	return out
}

func write(t *testing.T, content map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, "K8S_1_33_1", files(content)))
	name := filepath.Join(t.TempDir(), "test.iso")
	require.NoError(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

func TestVolumesComeBack(t *testing.T) {
	t.Parallel()
	want := sample()
	v, err := Open(write(t, want))
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	got := map[string]string{}
	require.NoError(t, fs.WalkDir(v, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(v, p)
		got[p] = string(body)
		info, _ := d.Info()
		require.Equal(t, strings.HasPrefix(p, "k8s/"), info.Mode()&0o111 != 0, p)
		return err
	}))
	require.Equal(t, want, got)
}

// The programs that people inspect ISOs with agree with what was written, where they are installed.
func TestOtherReadersAgree(t *testing.T) {
	t.Parallel()
	content := sample()
	volume := write(t, content)
	names := []string{}
	for name := range content {
		names = append(names, name)
	}
	slices.Sort(names)
	list := func(out string) []string {
		var found []string
		for line := range strings.Lines(out) {
			line = strings.TrimPrefix(strings.Trim(strings.TrimSpace(line), "'"), "/")
			if _, ok := content[line]; ok {
				found = append(found, line)
			}
		}
		slices.Sort(found)
		return found
	}
	for program, args := range map[string][]string{
		"isoinfo": {"-i", volume, "-R", "-f"},
		"bsdtar":  {"-t", "-f", volume},
		"xorriso": {"-indev", volume, "-find", "/", "-type", "f"},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(program); err != nil {
				t.Skip("not installed")
			}
			out, err := exec.CommandContext(t.Context(), program, args...).Output()
			require.NoError(t, err)
			require.Equal(t, names, list(string(out)))
		})
	}
	t.Run("content", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("bsdtar"); err != nil {
			t.Skip("not installed")
		}
		dir := t.TempDir()
		require.NoError(t, exec.CommandContext(t.Context(), "bsdtar", "-x", "-f", volume, "-C", dir).Run())
		for name, want := range content {
			body, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, want, string(body), name)
		}
	})
}

func TestSameFilesSameBytes(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile(write(t, sample()))
	require.NoError(t, err)
	for range 3 {
		again, err := os.ReadFile(write(t, sample()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(first, again))
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files []File
		want  string
	}{
		"parent":    {files(map[string]string{"../a": ""}), "no path"},
		"absolute":  {files(map[string]string{"/a": ""}), "no path"},
		"unclean":   {files(map[string]string{"a//b": ""}), "no path"},
		"twice":     {slices.Concat(files(map[string]string{"a": "1"}), files(map[string]string{"a": "2"})), "a is there twice"},
		"both":      {files(map[string]string{"a": "", "a-b": "", "a/b": ""}), "a is a file and a directory"},
		"long name": {files(map[string]string{strings.Repeat("x", maxName+1): ""}), "at most 150 bytes"},
		"large":     {[]File{{Path: "a", Size: 1 << 32}}, "at most 4 GiB"},
		"shrunk":    {[]File{{Path: "a", Size: 5, Open: files(map[string]string{"a": "four"})[0].Open}}, "a changed while it was read"},
		"grown":     {[]File{{Path: "a", Size: 3, Open: files(map[string]string{"a": "four"})[0].Open}}, "a changed while it was read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, Write(io.Discard, "X", c.files), c.want)
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(write(t, sample()))
	require.NoError(t, err)
	damaged := slices.Clone(good)
	copy(damaged[(pathTable+2)*sector:], bytes.Repeat([]byte{0xff}, sector)) // the root directory
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"empty":   {nil, "no volume descriptor"},
		"text":    {bytes.Repeat([]byte("<html>404</html>"), 10_000), "no volume descriptor"},
		"cut off": {good[:len(good)-2*sector], "cut off"},
		"damaged": {damaged, "no ISO 9660 volume"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "x.iso")
			require.NoError(t, os.WriteFile(file, c.body, 0o600))
			_, err := Open(file)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, file)
		})
	}
}
