// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/node"
)

const ourImage = "docker/cloudstack-ccm:v0.1.0.tar"

func options(t *testing.T, from string) *Options {
	t.Helper()
	chart, err := helm.Embedded()
	require.NoError(t, err)
	return &Options{
		From:  from,
		To:    filepath.Join(t.TempDir(), "csccm.iso"),
		Chart: chart,
		Image: testenv.Image(t, "ghcr.io/csccm/cloudstack-ccm:v0.1.0"),
	}
}

// made makes an ISO, and returns the result and the files of the ISO.
func made(t *testing.T, o *Options) (*Result, testenv.Files) {
	t.Helper()
	result, err := Make(t.Context(), o)
	require.NoError(t, err)
	v, err := Open(o.To)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	files := testenv.Files{}
	require.NoError(t, fs.WalkDir(v, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[p], err = fs.ReadFile(v, p)
		}
		return err
	}))
	left, err := os.ReadDir(filepath.Dir(o.To))
	require.NoError(t, err)
	require.Len(t, left, 1)
	return result, files
}

func TestTheProviderIsReplaced(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	o := options(t, upstream.ISO(t))
	o.Values = map[string]any{"image": map[string]any{"digest": "sha256:" + strings.Repeat("0", 64)}}
	result, files := made(t, o)

	provider, err := Provider(t.Context(), o.Chart, nil, "v1.33.1")
	require.NoError(t, err)
	require.Contains(t, provider, "--adopt-nodes=true")
	want := upstream.With(testenv.Files{
		"provider.yaml": []byte(provider), ourImage: testenv.Archive("ghcr.io/csccm/cloudstack-ccm:v0.1.0"),
	})
	require.Equal(t, want, files)
	require.Equal(t, []string{"v1.33.1", ourImage}, []string{result.Kubernetes, result.Added})
	body, err := os.ReadFile(o.To)
	require.NoError(t, err)
	digest := sha256.Sum256(body)
	require.Equal(t, "{SHA-256}"+hex.EncodeToString(digest[:]), result.Checksum)

	// Made again from that ISO, or from a folder with the same layout, only the provider differs.
	for _, from := range []string{o.To, files.Folder(t)} {
		_, same := made(t, options(t, from))
		require.Equal(t, files, same)
	}
}

func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	with := func(more testenv.Files) func(*testing.T, *Options) {
		return func(t *testing.T, o *Options) { o.From = upstream.With(more).ISO(t) }
	}
	values := func(v map[string]any) func(*testing.T, *Options) {
		return func(_ *testing.T, o *Options) { o.Values = v }
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
		}, "--from", report.ExitUsage},
		"another ISO": {func(t *testing.T, o *Options) { o.From = testenv.Files{"README": text("x")}.ISO(t) },
			"not a Kubernetes binaries ISO of CKS", report.ExitUsage},
		"no provider": {with(testenv.Files{"provider.yaml": nil}), "it has 0 files provider.yaml",
			report.ExitUsage},
		"two CNIs": {with(testenv.Files{"cni/cni-plugins-arm64.tgz": text("x")}),
			"it has 2 files cni/cni-plugins-*64.tgz", report.ExitUsage},
		"no network": {with(testenv.Files{"network.yaml": text("404: Not Found")}),
			"network.yaml has no Kubernetes objects", report.ExitUsage},
		"no dashboard": {with(testenv.Files{"dashboard.yaml": text("")}),
			"dashboard.yaml has no Kubernetes objects", report.ExitUsage},
		"no API server": {with(testenv.Files{"docker/kube-apiserver:v1.33.1.tar": nil}), "no image kube-apiserver",
			report.ExitUsage},
		"odd version": {with(testenv.Files{
			"docker/kube-apiserver:v1.33.1.tar": testenv.Archive("registry.k8s.io/kube-apiserver:latest"),
		}), `("latest")`, report.ExitUsage},
		"too old": {func(t *testing.T, o *Options) { o.From = testenv.Upstream("v1.20.1", "amd64").ISO(t) },
			"v1.20.1", report.ExitFailure},
		"another image": {func(t *testing.T, o *Options) { o.Image = testenv.Image(t, "nginx:1") },
			"not an archive of image ghcr.io", report.ExitUsage},
		"output exists": {func(t *testing.T, o *Options) {
			require.NoError(t, os.WriteFile(o.To, text("mine"), 0o600))
		}, "csccm.iso exists", report.ExitUsage},
		"no output folder": {func(_ *testing.T, o *Options) { o.To = filepath.Join(o.To, "x.iso") }, "no such file",
			report.ExitUsage},
		"never initialised": {values(map[string]any{"adoptNodes": false}), "adoptNodes=false does not fit",
			report.ExitUsage},
		"another Secret": {values(map[string]any{"existingSecret": map[string]any{"name": "mine"}}),
			"existingSecret", report.ExitUsage},
		"another name": {values(map[string]any{"fullnameOverride": "ccm"}),
			"must contain cloud-controller-manager", report.ExitUsage},
		"unknown value": {values(map[string]any{"flavour": "vanilla"}), "flavour", report.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, upstream.ISO(t))
			c.change(t, o)
			_, err := Make(t.Context(), o)
			require.ErrorContains(t, err, c.want)
			var coded interface{ ExitCode() int }
			code := report.ExitFailure
			if errors.As(err, &coded) {
				code = coded.ExitCode()
			}

			require.Equal(t, c.code, code)
		})
	}
}

func TestInterruptedWritingLeavesNothing(t *testing.T) {
	t.Parallel()
	o := options(t, testenv.Upstream("v1.33.1", "amd64").ISO(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Make(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(filepath.Dir(o.To))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The Pods of the chart start on nodes that are not initialised: they use hostNetwork and tolerate all taints of new
// nodes.
func TestTheProviderStartsOnNewNodes(t *testing.T) {
	t.Parallel()
	manifest, err := Provider(t.Context(), options(t, "").Chart, nil, "v1.33.1")
	require.NoError(t, err)
	objects, err := diff.Parse(manifest)
	require.NoError(t, err)
	i := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	raw, _, err := unstructured.NestedMap(objects[i].Object, "spec", "template", "spec")
	require.NoError(t, err)
	var spec corev1.PodSpec
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec))
	require.True(t, spec.HostNetwork)
	for _, key := range []string{"node-role.kubernetes.io/control-plane", corev1.TaintNodeNotReady, node.TaintKey} {
		taint := corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule}
		require.True(t, slices.ContainsFunc(spec.Tolerations, func(have corev1.Toleration) bool {
			return have.ToleratesTaint(klog.Background(), &taint, false)
		}), key)
	}
}
