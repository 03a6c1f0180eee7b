// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/kube/helm"
)

func TestList(t *testing.T) {
	t.Parallel()
	got, err := List(`
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

// The chart's image is listed, and its name in the mirror is a valid value of the chart.
func TestChart(t *testing.T) {
	t.Parallel()
	chart, err := helm.Embedded()
	require.NoError(t, err)
	render := func(values map[string]any) []Image {
		manifest, err := helm.Template(t.Context(), "kube-system", helm.ApplyRequest{Name: "x", Chart: chart, Values: values, KubeVersion: "v1.37.1"})
		require.NoError(t, err)
		list, err := List(manifest, "mirror.example.org")
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list
	}
	list := render(nil)
	again := render(map[string]any{"image": map[string]any{"repository": strings.Split(list[0].Mirror, ":")[0]}})
	require.Equal(t, list[0].Mirror, again[0].Image)
}
