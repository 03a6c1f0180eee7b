// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package iso makes a Kubernetes binaries ISO for CloudStack Kubernetes Service (CKS) whose provider.yaml installs
// csccm's controller. It starts from an ISO that CloudStack's script made, or from a folder with the same layout.
// docs/cks.md says which step of CKS reads which file.
package iso

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
)

// Options say what to make.
type Options struct {
	From   string // ISO, or a folder with the same layout
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

// Make makes an ISO. It writes a temporary file and renames it at the end, so o.To is never incomplete.
func Make(ctx context.Context, o *Options) (_ *Result, err error) {
	if _, err := os.Lstat(o.To); err == nil {
		return nil, report.Usage("remove it, or name another file", "%s exists", o.To)
	}

	from, err := Open(o.From)
	if err != nil {
		return nil, unusable("--from", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()

	kubernetes, err := inspect(from)
	if err != nil {
		return nil, unusable("--from "+o.From, err)
	}

	files, err := from.files(ctx)
	if err != nil {
		return nil, unusable("--from "+o.From, err)
	}

	provider, err := Provider(ctx, o.Chart, o.Values, kubernetes)
	if err != nil {
		return nil, err
	}

	list, err := helm.Images(provider, "")
	if err != nil || len(list) != 1 {
		return nil, errors.Join(fmt.Errorf("want a chart with one image, it has %d", len(list)), err)
	}

	archive, image := os.DirFS(filepath.Dir(o.Image)), canonical(list[0].Image)
	if tags := imagesOfArchive(archive, filepath.Base(o.Image)); !slices.Contains(tags, image) {
		return nil, report.Usage(
			"write one for the architecture of the nodes: crane pull --platform linux/amd64 "+
				list[0].Image+" cloudstack-ccm.tar",
			"--image %s: it is not an archive of image %s, it has %v", o.Image, image, tags,
		)
	}

	r := &Result{
		SchemaVersion: 1,
		File:          o.To,
		Kubernetes:    kubernetes,
		Chart:         o.Chart.Version(),
		Added:         path.Join(imageFolder, path.Base(image)+".tar"),
	}

	work, err := os.MkdirTemp(filepath.Dir(o.To), ".csccm-iso-*")
	if err != nil {
		return nil, &report.Error{
			Err:  err,
			Fix:  "name a file in a folder that can be written to",
			Code: report.ExitUsage,
		}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	root, disk := filepath.Join(work, "root"), filepath.Join(work, "iso")
	for _, p := range files {
		if err = cmp.Or(ctx.Err(), copied(from, p, filepath.Join(root, p))); err != nil {
			break
		}
	}

	if err == nil {
		err = errors.Join(
			copied(archive, filepath.Base(o.Image), filepath.Join(root, r.Added)),
			os.WriteFile(filepath.Join(root, providerFile), []byte(provider), 0o600),
		)
	}

	if err == nil {
		err = burn(
			disk, root,
			"K8S_"+strings.ToUpper(strings.NewReplacer(".", "_", "-", "_", "+", "_").Replace(kubernetes)),
		)
	}

	if err != nil {
		return nil, err
	}

	digest := sha256.New()
	err = copyTo(digest, os.DirFS(work), "iso")
	r.Checksum = "{SHA-256}" + hex.EncodeToString(digest.Sum(nil))
	return r, errors.Join(err, os.Rename(disk, o.To))
}

func unusable(what string, err error) error {
	if report.Interrupted(err) {
		return err
	}
	return report.Usage(
		"name an ISO that create-kubernetes-binaries-iso.sh of your CloudStack made, or a folder of its layout",
		"%s: %w", what, err,
	)
}

// copied copies a file, and creates the folder of the copy if it is missing.
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

// Disk is an open ISO, or an open folder with the same layout.
type Disk struct {
	fs.FS
	io.Closer
	size int64 // of the ISO; 0 for a folder
}

// files returns the names of all files. An ISO is not trusted: if it has folders that contain themselves, or files that
// are larger than the ISO, files returns an error, because the copy would not end.
func (d Disk) files(ctx context.Context) (names []string, err error) {
	// Twice the size of the ISO, because files with the same content may share their sectors.
	folders, remaining := map[uint32]string{}, 2*d.size
	err = fs.WalkDir(d, ".", func(p string, entry fs.DirEntry, err error) error {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		if !entry.IsDir() {
			names = append(names, p)
		}

		record, onISO := info.Sys().(*iso9660.StatT)
		if !onISO {
			return nil
		}

		if !entry.IsDir() {
			if remaining -= info.Size(); remaining < 0 {
				return fmt.Errorf("its files are larger than the image, such as %s of %d bytes", p, info.Size())
			}
			return nil
		}

		if same, seen := folders[record.Location]; seen {
			return fmt.Errorf("its folder %s is the same as %s", p, same)
		}

		folders[record.Location] = p
		return nil
	})

	return names, err
}

// Open opens an ISO or a folder.
func Open(from string) (_ Disk, err error) {
	f, err := os.Open(from) // #nosec G304 -- the user names it
	if err != nil {
		return Disk{}, err
	}

	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return Disk{FS: os.DirFS(from), Closer: f}, nil
	}

	defer func() {
		if r := recover(); r != nil { // the library does not check all numbers that it reads, and may panic
			err = fmt.Errorf("its directories are damaged: %v", r)
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()

	volume, err := iso9660.Read(file.New(f, true), info.Size(), 0, sector)
	return Disk{volume, f, info.Size()}, err
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

const (
	providerFile = "provider.yaml"
	imageFolder  = "docker"
)

// needed are patterns that must match exactly one file each: the scripts of CKS find these files with wildcards.
var needed = []string{
	"cni/cni-plugins-*64.tgz", "cri-tools/crictl-linux-*64.tar.gz", "kubelet.service", "10-kubeadm.conf",
	"network.yaml", providerFile, "k8s/kubelet", "k8s/kubeadm", "k8s/kubectl",
}

// inspect returns the Kubernetes version, such as v1.33.1, of an ISO or a folder with the same layout. It returns an
// error if CKS could not create a cluster with it.
func inspect(fsys fs.FS) (version string, err error) {
	for _, pattern := range needed {
		if found, err := fs.Glob(fsys, pattern); err != nil || len(found) != 1 {
			return "", errors.Join(fmt.Errorf(
				"it is not a Kubernetes binaries ISO of CKS: it has %d files %s, CKS needs one", len(found), pattern,
			), err)
		}
	}

	for _, p := range []string{
		"network.yaml", "dashboard.yaml", "headlamp.yaml", "autoscaler.yaml", "manifest.yaml", providerFile,
	} {
		body, err := fs.ReadFile(fsys, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		// CloudStack's script downloads these files and does not check them: they may hold the error page of a server.
		objects, perr := diff.Parse(string(body))
		if err = errors.Join(err, perr); err != nil || len(objects) == 0 {
			return "", errors.Join(fmt.Errorf("%s has no Kubernetes objects that CKS could apply", p), err)
		}
	}

	archives, err := fs.Glob(fsys, imageFolder+"/*")
	if err != nil {
		return "", err
	}

	for _, p := range archives {
		for _, t := range imagesOfArchive(fsys, p) {
			if repository, tag, _ := strings.Cut(path.Base(t), ":"); repository == "kube-apiserver" {
				version = tag
			}
		}
	}

	if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err != nil {
		return "", fmt.Errorf("%s/ has no image kube-apiserver with a version as its tag, such as v1.33.1 (%q)",
			imageFolder, version)
	}

	return version, nil
}

// imagesOfArchive returns the names of the images in an archive that ctr or docker wrote. It returns none for any other
// file, because CKS ignores such files.
func imagesOfArchive(fsys fs.FS, p string) (out []string) {
	manifest, _ := tarball.LoadManifest(func() (io.ReadCloser, error) { return fsys.Open(p) })
	for _, m := range manifest {
		for _, tag := range m.RepoTags {
			out = append(out, canonical(tag))
		}
	}
	return out
}

// canonical returns the full name of an image: docker.io/library/nginx:latest for nginx. It leaves out a digest after a
// tag, because archives name images by tag.
func canonical(image string) string {
	tagged, _, _ := strings.Cut(image, "@")
	if ref, err := name.NewTag(tagged); err == nil {
		return ref.Name()
	}
	return image
}

// Provider renders provider.yaml. The kubelets of CKS run without --cloud-provider=external, so the value adoptNodes
// makes the controller initialise nodes without the taint. The image is named by its tag, because nodes import it under
// that name. CKS never applies a newer provider.yaml, so the objects have the annotations that let Helm adopt them.
func Provider(ctx context.Context, chart *helm.Chart, values map[string]any, kubeVersion string) (string, error) {
	for name, must := range map[string]any{"existingSecret": "", "nameOverride": "", "adoptNodes": true} {
		if v, set := values[name]; set && v != must {
			return "", report.Usage("leave it out", "chart value %s=%v does not fit clusters of CKS", name, v)
		}
	}

	values = helm.MergeValues(map[string]any{"image": map[string]any{"tag": chart.AppVersion()}}, values)
	values = helm.MergeValues(values, map[string]any{"adoptNodes": true, "image": map[string]any{"digest": ""}})
	manifest, err := helm.Template(ctx, metav1.NamespaceSystem, helm.ApplyRequest{
		Name:        cluster.DefaultRelease,
		Chart:       chart,
		KubeVersion: kubeVersion,
		Values:      values,
	})
	if err != nil {
		return "", err
	}

	objects, err := diff.Parse(manifest)

	out := ""
	for _, o := range objects {
		annotations := map[string]string{
			"meta.helm.sh/release-name":      cluster.DefaultRelease,
			"meta.helm.sh/release-namespace": metav1.NamespaceSystem,
		}
		maps.Copy(annotations, o.GetAnnotations())
		o.SetAnnotations(annotations)

		body, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", err
		}

		out += "---\n" + string(body)
	}

	return out, err
}
