// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv makes small ISOs as CloudStack's script makes them, for tests.
package testenv

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/csccm/csccm/installer/commands/cks/iso/volume"
)

//go:embed network.yaml
var network []byte

//go:embed dashboard.yaml
var dashboard []byte

//go:embed provider.yaml
var provider []byte

//go:embed 10-kubeadm.conf
var kubeadmConf []byte

// Files are the files of an ISO, by path.
type Files map[string][]byte

// Upstream returns the files of an ISO with a version of Kubernetes (v1.33.1), for amd64 or arm64. The programs are headers.
func Upstream(version, arch string) Files {
	f := Files{
		"cni/cni-plugins-" + arch + ".tgz":           []byte("plugins"),
		"cri-tools/crictl-linux-" + arch + ".tar.gz": []byte("crictl"),
		"kubelet.service":                            []byte("[Service]\nExecStart=/opt/bin/kubelet\n"),
		"10-kubeadm.conf":                            kubeadmConf,
		"network.yaml":                               network,
		"dashboard.yaml":                             dashboard,
		"provider.yaml":                              provider,
		"autoscaler.yaml":                            []byte("kind: Deployment\napiVersion: apps/v1\nmetadata: {name: cluster-autoscaler}\n"),
		"docker/cloudstack-kubernetes-provider:v1.1.0.tar": Archive("docker.io/apache/cloudstack-kubernetes-provider:v1.1.0"),
	}
	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		f["k8s/"+program] = Program(version, arch)
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

// With returns the files with others; nil leaves one out.
func (f Files) With(more Files) Files {
	out := maps.Clone(f)
	maps.Copy(out, more)
	maps.DeleteFunc(out, func(_ string, body []byte) bool { return body == nil })
	return out
}

// ISO writes the files as an ISO.
func (f Files) ISO(t testing.TB) string {
	t.Helper()
	var list []volume.File
	for p, body := range f {
		list = append(list, volume.File{Path: p, Size: int64(len(body)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }})
	}
	var b bytes.Buffer
	name := filepath.Join(t.TempDir(), "upstream.iso")
	if err := errors.Join(volume.Write(&b, "CDROM", list), os.WriteFile(name, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return name
}

// Folder writes the files to a folder.
func (f Files) Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for p, body := range f {
		name := filepath.Join(dir, filepath.FromSlash(p))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o750), os.WriteFile(name, body, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Program returns the header of a program for Linux, with a version of Kubernetes in it.
func Program(version, arch string) []byte {
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[arch]
	head := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 11)...)
	head = binary.LittleEndian.AppendUint16(head, machine)
	return append(head, "\x00gitVersion\x00"+version+"\x00"...)
}

// Archive returns an archive as "ctr image export" writes it, without the layers.
func Archive(images ...string) []byte {
	tags, entries := "", ""
	for i, image := range images {
		if i > 0 {
			tags, entries = tags+",", entries+","
		}
		tags += fmt.Sprintf("%q", image)
		entries += fmt.Sprintf(`{"annotations":{"io.containerd.image.name":%q}}`, image)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, file := range [][2]string{
		{"blobs/sha256/0", "layer"}, {"index.json", `{"manifests":[` + entries + `]}`},
		{"manifest.json", `[{"RepoTags":[` + tags + `]}]`}, {"oci-layout", `{"imageLayoutVersion":"1.0.0"}`},
	} {
		_ = w.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1]))})
		_, _ = io.WriteString(w, file[1])
	}
	_ = w.Close()
	return b.Bytes()
}
