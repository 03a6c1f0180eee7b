// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

const (
	providerFile = "provider.yaml"
	imageFolder  = "docker"
)

// needed are patterns of which exactly one file must exist: the scripts of CKS name these files with a wildcard.
var needed = []string{
	"cni/cni-plugins-*64.tgz", "cri-tools/crictl-linux-*64.tar.gz", "kubelet.service", "10-kubeadm.conf",
	"network.yaml", providerFile, "k8s/kubelet", "k8s/kubeadm", "k8s/kubectl",
}

// inspect returns the version of Kubernetes, such as v1.33.1, of an ISO or a folder of its layout. It returns an error for what CKS
// could not create a cluster with.
func inspect(fsys fs.FS) (version string, err error) {
	for _, pattern := range needed {
		if found, err := fs.Glob(fsys, pattern); err != nil || len(found) != 1 {
			return "", errors.Join(fmt.Errorf("it is no Kubernetes binaries ISO of CKS: it has %d files %s, CKS needs one", len(found), pattern), err)
		}
	}
	for _, p := range []string{"network.yaml", "dashboard.yaml", "headlamp.yaml", "autoscaler.yaml", "manifest.yaml", providerFile} {
		body, err := fs.ReadFile(fsys, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		objects, perr := diff.Parse(string(body))
		if err = errors.Join(err, perr); err != nil || len(objects) == 0 { // CloudStack's script writes whatever a web server answers into these files
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
		return "", fmt.Errorf("%s/ has no image kube-apiserver with a version as its tag, such as v1.33.1 (%q)", imageFolder, version)
	}
	return version, nil
}

// imagesOfArchive returns the images in an archive as ctr and docker write it; none for another file, which CKS ignores.
func imagesOfArchive(fsys fs.FS, p string) (out []string) {
	manifest, _ := tarball.LoadManifest(func() (io.ReadCloser, error) { return fsys.Open(p) })
	for i := range manifest {
		for _, tag := range manifest[i].RepoTags {
			out = append(out, canonical(tag))
		}
	}
	return out
}

// canonical returns one form for the names of an image: docker.io/library/nginx:latest and nginx are the same. A digest
// beside a tag is left out, because archives name images by tag.
func canonical(image string) string {
	tagged, _, _ := strings.Cut(image, "@")
	if ref, err := name.NewTag(tagged); err == nil {
		return ref.Name()
	}
	return image
}

// Provider renders provider.yaml. The kubelets of CKS run without --cloud-provider=external, so the controller initialises
// nodes by itself. The image is named by its tag, under which nodes import it. CKS never applies a newer provider, so the
// objects have the annotations by which Helm takes them over.
func Provider(ctx context.Context, chart *helm.Chart, values map[string]any, kubeVersion string) (string, error) {
	for name, must := range map[string]any{"existingSecret": "", "nameOverride": "", "adoptNodes": true} {
		if v, set := values[name]; set && v != must {
			return "", report.Usage(fmt.Sprintf("chart value %s=%v does not fit clusters of CKS", name, v), "leave it out")
		}
	}
	values = helm.MergeValues(map[string]any{"image": map[string]any{"tag": chart.AppVersion()}}, values)
	values = helm.MergeValues(values, map[string]any{"adoptNodes": true, "image": map[string]any{"digest": ""}})
	manifest, err := helm.Template(ctx, metav1.NamespaceSystem, helm.ApplyRequest{Name: engine.DefaultRelease, Chart: chart, KubeVersion: kubeVersion, Values: values})
	if err != nil {
		return "", err
	}
	objects, err := diff.Parse(manifest)
	out := ""
	for i := range objects {
		annotations := map[string]string{"meta.helm.sh/release-name": engine.DefaultRelease, "meta.helm.sh/release-namespace": metav1.NamespaceSystem}
		for k, v := range objects[i].GetAnnotations() {
			annotations[k] = v
		}
		objects[i].SetAnnotations(annotations)
		body, err := yaml.Marshal(objects[i].Object)
		if err != nil {
			return "", err
		}
		out += "---\n" + string(body)
	}
	return out, err
}
