// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
)

// The images of this package's programs.
const (
	PauseImage = "localhost/csccm/pause:e2e"
	EchoImage  = "localhost/csccm/echo:e2e"
	// controllerImage is the chart's, without its tag.
	controllerImage = "ghcr.io/csccm/cloudstack-ccm"
)

// BuildImages writes image archives to dir: the pause and the echo program, and the
// controller with the tag of the chart. A release builds its image by ko: make release-rehearsal tests that one.
func BuildImages(ctx context.Context, dir, version string) (archives []string, err error) {
	err = must.Catch(func() { archives = buildImages(ctx, dir, version) })
	return archives, err
}

func buildImages(ctx context.Context, dir, version string) (archives []string) {
	module := must.Get(plane.ModuleDir())
	must.OK(os.MkdirAll(dir, 0o750))
	for program, image := range map[string]string{"pause": PauseImage, "echo": EchoImage} {
		binary := filepath.Join(dir, program)
		must.OK(goRun(ctx, module, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "./realnode/"+program))
		archive := binary + ".tar"
		must.OK(WriteImage(archive, image, binary))
		archives = append(archives, archive)
	}
	controller := filepath.Join(dir, "cloudstack-ccm")
	must.OK(goRun(ctx, filepath.Dir(module), "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X github.com/csccm/csccm/pkg/version.Version="+version, "-o", controller, "./cmd/cloudstack-ccm"))
	archive := controller + ".tar"
	must.OK(WriteImage(archive, controllerImage+":"+version, controller))
	return append(archives, archive)
}

func goRun(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- fixed arguments
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// WriteImage writes an archive of an image that holds one program.
func WriteImage(archive, ref, binary string) error {
	return must.Catch(func() { must.OK(writeImage(archive, ref, binary)) })
}

func writeImage(archive, ref, binary string) error {
	content := must.Get(os.ReadFile(binary)) // #nosec G304 -- just built
	program := filepath.Base(binary)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	must.OK(w.WriteHeader(&tar.Header{Name: program, Mode: 0o755, Size: int64(len(content))}))
	must.Get(w.Write(content))
	must.OK(w.Close())
	l := must.Get(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }))
	img := must.Get(mutate.AppendLayers(empty.Image, l))
	config := must.Get(img.ConfigFile())
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch()
	config.Config = v1.Config{Entrypoint: []string{"/" + program}, User: "65532:65532", WorkingDir: "/", Env: []string{"PATH=/"}}
	img = must.Get(mutate.ConfigFile(img, config))
	tag := must.Get(name.NewTag(ref))
	return tarball.WriteToFile(archive, tag, img)
}
