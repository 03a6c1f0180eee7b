// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
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

// BuildImages writes image archives to dir: the pause and the echo program, and the controller with the tag of the chart.
// A release builds its image by ko: make release-rehearsal tests that one.
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
		WriteImage(binary+".tar", b.image, binary)
		archives = append(archives, binary+".tar")
	}
	return archives
}

// WriteImage writes an archive of an image that holds one program.
func WriteImage(archive, ref, binary string) {
	content := must.Get(os.ReadFile(binary)) // #nosec G304 -- just built
	program := filepath.Base(binary)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	must.OK(w.WriteHeader(&tar.Header{Name: program, Mode: 0o755, Size: int64(len(content))}))
	must.Get(w.Write(content))
	must.OK(w.Close())
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	l := must.Get(tarball.LayerFromOpener(open))
	img := must.Get(mutate.AppendLayers(empty.Image, l))
	config := must.Get(img.ConfigFile()).DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/" + program}, User: "65532:65532", WorkingDir: "/", Env: []string{"PATH=/"}}
	img = must.Get(mutate.ConfigFile(img, config))
	must.OK(tarball.WriteToFile(archive, must.Get(name.NewTag(ref)), img))
}
