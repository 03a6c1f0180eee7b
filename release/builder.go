// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/image"
	"github.com/csccm/csccm/release/internal/manual"
	"github.com/csccm/csccm/release/internal/pack"
	"github.com/csccm/csccm/release/internal/sbom"
	"github.com/csccm/csccm/release/internal/source"
)

// builder builds each program of a tree once for each platform.
type builder struct {
	root string
	// work is a directory for intermediate files.
	work     string
	tree     source.Tree
	progress io.Writer
	built    map[string]string
	docs     map[string][]pack.File
}

func newBuilder(root, work string, tree source.Tree, progress io.Writer) *builder {
	return &builder{root: root, work: work, tree: tree, progress: progress, built: map[string]string{}, docs: map[string][]pack.File{}}
}

// binary builds a program unless it is already built, and returns its file.
func (b *builder) binary(ctx context.Context, name string, platform gobuild.Platform, tags ...string) (string, error) {
	key := strings.Join(append([]string{name, platform.OS, platform.Arch}, tags...), "_")
	if file, ok := b.built[key]; ok {
		return file, nil
	}
	if _, err := fmt.Fprintf(b.progress, "build %s for %s\n", name, platform); err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(b.work, key))
	if err != nil {
		return "", err
	}
	if err := gobuild.Build(ctx, b.root, "./cmd/"+name, platform, b.tree, file, tags...); err != nil {
		return "", err
	}
	b.built[key] = file
	return file, nil
}

// documentation returns the manual pages and shell completions of a program. Builds for this machine's platform write them.
func (b *builder) documentation(ctx context.Context, p product) ([]pack.File, error) {
	if files, ok := b.docs[p.Name]; ok {
		return files, nil
	}
	host := gobuild.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	file, err := b.binary(ctx, p.Name, host, manual.Tag)
	if err != nil {
		return nil, err
	}
	files, err := manual.Pages(ctx, file, b.tree.Time)
	if err != nil {
		return nil, err
	}
	if p.completions {
		if file, err = b.binary(ctx, p.Name, host); err != nil {
			return nil, err
		}
		completions, err := manual.Completions(ctx, file, p.Name)
		if err != nil {
			return nil, err
		}
		files = append(files, completions...)
	}
	b.docs[p.Name] = files
	return files, nil
}

// archiveName returns the name of a program's archive: csccm_1.2.3_linux_amd64.tar.gz.
func archiveName(name string, platform gobuild.Platform, tree source.Tree) string {
	end := ".tar.gz"
	if platform.OS == "windows" {
		end = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s_%s%s", name, tree.Version, platform.OS, platform.Arch, end)
}

// sbomName returns the name of an archive's SBOM file.
func sbomName(archive string) string {
	return strings.TrimSuffix(strings.TrimSuffix(archive, ".tar.gz"), ".zip") + ".cdx.json"
}

// archive writes a program's archive and its SBOM to a directory and returns the names of both files.
func (b *builder) archive(ctx context.Context, p product, platform gobuild.Platform, dir string) (names []string, err error) {
	file, err := b.binary(ctx, p.Name, platform)
	if err != nil {
		return nil, err
	}
	program := pack.File{Name: p.Name, Mode: 0o755}
	if platform.OS == "windows" {
		program.Name += ".exe"
	}
	if program.Data, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	files := []pack.File{program}
	for _, text := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(b.root, text))
		if err != nil {
			return nil, err
		}
		files = append(files, pack.File{Name: text, Mode: 0o644, Data: data})
	}
	docs, err := b.documentation(ctx, p)
	if err != nil {
		return nil, err
	}
	name := archiveName(p.Name, platform, b.tree)
	if err := writeArchive(filepath.Join(dir, name), append(files, docs...), b.tree); err != nil {
		return nil, err
	}
	bill, err := sbom.Binary(file, p.Name, platform, b.tree)
	if err != nil {
		return nil, err
	}
	text, err := sbom.JSON(bill)
	if err != nil {
		return nil, err
	}
	return []string{name, sbomName(name)}, writePublic(filepath.Join(dir, sbomName(name)), text)
}

func writeArchive(file string, files []pack.File, tree source.Tree) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	return pack.Write(out, filepath.Base(file), files, tree.Time)
}

// writePublic writes a world-readable file, regardless of the umask. It writes the file completely or not at all: the
// next run would consider an incomplete file a different file published under the same name.
func writePublic(file string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".release-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// image builds the multi-platform image of a program.
func (b *builder) image(ctx context.Context, spec image.Spec, platforms []gobuild.Platform) (v1.ImageIndex, error) {
	built := make([]v1.Image, 0, len(platforms))
	for _, platform := range platforms {
		file, err := b.binary(ctx, spec.Name, platform)
		if err != nil {
			return nil, err
		}
		binary, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		img, err := image.One(spec, platform, binary, b.tree)
		if err != nil {
			return nil, fmt.Errorf("image %s for %s: %w", spec.Name, platform, err)
		}
		built = append(built, img)
	}
	return image.Many(spec, b.tree, platforms, built), nil
}

// imageSBOM returns the SBOM of the image for one platform, whose digest is sha256:HEX.
func (b *builder) imageSBOM(ctx context.Context, spec image.Spec, platform gobuild.Platform, digest string) ([]byte, error) {
	file, err := b.binary(ctx, spec.Name, platform)
	if err != nil {
		return nil, err
	}
	bill, err := sbom.Binary(file, spec.Name, platform, b.tree)
	if err != nil {
		return nil, err
	}
	return sbom.JSON(sbom.Image(bill, digest, certificatesVersion()))
}

// certificatesVersion returns the version of the module from which the root certificates in images come.
func certificatesVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "golang.org/x/crypto/x509roots/fallback" {
				return dep.Version
			}
		}
	}
	return "unknown"
}
