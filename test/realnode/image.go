// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
)

const pauseImage = "localhost/csccm/pause:e2e"

// BuildImages writes image archives to dir: the pause program, the echo program, and the controller with the tag of
// the chart. The image of a release is built by ko; make release-rehearsal tests it.
func BuildImages(ctx context.Context, module, dir, version string) (archives []string) {
	must.OK(os.MkdirAll(dir, 0o750))
	for _, b := range []struct{ image, dir, program string }{
		{pauseImage, module, "./realnode/pause"},
		{"localhost/csccm/echo:e2e", module, "./realnode/echo"},
		{"ghcr.io/csccm/cloudstack-ccm:" + version, filepath.Dir(module), "./cmd/cloudstack-ccm"},
	} {
		binary := filepath.Join(dir, filepath.Base(b.program))
		must.Get(program.Go(ctx, b.dir, "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -X github.com/csccm/csccm/pkg/version.Version="+version, "-o", binary, b.program))
		WriteImage(binary+".tar", b.image, binary, nil)
		archives = append(archives, binary+".tar")
	}
	return archives
}

// tools are programs of this machine that Kubernetes' tests run in Pods, by their paths in the image.
var tools = map[string]string{
	"/bin/sh": "/bin/dash", "/bin/curl": "/usr/bin/curl", "/bin/wget": "/usr/bin/wget", "/bin/nc": "/bin/nc.openbsd",
}

var library = regexp.MustCompile(`/\S+`)

// Tools returns the files of an image in which Kubernetes' tests find a shell and clients, by their paths: programs of
// this machine and the libraries that they load.
func Tools(ctx context.Context) map[string]string {
	files := maps.Clone(tools)
	for _, tool := range tools {
		libraries := must.Get(exec.CommandContext(ctx, "ldd", tool).Output()) // #nosec G204 -- of the table above
		for _, path := range library.FindAllString(string(libraries), -1) {
			files[path] = path
		}
	}
	return files
}

// WriteImage writes an archive of an image with a program and other files, by their paths in the image.
func WriteImage(archive, ref, binary string, more map[string]string) {
	program := filepath.Base(binary)
	files := map[string]string{program: binary}
	maps.Copy(files, more)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for path, file := range files {
		content := must.Get(os.ReadFile(file)) // #nosec G304 -- just built, or of the machine
		must.OK(w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(content))}))
		must.Get(w.Write(content))
	}

	must.OK(w.Close())
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	l := must.Get(tarball.LayerFromOpener(open))
	img := must.Get(mutate.AppendLayers(empty.Image, l))
	config := must.Get(img.ConfigFile()).DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{
		Entrypoint: []string{"/" + program},
		User:       "65532:65532",
		WorkingDir: "/",
		Env:        []string{"PATH=/:/bin"},
	}

	img = must.Get(mutate.ConfigFile(img, config))
	must.OK(tarball.WriteToFile(archive, must.Get(name.NewTag(ref)), img))
}
