// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/source"
)

// standIn replaces the image golang, so that no registry is needed: a busybox shell with this machine's Go and its
// caches. It builds with CGO_ENABLED=0 and -trimpath, because the caches contain most results of such builds.
const standIn = `FROM scratch
COPY bin /bin
COPY tmp /tmp
ENV PATH=/usr/local/go/bin:/bin GOMODCACHE=/gomod GOCACHE=/gocache GOPROXY=off GOFLAGS=-trimpath CGO_ENABLED=0 GOTOOLCHAIN=local HOME=/tmp
`

// The Dockerfile builds the same images as package image: the same files, byte-identical programs, the same user,
// entry point and labels. The test needs buildah and a static busybox (apt-get install buildah busybox-static). It runs
// only with CSCCM_BUILDAH=1, because it copies the tree a dozen times and links three programs twice.
func TestDockerfileBuildsTheSameImages(t *testing.T) {
	t.Parallel()
	if os.Getenv("CSCCM_BUILDAH") == "" {
		t.Skip("NOT TESTED: the Dockerfile (CSCCM_BUILDAH=1 builds it with buildah; make dockerfile)")
	}
	for _, program := range []string{"buildah", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: the Dockerfile: %s is not installed (apt-get install buildah busybox-static)", program)
		}
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	work := t.TempDir()
	buildah := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "buildah", append([]string{
			"--storage-driver", "vfs", "--root", filepath.Join(work, "root"), "--runroot", filepath.Join(work, "run"),
		}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "buildah %v\n%s", args, out)
	}
	env := func(name string) string {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	// Make everything writable, so that the test's directory can be removed.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", work).Run() }) // the test's context has ended

	base := filepath.Join(work, "golang")
	require.NoError(t, os.MkdirAll(filepath.Join(base, "bin"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(base, "tmp"), 0o755))
	shell, err := exec.LookPath("busybox")
	require.NoError(t, err)
	data, err := os.ReadFile(shell)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(base, "bin", "busybox"), data, 0o755))
	for _, name := range []string{"sh", "mkdir"} {
		require.NoError(t, os.Symlink("busybox", filepath.Join(base, "bin", name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(base, "Dockerfile"), []byte(standIn), 0o600))
	buildah("bud", "--isolation", "chroot", "-t", "localhost/golang:stand-in", base)
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	pinned := pinnedBase.FindSubmatch(text)
	require.NotNil(t, pinned)
	dockerfile := filepath.Join(work, "Dockerfile")
	require.NoError(t, os.WriteFile(dockerfile, bytes.Replace(text, pinned[1], []byte("localhost/golang:stand-in"), 1), 0o600))

	tree := source.Tree{Stamp: "v1.2.3", Version: "1.2.3", Commit: "abcdef", Time: time.Unix(1700000000, 0).UTC()}
	platform := source.Platform{OS: "linux", Arch: runtime.GOARCH}
	b := newBuilder(root, t.TempDir(), tree, io.Discard)
	for _, p := range products {
		name := "localhost/" + p.Name + ":dev"
		buildah("bud", "--isolation", "chroot", "--layers", "--pull-never", "--file", dockerfile, "--target", p.Name, "-t", name,
			"--volume", env("GOROOT")+":/usr/local/go:ro", "--volume", env("GOMODCACHE")+":/gomod", "--volume", env("GOCACHE")+":/gocache",
			"--build-arg", "VERSION="+tree.Stamp, "--build-arg", "COMMIT="+tree.Commit, "--build-arg", "DATE="+tree.Date(),
			"--build-arg", "TARGETARCH="+runtime.GOARCH, root)
		folder := filepath.Join(work, "oci-"+p.Name)
		buildah("push", "--format", "oci", name, "oci:"+folder+":dev")
		index, err := layout.ImageIndexFromPath(folder)
		require.NoError(t, err)
		theirs := firstImage(t, index)
		own, err := b.image(t.Context(), p.Spec, []source.Platform{platform})
		require.NoError(t, err)
		ours := firstImage(t, own)

		assert.Equal(t, filesOf(t, ours), filesOf(t, theirs), p.Name)
		want, have := configOf(t, ours), configOf(t, theirs)
		for label, value := range want.Labels {
			if label != "org.opencontainers.image.created" { // the Dockerfile does not set it
				assert.Equal(t, value, have.Labels[label], "%s: %s", p.Name, label)
			}
		}
		assert.Equal(t, want.User, have.User)
		assert.Equal(t, want.Entrypoint, have.Entrypoint)
		assert.Equal(t, want.Cmd, have.Cmd)
		assert.Equal(t, want.WorkingDir, have.WorkingDir)
		assert.ElementsMatch(t, want.Env, have.Env)
		assert.Equal(t, want.ExposedPorts, have.ExposedPorts)
	}
}

func firstImage(t *testing.T, index v1.ImageIndex) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	img, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	return img
}

func configOf(t *testing.T, img v1.Image) v1.Config {
	t.Helper()
	file, err := img.ConfigFile()
	require.NoError(t, err)
	return file.Config
}

// filesOf returns mode and content of the files in an image, and the mode of its directory for temporary files.
func filesOf(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	all := map[string]string{}
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		name := path.Clean("/" + header.Name)
		switch {
		case header.Typeflag == tar.TypeReg:
			sum := sha256.New()
			_, err := io.Copy(sum, files)
			require.NoError(t, err)
			all[name] = fmt.Sprintf("%o %d:%d %x", header.Mode&0o7777, header.Uid, header.Gid, sum.Sum(nil))
		case name == "/tmp":
			all[name] = fmt.Sprintf("%o", header.Mode&0o7777)
		}
	}
}
