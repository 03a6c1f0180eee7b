// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/csccm/csccm/installer/commands/images"
	"github.com/csccm/csccm/installer/engine/diff"
)

// The files of the ISO that have a meaning for CKS, beyond its binaries.
const (
	providerFile  = "provider.yaml"
	networkFile   = "network.yaml"
	dashboardFile = "dashboard.yaml"
	headlampFile  = "headlamp.yaml"
	kubeadmFile   = "10-kubeadm.conf"
	imageFolder   = "docker"
)

// binaries are what CKS copies to /opt/bin.
var binaries = []string{"k8s/kubeadm", "k8s/kubectl", "k8s/kubelet"}

// needed are patterns of which exactly one file must be there: the scripts of CKS name these files with a wildcard.
var needed = append([]string{"cni/cni-plugins-*64.tgz", "cri-tools/crictl-linux-*64.tar.gz", "kubelet.service", kubeadmFile, networkFile}, binaries...)

// Contents is what an ISO, or a folder of its layout, holds.
type Contents struct {
	Version string // of Kubernetes, v1.33.1
	Arch    string // amd64 or arm64
	// files are sizes by path, archives the names of the images in each file of docker/, in one form for each image.
	files    map[string]int64
	archives map[string][]string
	// used are the images of the manifests that CKS applies, by manifest.
	used  map[string][]string
	notes []string
}

// inspect reads an ISO or a folder. It returns an error for what CKS could not make a cluster with.
func inspect(fsys fs.FS) (*Contents, error) {
	c := &Contents{files: map[string]int64{}, archives: map[string][]string{}, used: map[string][]string{}}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := fs.Stat(fsys, p) // of a link: what it leads to
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is no file", p)
		}
		if err == nil {
			c.files[p] = info.Size()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	for _, p := range c.manifests() {
		if err := c.manifest(fsys, p); err != nil {
			return nil, err
		}
	}
	for p := range c.files {
		if path.Dir(p) != imageFolder {
			continue
		}
		if c.archives[p], err = imagesOf(fsys, p); err != nil {
			c.note("%s: %v; CKS will leave it out", p, err)
		}
	}
	if c.Version, err = c.version(); err != nil {
		return nil, err
	}
	for _, p := range binaries {
		arch, err := binary64(fsys, p, c.Version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if c.Arch != "" && arch != c.Arch {
			return nil, fmt.Errorf("%s is for %s, %s for %s", p, arch, binaries[0], c.Arch)
		}
		c.Arch = arch
	}
	c.judgeImages()
	return c, nil
}

func (c *Contents) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

func (c *Contents) has(p string) bool { _, ok := c.files[p]; return ok }

// complete returns an error that names all files that CKS needs and that are not there.
func (c *Contents) complete() error {
	var wrong []string
	for _, pattern := range needed {
		var found []string
		for p := range c.files {
			if ok, _ := path.Match(pattern, p); ok {
				found = append(found, p)
			}
		}
		switch {
		case len(found) == 0:
			wrong = append(wrong, "no "+pattern)
		case len(found) > 1:
			slices.Sort(found)
			wrong = append(wrong, "more than one "+pattern+" ("+strings.Join(found, ", ")+")")
		}
	}
	if !c.has(dashboardFile) && !c.has(headlampFile) {
		wrong = append(wrong, "neither "+dashboardFile+" nor "+headlampFile)
	}
	if !c.has(providerFile) {
		wrong = append(wrong, "no "+providerFile)
	}
	if wrong == nil {
		return nil
	}
	slices.Sort(wrong)
	return errors.New("it is no Kubernetes binaries ISO of CKS: it has " + strings.Join(wrong, ", "))
}

// manifests are the files with objects that CKS applies, those that it must have applied before a cluster runs first.
func (c *Contents) manifests() []string {
	return slices.DeleteFunc([]string{networkFile, dashboardFile, headlampFile, providerFile, "autoscaler.yaml", "manifest.yaml"},
		func(p string) bool { return !c.has(p) })
}

// manifest reads the images of a manifest. Upstream's script writes whatever a web server answers into these files.
func (c *Contents) manifest(fsys fs.FS, p string) error {
	body, err := fs.ReadFile(fsys, p)
	if err != nil {
		return err
	}
	objects, err := diff.Parse(string(body))
	if err == nil && len(objects) == 0 {
		err = errors.New("it is empty")
	}
	var list []images.Image
	if err == nil {
		list, err = images.List(string(body), "")
	}
	switch {
	case err == nil:
	case p == networkFile || p == dashboardFile || p == headlampFile:
		return fmt.Errorf("%s holds no objects of Kubernetes, so CKS could not apply it: %w", p, err)
	case p != providerFile: // that one is replaced
		c.note("%s holds no objects of Kubernetes: %v", p, err)
	}
	for i := range list {
		c.used[p] = append(c.used[p], canonical(list[i].Image))
	}
	return nil
}

// judgeImages notes which images a cluster without internet would lack.
func (c *Contents) judgeImages() {
	var have []string
	for _, names := range c.archives {
		have = append(have, names...)
	}
	for _, p := range []string{networkFile, dashboardFile, headlampFile} {
		for _, image := range c.used[p] {
			if !slices.Contains(have, image) {
				c.note("%s needs the image %s, which is not in %s/: nodes pull it", p, image, imageFolder)
			}
		}
	}
	if !c.has(dashboardFile) {
		c.note("there is no %s: releases of CloudStack that know no Headlamp (4.22 and before) cannot use this ISO", dashboardFile)
	}
	slices.Sort(c.notes)
}

// obsolete are the files with images that only the provider needs which the ISO has now.
func (c *Contents) obsolete() []string {
	var others, out []string
	for p, list := range c.used {
		if p != providerFile {
			others = append(others, list...)
		}
	}
	for p, names := range c.archives {
		only := len(names) > 0
		for _, n := range names {
			only = only && slices.Contains(c.used[providerFile], n) && !slices.Contains(others, n)
		}
		if only {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// version is the tag of the API server's image, by which kubeadm finds the images of the control plane.
func (c *Contents) version() (string, error) {
	var found []string
	for _, names := range c.archives {
		for _, n := range names {
			if ref, err := name.NewTag(n); err == nil && path.Base(ref.RepositoryStr()) == "kube-apiserver" {
				found = append(found, ref.TagStr())
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) != 1 {
		return "", fmt.Errorf("want the image kube-apiserver of one version of Kubernetes in %s/, found %d %v", imageFolder, len(found), found)
	}
	if v, err := semver.StrictNewVersion(strings.TrimPrefix(found[0], "v")); err != nil || v.Original() == found[0] {
		return "", fmt.Errorf("the image kube-apiserver has the tag %s, which is no version of Kubernetes such as v1.33.1", found[0])
	}
	return found[0], nil
}

// canonical is one form for the names of an image: docker.io/library/nginx:latest and nginx are the same. A digest beside a
// tag is left out, because archives name images by tag.
func canonical(image string) string {
	tagged, digest, _ := strings.Cut(image, "@")
	if ref, err := name.NewTag(tagged); err == nil && (digest == "" || strings.Contains(path.Base(tagged), ":")) {
		return ref.Name()
	}
	if ref, err := name.NewDigest(image); err == nil {
		return ref.Name()
	}
	return image
}

// imagesOf reads the names of the images in an archive, which docker or containerd wrote.
func imagesOf(fsys fs.FS, p string) (names []string, err error) {
	in, err := fsys.Open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	found := false
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is no archive of images: %w", err)
		}
		var docker []struct{ RepoTags []string }
		var oci struct {
			Manifests []struct{ Annotations map[string]string }
		}
		switch header.Name {
		case "manifest.json":
			err = json.NewDecoder(archive).Decode(&docker)
		case "index.json":
			err = json.NewDecoder(archive).Decode(&oci)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("its %s: %w", header.Name, err)
		}
		found = true
		for _, m := range docker {
			names = append(names, m.RepoTags...)
		}
		for _, m := range oci.Manifests {
			if n := m.Annotations["io.containerd.image.name"]; n != "" {
				names = append(names, n)
			}
		}
	}
	if !found {
		return nil, errors.New("it is no archive of images: it has neither manifest.json nor index.json")
	}
	for i := range names {
		names[i] = canonical(names[i])
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// binary64 returns the architecture of a Linux program, which must be of a version of Kubernetes.
func binary64(fsys fs.FS, p, version string) (string, error) {
	in, err := fsys.Open(p)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	head := make([]byte, 20)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:4]) != "\x7fELF" {
		return "", errors.New("it is no program for Linux")
	}
	const amd64, arm64 = 62, 183 // e_machine of ELF
	arch := map[uint16]string{amd64: "amd64", arm64: "arm64"}[binary.LittleEndian.Uint16(head[18:])]
	if arch == "" {
		return "", errors.New("it is for neither amd64 nor arm64")
	}
	is, err := contains(in, version)
	if err == nil && !is {
		err = fmt.Errorf("it is not of Kubernetes %s, as the image kube-apiserver in %s/ is", version, imageFolder)
	}
	return arch, err
}

// contains reports whether a text occurs in what r reads, and no digit after it.
func contains(r io.Reader, text string) (bool, error) {
	buffer := make([]byte, 1<<20)
	for have := 0; ; {
		n, err := io.ReadFull(r, buffer[have:])
		data := buffer[:have+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return false, err
		}
		for rest := data; ; {
			i := bytes.Index(rest, []byte(text))
			if i < 0 {
				break
			}
			rest = rest[i+len(text):]
			if len(rest) == 0 && !end {
				break // the next read says what follows
			}
			if len(rest) == 0 || rest[0] < '0' || rest[0] > '9' {
				return true, nil
			}
		}
		if end {
			return false, nil
		}
		have = copy(buffer, data[len(data)-len(text):])
	}
}
