// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package iso makes an ISO for CloudStack Kubernetes Service (CKS) whose provider is csccm's controller, from an ISO that
// CloudStack's script made, or a folder of the same layout. docs/cks.md says which step of CKS reads what.
package iso

import (
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

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/images"
)

// Options say what to make.
type Options struct {
	From   string // ISO, or folder of its layout
	To     string // file to write; must not exist
	Image  string // archive of the controller's image, as docker save writes it
	Chart  *helm.Chart
	Values map[string]any
}

// Result is what csccm cks iso shows.
type Result struct {
	SchemaVersion int    `json:"schemaVersion"`
	File          string `json:"file"`
	// Checksum is in the form of the parameter checksum of addKubernetesSupportedVersion.
	Checksum   string `json:"checksum"`
	Kubernetes string `json:"kubernetesVersion"`
	Chart      string `json:"chart"`
	Added      string `json:"added"` // file with the controller's image
}

// Make makes an ISO. The file appears when it is complete.
func Make(ctx context.Context, o *Options) (_ *Result, err error) {
	if _, err := os.Lstat(o.To); err == nil {
		return nil, report.Usage(o.To+" exists", "remove it, or name another file")
	}
	from, err := Open(o.From)
	if err != nil {
		return nil, unfit("--from", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	kubernetes, err := inspect(from)
	if err != nil {
		return nil, unfit("--from "+o.From, err)
	}
	provider, err := Provider(ctx, o.Chart, o.Values, kubernetes)
	if err != nil {
		return nil, err
	}
	list, err := images.List(provider, "")
	if err != nil || len(list) != 1 {
		return nil, errors.Join(fmt.Errorf("want a chart with one image, it has %d", len(list)), err)
	}
	archive, image := os.DirFS(filepath.Dir(o.Image)), canonical(list[0].Image)
	if tags := imagesOfArchive(archive, filepath.Base(o.Image)); !slices.Contains(tags, image) {
		return nil, report.Usage(fmt.Sprintf("--image %s: it is no archive of image %s, it has %v", o.Image, image, tags),
			"write one for the architecture of the nodes: crane pull --platform linux/amd64 "+list[0].Image+" cloudstack-ccm.tar")
	}
	r := &Result{SchemaVersion: 1, File: o.To, Kubernetes: kubernetes, Chart: o.Chart.Version(), Added: path.Join(imageFolder, path.Base(image)+".tar")}
	work, err := os.MkdirTemp(filepath.Dir(o.To), ".csccm-iso-*")
	if err != nil {
		return nil, &report.Error{Err: err, Fix: "name a file in a folder that can be written to", Code: report.ExitUsage}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	root, disk := filepath.Join(work, "root"), filepath.Join(work, "iso")
	err = fs.WalkDir(from, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return errors.Join(ctx.Err(), copied(from, p, filepath.Join(root, p)))
	})
	if err == nil {
		err = errors.Join(copied(archive, filepath.Base(o.Image), filepath.Join(root, r.Added)), os.WriteFile(filepath.Join(root, providerFile), []byte(provider), 0o600))
	}
	if err == nil {
		err = burn(disk, root, "K8S_"+strings.ToUpper(strings.NewReplacer(".", "_", "-", "_", "+", "_").Replace(kubernetes)))
	}
	if err != nil {
		return nil, err
	}
	digest := sha256.New()
	err = copyTo(digest, os.DirFS(work), "iso")
	r.Checksum = "{SHA-256}" + hex.EncodeToString(digest.Sum(nil))
	return r, errors.Join(err, os.Rename(disk, o.To))
}

func unfit(what string, err error) error {
	return &report.Error{What: what, Err: err, Code: report.ExitUsage, Fix: "name an ISO that create-kubernetes-binaries-iso.sh of your CloudStack made, or a folder of its layout"}
}

// copied copies a file into a folder that may be missing.
func copied(from fs.FS, p, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	out, err := os.Create(to) // #nosec G304 -- in a folder of our own
	if err != nil {
		return err
	}
	return errors.Join(copyTo(out, from, p), out.Close())
}

func copyTo(w io.Writer, from fs.FS, p string) error {
	in, err := from.Open(p)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	_, err = io.Copy(w, in)
	return err
}

const sector = 2048

// Disk is what an ISO or a folder holds.
type Disk struct {
	fs.FS
	io.Closer
}

// Open opens an ISO or a folder.
func Open(from string) (_ Disk, err error) {
	f, err := os.Open(from) // #nosec G304 -- the user names it
	if err != nil {
		return Disk{}, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return Disk{os.DirFS(from), f}, nil
	}
	defer func() {
		if r := recover(); r != nil { // the library does not check every number that it reads
			err = fmt.Errorf("its directories are damaged: %v", r)
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	volume, err := iso9660.Read(file.New(f, true), info.Size(), 0, sector)
	return Disk{volume, f}, err
}

// burn writes the files of a folder as an ISO 9660 volume with Rock Ridge names.
func burn(to, root, label string) (err error) {
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o644)
		if err == nil && d.IsDir() || strings.HasPrefix(p, filepath.Join(root, "k8s")+string(filepath.Separator)) {
			mode = 0o755
		}
		return errors.Join(err, os.Chmod(p, mode)) // #nosec G122 -- in a folder of our own
	})
	if err != nil {
		return err
	}
	out, err := os.Create(to) // #nosec G304 -- in a folder of our own
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	volume, err := iso9660.Create(file.New(out, false), 0, 0, sector, root)
	if err == nil {
		err = volume.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: label})
	}
	return err
}
