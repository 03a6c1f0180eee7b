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
func BuildImages(ctx context.Context, dir, version string) ([]string, error) {
	module, err := plane.ModuleDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	var archives []string
	for program, image := range map[string]string{"pause": PauseImage, "echo": EchoImage} {
		binary := filepath.Join(dir, program)
		if err := goRun(ctx, module, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "./realnode/"+program); err != nil {
			return nil, err
		}
		archive := binary + ".tar"
		if err := WriteImage(archive, image, binary); err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	controller := filepath.Join(dir, "cloudstack-ccm")
	if err := goRun(ctx, filepath.Dir(module), "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X github.com/csccm/csccm/pkg/version.Version="+version, "-o", controller, "./cmd/cloudstack-ccm"); err != nil {
		return nil, err
	}
	archive := controller + ".tar"
	if err := WriteImage(archive, controllerImage+":"+version, controller); err != nil {
		return nil, err
	}
	return append(archives, archive), nil
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
	content, err := os.ReadFile(binary) // #nosec G304 -- just built
	if err != nil {
		return err
	}
	program := filepath.Base(binary)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: program, Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch()
	config.Config = v1.Config{Entrypoint: []string{"/" + program}, User: "65532:65532", WorkingDir: "/", Env: []string{"PATH=/"}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, img)
}
