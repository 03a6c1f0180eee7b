// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv makes small ISOs for tests, with the layout of those that CloudStack's script makes.
package testenv

import (
	"archive/tar"
	"bytes"
	"embed"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/stretchr/testify/require"
)

//go:embed network.yaml dashboard.yaml provider.yaml 10-kubeadm.conf
var embedded embed.FS

// Files are the files of an ISO, by path.
type Files map[string][]byte

// Upstream returns the files of an ISO for a Kubernetes version, such as v1.33.1, and an architecture, amd64 or arm64.
// Programs are replaced by short texts.
func Upstream(version, arch string) Files {
	f := Files{
		"cni/cni-plugins-" + arch + ".tgz":           []byte("plugins"),
		"cri-tools/crictl-linux-" + arch + ".tar.gz": []byte("crictl"),
		"kubelet.service":                            []byte("[Service]\nExecStart=/opt/bin/kubelet\n"),
		"autoscaler.yaml": []byte("kind: Deployment\napiVersion: apps/v1\nmetadata: " +
			"{name: cluster-autoscaler}\n"),
		"docker/cloudstack-kubernetes-provider:v1.1.0.tar": Archive(
			"docker.io/apache/cloudstack-kubernetes-provider:v1.1.0",
		),
	}

	for _, name := range []string{"network.yaml", "dashboard.yaml", "provider.yaml", "10-kubeadm.conf"} {
		f[name], _ = embedded.ReadFile(name)
	}

	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		f["k8s/"+program] = []byte(program + " " + version + " " + arch)
	}

	for _, image := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		f["docker/"+image+":"+version+".tar"] = Archive("registry.k8s.io/" + image + ":" + version)
	}

	for _, image := range []string{
		"registry.k8s.io/pause:3.10", "docker.io/calico/node:v3.30.0", "docker.io/calico/kube-controllers:v3.30.0",
		"docker.io/kubernetesui/dashboard:v2.7.0", "docker.io/kubernetesui/metrics-scraper:v1.0.8",
	} {
		f["docker/"+filepath.Base(image)+".tar"] = Archive(image)
	}

	return f
}

// With returns a copy of the files with more added or replaced; a nil body removes a file.
func (f Files) With(more Files) Files {
	out := maps.Clone(f)
	maps.Copy(out, more)
	maps.DeleteFunc(out, func(_ string, body []byte) bool { return body == nil })
	return out
}

// ISO writes the files as an ISO.
func (f Files) ISO(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "upstream.iso")
	out, err := os.Create(name)
	require.NoError(t, err)
	volume, err := iso9660.Create(file.New(out, false), 0, 0, 2048, f.Folder(t))
	require.NoError(t, err)
	require.NoError(t, volume.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: "CDROM"}))
	require.NoError(t, out.Close())
	return name
}

// Folder writes the files to a folder.
func (f Files) Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for p, body := range f {
		name := filepath.Join(dir, filepath.FromSlash(p))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o750))
		require.NoError(t, os.WriteFile(name, body, 0o600))
	}
	return dir
}

// Image writes the archive of an image to a file.
func Image(t testing.TB, image string) string {
	t.Helper()
	return filepath.Join(Files{"image.tar": Archive(image)}.Folder(t), "image.tar")
}

// Archive returns an image archive in the format of "ctr image export", without layers.
func Archive(image string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, file := range [][2]string{
		{"blobs/sha256/0", "layer"},
		{"index.json", fmt.Sprintf(`{"manifests":[{"annotations":{"io.containerd.image.name":%q}}]}`, image)},
		{"manifest.json", fmt.Sprintf(`[{"RepoTags":[%q]}]`, image)}, {"oci-layout", `{"imageLayoutVersion":"1.0.0"}`},
	} {
		_ = w.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1]))})
		_, _ = io.WriteString(w, file[1])
	}
	_ = w.Close()
	return b.Bytes()
}
