// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/installer/commands/cks/iso/volume"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// registry has every image, for one architecture.
type registry string

func (r registry) ForNode(_ context.Context, reference, arch, file string) (string, error) {
	if arch != string(r) {
		return "", fmt.Errorf("image %s: it is not for linux/%s", reference, arch)
	}
	return "sha256:" + strings.Repeat("0", 64), os.WriteFile(file, testenv.Archive(reference), 0o600)
}

func options(t *testing.T, from string) *Options {
	t.Helper()
	chart, err := helm.Embedded()
	require.NoError(t, err)
	return &Options{
		From: from, To: filepath.Join(t.TempDir(), "csccm.iso"), Chart: chart, Images: registry("amd64"), Progress: func(string) {},
	}
}

// made returns the files of the ISO that was made.
func made(t *testing.T, o *Options) (*Result, testenv.Files) {
	t.Helper()
	result, err := Make(t.Context(), o)
	require.NoError(t, err)
	v, err := volume.Open(o.To)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	files := testenv.Files{}
	require.NoError(t, fs.WalkDir(v, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[p], err = fs.ReadFile(v, p)
		}
		return err
	}))
	return result, files
}

const ourImage = "docker/cloudstack-ccm:v0.1.0.tar"

func TestTheProviderIsReplaced(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	o := options(t, upstream.ISO(t))
	o.Kubernetes = "1.33.1"
	result, files := made(t, o)

	provider, err := Provider(t.Context(), o.Chart, nil, "v1.33.1")
	require.NoError(t, err)
	require.Contains(t, provider, "--adopt-nodes=true")
	want := upstream.With(testenv.Files{
		"provider.yaml": []byte(provider), ourImage: testenv.Archive("ghcr.io/csccm/cloudstack-ccm:v0.1.0"),
		"docker/cloudstack-kubernetes-provider:v1.1.0.tar": nil,
	})
	require.Equal(t, want, files)

	body, err := os.ReadFile(o.To)
	require.NoError(t, err)
	digest := sha256.Sum256(body)
	require.Equal(t, "{SHA-256}"+hex.EncodeToString(digest[:]), result.Checksum)
	require.Equal(t, int64(len(body)), result.Size)
	require.Equal(t, "v1.33.1", result.Kubernetes)
	require.Equal(t, "x86_64", result.Arch)
	require.Equal(t, len(upstream)-2, result.Unchanged)
	require.Empty(t, result.Notes)
	require.Equal(t, []Image{{"ghcr.io/csccm/cloudstack-ccm:v0.1.0", "sha256:" + strings.Repeat("0", 64), ourImage}}, result.Images)
	actions := map[string]string{}
	for _, c := range result.Files {
		actions[c.Path] = c.Action
		if sum := sha256.Sum256(files[c.Path]); c.Action != "removed" {
			require.Equal(t, hex.EncodeToString(sum[:]), c.SHA256, c.Path)
			require.Equal(t, int64(len(files[c.Path])), c.Size)
		}
	}
	require.Equal(t, map[string]string{
		"provider.yaml": "replaced", ourImage: "added", "docker/cloudstack-kubernetes-provider:v1.1.0.tar": "removed",
	}, actions)

	// From that ISO once more: nothing but the provider is new, and our own image is not left out.
	again := options(t, o.To)
	_, same := made(t, again)
	require.Equal(t, files, same)
}

func TestSameInputSameISO(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.37.1", "arm64")
	var first []byte
	for _, from := range []string{upstream.ISO(t), upstream.ISO(t), upstream.Folder(t)} {
		for _, dry := range []bool{true, false} {
			o := options(t, from)
			o.Images, o.DryRun = registry("arm64"), dry
			result, err := Make(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, "aarch64", result.Arch)
			body, err := os.ReadFile(o.To)
			if dry {
				require.ErrorIs(t, err, fs.ErrNotExist)
				continue
			}
			require.NoError(t, err)
			if first == nil {
				first = body
			}
			require.True(t, bytes.Equal(first, body))
			digest := sha256.Sum256(body)
			require.Equal(t, "{SHA-256}"+hex.EncodeToString(digest[:]), result.Checksum)
		}
	}
}

// An ISO of the program that CloudStack's script calls, where it is installed.
func TestFromAnISOOfMkisofs(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("genisoimage")
	if err != nil {
		t.Skip("genisoimage is not installed")
	}
	upstream := testenv.Upstream("v1.33.1", "amd64")
	file := filepath.Join(t.TempDir(), "upstream.iso")
	// #nosec G204 -- arguments of the test
	out, err := exec.CommandContext(t.Context(), program, "-quiet", "-o", file, "-J", "-R", "-l", upstream.Folder(t)).CombinedOutput()
	require.NoError(t, err, string(out))
	_, files := made(t, options(t, file))
	_, same := made(t, options(t, upstream.ISO(t)))
	require.Equal(t, same, files)
}

func TestNotes(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	o := options(t, upstream.With(testenv.Files{
		"docker/dashboard:v2.7.0.tar": nil, "docker/odd.tar": []byte("no archive"), "manifest.yaml": []byte("<html>404</html>"),
		"headlamp.yaml": upstream["dashboard.yaml"], "dashboard.yaml": nil,
	}).ISO(t))
	result, _ := made(t, o)
	require.Len(t, result.Notes, 4)
	for i, want := range []string{
		"docker/odd.tar: it is no archive of images",
		"headlamp.yaml needs the image index.docker.io/kubernetesui/dashboard:v2.7.0, which is not in docker/",
		"manifest.yaml holds no objects of Kubernetes",
		"there is no dashboard.yaml",
	} {
		require.Contains(t, result.Notes[i], want)
	}
}

func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	with := func(more testenv.Files) func(*testing.T, *Options) {
		return func(t *testing.T, o *Options) { o.From = upstream.With(more).ISO(t) }
	}
	text := func(s string) []byte { return []byte(s) }
	for name, c := range map[string]struct {
		change func(*testing.T, *Options)
		want   string
		code   int
	}{
		"no such file": {func(_ *testing.T, o *Options) { o.From += ".not" }, "no such file", report.ExitUsage},
		"no ISO": {func(t *testing.T, o *Options) {
			o.From = filepath.Join(t.TempDir(), "x.iso")
			require.NoError(t, os.WriteFile(o.From, bytes.Repeat(text("<html>404</html>"), 5000), 0o600))
		}, "is no ISO 9660 volume", report.ExitUsage},
		"another ISO": {func(t *testing.T, o *Options) { o.From = testenv.Files{"README": text("x")}.ISO(t) },
			"no Kubernetes binaries ISO of CKS: it has neither dashboard.yaml nor headlamp.yaml, no 10-kubeadm.conf, no cni/", report.ExitUsage},
		"no provider":    {with(testenv.Files{"provider.yaml": nil}), "it has no provider.yaml", report.ExitUsage},
		"no kubelet":     {with(testenv.Files{"k8s/kubelet": nil}), "it has no k8s/kubelet", report.ExitUsage},
		"two CNIs":       {with(testenv.Files{"cni/cni-plugins-arm64.tgz": text("x")}), "more than one cni/cni-plugins-*64.tgz", report.ExitUsage},
		"no network":     {with(testenv.Files{"network.yaml": text("404: Not Found")}), "network.yaml holds no objects", report.ExitUsage},
		"no dashboard":   {with(testenv.Files{"dashboard.yaml": text("")}), "dashboard.yaml holds no objects", report.ExitUsage},
		"not its binary": {with(testenv.Files{"k8s/kubelet": testenv.Program("v1.33.10", "amd64")}), "k8s/kubelet: it is not of Kubernetes v1.33.1", report.ExitUsage},
		"no program":     {with(testenv.Files{"k8s/kubectl": text("<html>")}), "k8s/kubectl: it is no program for Linux", report.ExitUsage},
		"two machines":   {with(testenv.Files{"k8s/kubelet": testenv.Program("v1.33.1", "arm64")}), "k8s/kubelet is for arm64, k8s/kubeadm for amd64", report.ExitUsage},
		"odd machine":    {with(testenv.Files{"k8s/kubeadm": testenv.Program("v1.33.1", "riscv64")}), "for neither amd64 nor arm64", report.ExitUsage},
		"no API server":  {with(testenv.Files{"docker/kube-apiserver:v1.33.1.tar": nil}), "found 0", report.ExitUsage},
		"two versions":   {with(testenv.Files{"docker/x.tar": testenv.Archive("registry.k8s.io/kube-apiserver:v1.34.0")}), "found 2 [v1.33.1 v1.34.0]", report.ExitUsage},
		"odd version":    {with(testenv.Files{"docker/kube-apiserver:v1.33.1.tar": testenv.Archive("registry.k8s.io/kube-apiserver:latest")}), "the tag latest", report.ExitUsage},
		"not this version": {func(_ *testing.T, o *Options) { o.Kubernetes = "v1.34.0" },
			"holds Kubernetes v1.33.1, not v1.34.0", report.ExitUsage},
		"too old": {func(t *testing.T, o *Options) { o.From = testenv.Upstream("v1.20.1", "amd64").ISO(t) },
			"v1.20.1", report.ExitFailure},
		"architecture": {func(_ *testing.T, o *Options) { o.Images = registry("arm64") }, "it is not for linux/amd64", report.ExitFailure},
		"output exists": {func(t *testing.T, o *Options) { require.NoError(t, os.WriteFile(o.To, text("mine"), 0o600)) },
			"csccm.iso exists", report.ExitUsage},
		"no output folder": {func(_ *testing.T, o *Options) { o.To = filepath.Join(o.To, "x.iso") }, "there is no folder", report.ExitUsage},
		"never initialised": {func(_ *testing.T, o *Options) { o.Values = map[string]any{"adoptNodes": false} },
			"no node would get a provider ID", report.ExitUsage},
		"another Secret": {func(_ *testing.T, o *Options) {
			o.Values = map[string]any{"existingSecret": map[string]any{"name": "mine"}}
		},
			"does not use key cloud-config of Secret cloudstack-secret", report.ExitUsage},
		"another key": {func(_ *testing.T, o *Options) {
			o.Values = map[string]any{"existingSecret": map[string]any{"key": "mine"}}
		},
			"does not use key cloud-config of Secret cloudstack-secret", report.ExitUsage},
		"another name": {func(_ *testing.T, o *Options) { o.Values = map[string]any{"fullnameOverride": "ccm"} },
			"must contain cloud-controller-manager", report.ExitUsage},
		"unknown value": {func(_ *testing.T, o *Options) { o.Values = map[string]any{"flavour": "vanilla"} }, "flavour", report.ExitUsage},
		"no ExecStart": {func(t *testing.T, o *Options) {
			with(testenv.Files{kubeadmFile: text("[Service]\n")})(t, o)
			o.External = true
		}, "it has no ExecStart", report.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, upstream.ISO(t))
			c.change(t, o)
			before, _ := os.ReadFile(o.To)
			_, err := Make(t.Context(), o)
			require.ErrorContains(t, err, c.want)
			var coded interface{ ExitCode() int }
			code := report.ExitFailure
			if errors.As(err, &coded) {
				code = coded.ExitCode()
			}
			require.Equal(t, c.code, code)
			after, _ := os.ReadFile(o.To)
			require.Equal(t, before, after)
			if left, err := os.ReadDir(filepath.Dir(o.To)); err == nil {
				for _, entry := range left {
					require.Equal(t, filepath.Base(o.To), entry.Name(), "left behind")
				}
			}
		})
	}
}

func TestInterruptedWritingLeavesNothing(t *testing.T) {
	t.Parallel()
	o := options(t, testenv.Upstream("v1.33.1", "amd64").ISO(t))
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(text string) {
		if strings.HasPrefix(text, "write ") {
			cancel()
		}
	}
	_, err := Make(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(filepath.Dir(o.To))
	require.NoError(t, err)
	require.Empty(t, left)
}
