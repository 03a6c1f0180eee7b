// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/csccm/csccm/installer/report"
)

func TestStamp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ version, want, app string }{
		"release":       {"v1.2.3", "1.2.3", "v1.2.3"},
		"pre-release":   {"v1.2.3-rc.1", "1.2.3-rc.1", "v1.2.3-rc.1"},
		"after a tag":   {"v1.2.3-4-gabcdef0-dirty", "1.2.3-4-gabcdef0-dirty", "v1.2.3-4-gabcdef0-dirty"},
		"without a tag": {"abcdef0-dirty", "0.1.0", "v0.1.0"},
		"not stamped":   {unstamped, "0.1.0", "v0.1.0"},
	} {
		c := &chart.Chart{Metadata: &chart.Metadata{Version: "0.1.0", AppVersion: "v0.1.0"}}
		stamp(c, tc.version)
		require.Equal(t, []string{tc.want, tc.app}, []string{c.Metadata.Version, c.Metadata.AppVersion}, name)
	}
}

func TestLoadFolderIsTheEmbeddedChart(t *testing.T) {
	t.Parallel()
	folder, err := Load(t.Context(), "../../../charts/cloudstack-ccm", "", false)
	require.NoError(t, err)
	require.Equal(t, embedded(t).chart.Raw, folder.chart.Raw)
}

func TestLoadWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	library := filepath.Join(dir, "library")
	require.NoError(t, os.Mkdir(library, 0o755))
	require.NoError(t,
		os.WriteFile(filepath.Join(library, "Chart.yaml"),
			[]byte("apiVersion: v2\nname: library\nversion: 1.0.0\ntype: library\n"), 0o644))
	garbage := filepath.Join(dir, "x.tgz")
	require.NoError(t, os.WriteFile(garbage, []byte("no archive"), 0o644))

	for name, tc := range map[string]struct{ ref, want string }{
		"missing": {filepath.Join(dir, "nothing"), "no such file"},
		"library": {library, "is of type library and cannot be installed"},
		"garbage": {garbage, "x.tgz: "},
	} {
		_, err := Load(t.Context(), tc.ref, "", false)
		require.ErrorContains(t, err, tc.want, name)
		var e *report.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, 2, e.ExitCode(), "the command line is wrong")
		require.Contains(t, e.Remedy(), "--chart")
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	got, err := Images(`
kind: Deployment
apiVersion: apps/v1
spec: {template: {spec: {initContainers: [{image: "busybox"}], containers: [{image: "reg.example.org:5000/a/b:v1@sha256:00"}]}}}
---
kind: CronJob
apiVersion: batch/v1
spec: {jobTemplate: {spec: {template: {spec: {containers: [{image: "a/b:2"}, {image: "busybox"}]}}}}}
---
kind: ConfigMap
apiVersion: v1
`, "https://mirror.example.org/x/")

	require.NoError(t, err)
	require.Equal(t, []Image{
		{Image: "a/b:2", Mirror: "mirror.example.org/x/a/b:2"},
		{Image: "busybox", Mirror: "mirror.example.org/x/busybox"},
		{Image: "reg.example.org:5000/a/b:v1@sha256:00", Mirror: "mirror.example.org/x/a/b:v1@sha256:00"},
	}, got)
}

// The chart's image is listed, and its name in the mirror is a valid value for the chart.
func TestImagesOfTheChart(t *testing.T) {
	t.Parallel()
	render := func(values map[string]any) []Image {
		manifest, err := Template(t.Context(), "kube-system",
			ApplyRequest{Name: "x", Chart: embedded(t), Values: values, KubeVersion: "v1.37.1"})
		require.NoError(t, err)
		list, err := Images(manifest, "mirror.example.org")
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list
	}
	list := render(nil)
	again := render(map[string]any{"image": map[string]any{"repository": strings.Split(list[0].Mirror, ":")[0]}})
	require.Equal(t, list[0].Mirror, again[0].Image)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	_, err := Template(t.Context(), testNamespace,
		ApplyRequest{Name: testName, Chart: embedded(t), KubeVersion: "v1.30.0"})
	require.ErrorContains(t, err,
		"chart requires kubeVersion: >=1.33.0-0 which is incompatible with Kubernetes v1.30.0")

	_, err = Template(t.Context(), testNamespace, ApplyRequest{Name: testName, Chart: embedded(t)})
	require.EqualError(t, err, `kubernetes version "": want a version such as v1.37.1`)

	f := newFixture(t)
	_, err = f.Apply(t.Context(), request(t, map[string]any{"fullnameOverride": "ccm"}))
	var values *report.Error
	require.ErrorAs(t, err, &values)
	require.ErrorContains(t, err, `chart values: fullnameOverride: "ccm" must contain cloud-controller-manager; `)
	require.NotEmpty(t, values.Remedy())
	require.Equal(t, report.ExitUsage, values.ExitCode())
}

func TestParseValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	require.NoError(t, os.WriteFile(a, []byte("image: {tag: v1, repository: r}\nreplicaCount: 1\n"), 0o600))
	require.NoError(t, os.WriteFile(b, []byte("image: {tag: v2}\n"), 0o600))
	got, err := ParseValues([]string{a, b}, []string{"hostNetwork=false", "bindAddress=$(POD_IP)"},
		[]string{"image.tag=20260101"})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"image":        map[string]any{"tag": "20260101", "repository": "r"},
		"replicaCount": float64(1),
		"hostNetwork":  false,
		"bindAddress":  "$(POD_IP)",
	}, got)
	_, err = ParseValues([]string{dir + "/none"}, nil, nil)
	require.ErrorContains(t, err, "chart values: open")
}
