// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/csccm/csccm/release/internal/image"
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
func (b *builder) binary(ctx context.Context, name string, platform source.Platform, tags ...string) (string, error) {
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
	if err := source.Build(ctx, b.root, "./cmd/"+name, platform, b.tree, file, tags...); err != nil {
		return "", err
	}
	b.built[key] = file
	return file, nil
}

// manualTag is the build tag of programs that write their manual pages into a directory and exit.
const manualTag = "manual"

// documentation returns the manual pages and shell completions of a program. Builds for this machine's platform write
// them, so that they always match the program.
func (b *builder) documentation(ctx context.Context, p product) ([]pack.File, error) {
	if files, ok := b.docs[p.Name]; ok {
		return files, nil
	}
	host := source.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	file, err := b.binary(ctx, p.Name, host, manualTag)
	if err != nil {
		return nil, err
	}
	files, err := manualPages(ctx, file, b.tree.Time)
	if err != nil {
		return nil, err
	}
	if p.completions {
		if file, err = b.binary(ctx, p.Name, host); err != nil {
			return nil, err
		}
		scripts, err := completions(ctx, file, p.Name)
		if err != nil {
			return nil, err
		}
		files = append(files, scripts...)
	}
	b.docs[p.Name] = files
	return files, nil
}

// manualPages returns the manual pages of all commands of a program, which file is a build of with manualTag.
func manualPages(ctx context.Context, file string, date time.Time) (all []pack.File, err error) {
	dir, err := os.MkdirTemp("", "manual-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := output(ctx, file, date, dir); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*")) // sorted
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		all = append(all, pack.File{Name: "man/" + filepath.Base(page), Mode: 0o644, Data: data})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s wrote no manual page", file)
	}
	return all, nil
}

// shells are the shells that cobra supports, with the names of their completion files; %s is the program.
var shells = []struct{ name, file string }{
	{"bash", "completions/%s.bash"},
	{"zsh", "completions/_%s"},
	{"fish", "completions/%s.fish"},
	{"powershell", "completions/%s.ps1"},
}

// completions returns the completion scripts of the program in file.
func completions(ctx context.Context, file, name string) ([]pack.File, error) {
	var all []pack.File
	for _, shell := range shells {
		script, err := output(ctx, file, time.Time{}, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(script, []byte(name)) {
			return nil, fmt.Errorf("%s completion %s prints no completion", name, shell.name)
		}
		all = append(all, pack.File{Name: fmt.Sprintf(shell.file, name), Mode: 0o644, Data: script})
	}
	return all, nil
}

// output runs the program in an environment that does not depend on this machine.
func output(ctx context.Context, file string, date time.Time, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Env = []string{
		"HOME=/home/user", "NO_COLOR=1", "TERM=dumb", "LANG=C.UTF-8", "PATH=/usr/bin", "TZ=UTC",
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(date.Unix(), 10), // the date of the pages
	}
	cmd.Dir = "/"
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// archiveName returns the name of a program's archive: csccm_1.2.3_linux_amd64.tar.gz.
func archiveName(name string, platform source.Platform, tree source.Tree) string {
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

// archive writes a program's archive and its SBOM to a directory and returns the name of the archive.
func (b *builder) archive(ctx context.Context, p product, platform source.Platform, dir string) (string, error) {
	file, err := b.binary(ctx, p.Name, platform)
	if err != nil {
		return "", err
	}
	program := p.Name
	if platform.OS == "windows" {
		program += ".exe"
	}
	var files []pack.File
	for _, f := range []struct {
		name, from string
		mode       int64
	}{{program, file, 0o755}, {"LICENSE", filepath.Join(b.root, "LICENSE"), 0o644}, {"README.md", filepath.Join(b.root, "README.md"), 0o644}} {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return "", err
		}
		files = append(files, pack.File{Name: f.name, Mode: f.mode, Data: data})
	}
	docs, err := b.documentation(ctx, p)
	if err != nil {
		return "", err
	}
	name := archiveName(p.Name, platform, b.tree)
	var out bytes.Buffer
	if err := pack.Write(&out, name, append(files, docs...), b.tree.Time); err != nil {
		return "", err
	}
	if err := writePublic(filepath.Join(dir, name), out.Bytes()); err != nil {
		return "", err
	}
	bill, err := sbom.Binary(file, p.Name, platform, b.tree)
	if err != nil {
		return "", err
	}
	text, err := sbom.JSON(bill)
	if err != nil {
		return "", err
	}
	return name, writePublic(filepath.Join(dir, sbomName(name)), text)
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
func (b *builder) image(ctx context.Context, spec image.Spec, platforms []source.Platform) (v1.ImageIndex, error) {
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
func (b *builder) imageSBOM(ctx context.Context, spec image.Spec, platform source.Platform, digest string) ([]byte, error) {
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
