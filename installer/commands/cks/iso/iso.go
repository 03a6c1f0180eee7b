// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package iso makes an ISO for CloudStack Kubernetes Service (CKS) whose provider is csccm's controller: from an ISO that
// CloudStack's script made, or a folder of the same layout. CKS takes all of a new cluster from such an ISO: binaries,
// images, and the manifests of network, dashboard and provider. docs/cks-iso.md says which step reads what.
package iso

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/commands/cks/iso/volume"
	"github.com/csccm/csccm/installer/commands/images"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// Images gives images as archives that containerd imports on nodes.
type Images interface {
	// ForNode writes the archive of an image for an architecture to a file, and returns the image's digest.
	ForNode(ctx context.Context, reference, arch, file string) (digest string, err error)
}

// Options say what to make.
type Options struct {
	From       string // ISO, or folder of its layout
	To         string // file to write; must not exist
	Kubernetes string // the version that From must have; "" = any
	Chart      *helm.Chart
	Values     map[string]any
	Images     Images
	External   bool // kubelets get --cloud-provider=external
	DryRun     bool
	Progress   func(text string)
}

// Result is what csccm cks iso shows.
type Result struct {
	SchemaVersion int    `json:"schemaVersion"`
	DryRun        bool   `json:"dryRun"`
	File          string `json:"file"`
	Size          int64  `json:"size"`
	// Checksum is in the form of the parameter checksum of addKubernetesSupportedVersion.
	Checksum   string   `json:"checksum"`
	Kubernetes string   `json:"kubernetesVersion"`
	Arch       string   `json:"arch"` // as CloudStack names it
	Chart      string   `json:"chart"`
	Images     []Image  `json:"images"`
	Files      []Change `json:"files"`
	// Unchanged is the number of files that are as in the ISO that was given.
	Unchanged int      `json:"unchanged"`
	Notes     []string `json:"notes"`
}

// Image is an image that was added.
type Image struct {
	Image  string `json:"image"`
	Digest string `json:"digest"`
	File   string `json:"file"`
}

// Change is a file that differs from the ISO that was given.
type Change struct {
	Path   string `json:"path"`
	Action string `json:"action"` // added, replaced, removed
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
}

// URL is where CloudStack would find the file, on a web server that is still to be named.
func (r *Result) URL() string { return "http://WEB-SERVER/" + filepath.Base(r.File) }

// arches are CloudStack's names of architectures.
var arches = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// Make makes an ISO. Nothing is written to the file before all that goes into it is there and fits.
func Make(ctx context.Context, o *Options) (_ *Result, err error) {
	if err := writable(o.To); err != nil {
		return nil, err
	}
	from, err := open(o.From)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	o.Progress("read " + o.From)
	have, err := inspect(from)
	if err != nil {
		return nil, &report.Error{
			What: o.From, Err: err, Code: report.ExitUsage,
			Fix: "make an ISO with create-kubernetes-binaries-iso.sh of your CloudStack, and name it with --from",
		}
	}
	if want := "v" + strings.TrimPrefix(o.Kubernetes, "v"); o.Kubernetes != "" && want != have.Version {
		return nil, report.Usage(fmt.Sprintf("%s holds Kubernetes %s, not %s", o.From, have.Version, want), "name another ISO, or leave out --kubernetes-version")
	}
	if o.Values["adoptNodes"] == false && !o.External {
		return nil, report.Usage("with adoptNodes=false no node would get a provider ID: kubelets of CKS run without "+externalFlag,
			"leave out adoptNodes=false, or add --external-kubelets")
	}
	provider, err := Provider(ctx, o.Chart, o.Values, have.Version)
	if err != nil {
		return nil, err
	}
	m := &maker{Options: o, from: from, have: have, changed: map[string]*volume.File{}}
	if m.work, err = os.MkdirTemp("", "csccm-iso-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.work)) }()
	m.result = &Result{
		SchemaVersion: 1, DryRun: o.DryRun, File: o.To, Kubernetes: have.Version, Arch: arches[have.Arch], Chart: o.Chart.Version(),
		Images: []Image{}, Files: []Change{}, Notes: append([]string{}, have.notes...),
	}
	m.replace(providerFile, []byte(provider))
	for _, p := range have.obsolete() {
		m.changed[p] = nil
	}
	if o.External {
		if err := m.external(); err != nil {
			return nil, err
		}
	}
	if err := m.images(ctx, provider); err != nil {
		return nil, err
	}
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	return m.result, m.write(ctx, files)
}

// writable returns an error unless a file can be made there.
func writable(to string) error {
	if _, err := os.Lstat(to); err == nil {
		return report.Usage(to+" exists", "remove it, or name another file")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return &report.Error{Err: err, Fix: "name a file that can be written", Code: report.ExitUsage}
	}
	if info, err := os.Stat(filepath.Dir(to)); err != nil || !info.IsDir() {
		return report.Usage("there is no folder "+filepath.Dir(to), "make it, or name a file in another folder")
	}
	return nil
}

type source interface {
	fs.FS
	io.Closer
}

type folder struct{ fs.FS }

func (folder) Close() error { return nil }

// open opens an ISO or a folder.
func open(from string) (source, error) {
	info, err := os.Stat(from)
	if err == nil && info.IsDir() {
		return folder{os.DirFS(from)}, nil
	}
	var v *volume.Volume
	if err == nil {
		v, err = volume.Open(from)
	}
	if err != nil {
		return nil, &report.Error{What: "--from", Err: err, Code: report.ExitUsage, Fix: "name an ISO that create-kubernetes-binaries-iso.sh made, or a folder of its layout"}
	}
	return v, nil
}

type maker struct {
	*Options
	from   fs.FS
	have   *Contents
	work   string
	result *Result
	// changed are the files that differ; nil for those that are left out.
	changed map[string]*volume.File
}

func (m *maker) replace(p string, body []byte) {
	m.changed[p] = &volume.File{Path: p, Size: int64(len(body)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }}
}

// external gives the kubelets the flag. CKS applies the provider only when the dashboard runs, so the Pods that it waits
// for must tolerate nodes that no controller has initialised.
func (m *maker) external() error {
	body, err := fs.ReadFile(m.from, kubeadmFile)
	if err != nil {
		return err
	}
	dropIn, err := withExternal(string(body))
	if err != nil {
		return report.Usage(fmt.Sprintf("%s of %s: %s", kubeadmFile, m.From, err), "give the kubelet's flag there yourself, or leave out --external-kubelets")
	}
	if dropIn != string(body) {
		m.replace(kubeadmFile, []byte(dropIn))
	}
	for _, p := range []string{networkFile, dashboardFile, headlampFile} {
		if !m.have.has(p) {
			continue
		}
		if body, err = fs.ReadFile(m.from, p); err != nil {
			return err
		}
		tolerant, objects, err := tolerating(body)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if objects != nil {
			m.replace(p, tolerant)
			m.result.Notes = append(m.result.Notes, fmt.Sprintf("%s: Pods of %s tolerate nodes that are not initialised", p, strings.Join(objects, ", ")))
		}
	}
	return nil
}

// images adds the images of the provider.
func (m *maker) images(ctx context.Context, provider string) error {
	list, err := images.List(provider, "")
	if err != nil {
		return err
	}
	for i, image := range list {
		m.Progress("image " + image.Image)
		file := filepath.Join(m.work, fmt.Sprintf("%d.tar", i))
		digest, err := m.Images.ForNode(ctx, image.Image, m.have.Arch, file)
		if err != nil {
			return report.Remedied(err, "check the chart values image.*, the login (docker login) and the network, or give an archive of csccm images save with --images")
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		p := path.Join(imageFolder, path.Base(image.Repository)+":"+cmp.Or(image.Tag, strings.TrimPrefix(image.Digest, "sha256:"), "latest")+".tar")
		m.changed[p] = &volume.File{Path: p, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(file) }}
		m.result.Images = append(m.result.Images, Image{Image: image.Image, Digest: digest, File: p})
	}
	return nil
}

// files returns all files of the new ISO, and notes the changes.
func (m *maker) files() ([]volume.File, error) {
	var out []volume.File
	for p, size := range m.have.files {
		if _, differs := m.changed[p]; differs {
			continue
		}
		m.result.Unchanged++
		out = append(out, volume.File{
			Path: p, Size: size, Executable: slices.Contains(binaries, p), Open: func() (io.ReadCloser, error) { return m.from.Open(p) },
		})
	}
	for p, f := range m.changed {
		change := Change{Path: p, Action: "added"}
		if old, is := m.have.files[p]; is {
			change.Action = "replaced"
			if f == nil {
				change.Action, change.Size = "removed", old
			}
		}
		if f != nil {
			digest := sha256.New()
			if err := read(f, digest); err != nil {
				return nil, err
			}
			change.Size, change.SHA256 = f.Size, hex.EncodeToString(digest.Sum(nil))
			out = append(out, *f)
		}
		m.result.Files = append(m.result.Files, change)
	}
	slices.SortFunc(m.result.Files, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func read(f *volume.File, w io.Writer) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	_, err = io.Copy(w, in)
	return err
}

// write writes the ISO under another name, and gives it its own when it is complete. A dry run writes nothing.
func (m *maker) write(ctx context.Context, files []volume.File) (err error) {
	out := &counted{ctx: ctx, w: io.Discard}
	var file *os.File
	if !m.DryRun {
		m.Progress("write " + m.To)
		if file, err = os.CreateTemp(filepath.Dir(m.To), "."+filepath.Base(m.To)+"-*"); err != nil {
			return report.Remedied(err, "name a file in a folder that can be written to")
		}
		defer func() {
			if err != nil {
				_ = file.Close()
				_ = os.Remove(file.Name())
			}
		}()
		out.w = file
	}
	digest := sha256.New()
	label := "K8S_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_", "+", "_").Replace(m.have.Version))
	if err := volume.Write(io.MultiWriter(out, digest), label, files); err != nil {
		return err
	}
	m.result.Size, m.result.Checksum = out.n, "{SHA-256}"+hex.EncodeToString(digest.Sum(nil))
	if m.DryRun {
		return nil
	}
	if err := errors.Join(file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), m.To)
}

// counted counts what is written, until ctx ends.
type counted struct {
	ctx context.Context //nolint:containedctx // lives as long as one write of an ISO
	w   io.Writer
	n   int64
}

func (c *counted) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
