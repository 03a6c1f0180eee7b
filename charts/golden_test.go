// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

var update = flag.Bool("update", false, "regenerate the golden files")

const (
	releaseName = "cloudstack-ccm"
	namespace   = "kube-system"
	kubeVersion = "v1.37.1"
)

// valueSets returns the values of the chart's ci folder by name.
func valueSets(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(charts.Name + "/ci/*-values.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	sets := map[string]map[string]any{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		values := map[string]any{}
		require.NoError(t, yaml.Unmarshal(raw, &values))
		sets[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = values
	}
	return sets
}

func load(t *testing.T) *helm.Chart {
	t.Helper()
	// Load the chart from its folder: the embedded chart has the version of the test binary.
	chart, err := helm.Load(t.Context(), charts.Name, "", false)
	require.NoError(t, err)
	return chart
}

// render returns the manifest with the test Pod, as helm template prints it.
func render(t *testing.T, values map[string]any) string {
	t.Helper()
	out, err := renderWith(values, load(t))
	require.NoError(t, err)
	return out
}

func renderWith(values map[string]any, c *helm.Chart) (string, error) {
	return helm.Template(context.Background(), namespace, helm.ApplyRequest{
		Name: releaseName, Chart: c, Values: values, KubeVersion: kubeVersion, Tests: true,
	})
}

func TestGolden(t *testing.T) {
	t.Parallel()
	sets := valueSets(t)
	for _, name := range []string{"default", "daemonset", "everything"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have := render(t, sets[name])
			golden.File(t, filepath.Join("testdata", "golden", name+".golden.yaml"), have, *update,
				"go test ./charts -update")
		})
	}
}

func TestLintStrict(t *testing.T) {
	t.Parallel()
	for name, values := range valueSets(t) {
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, namespace
		result := lint.Run([]string{charts.Name}, values)
		assert.Equal(t, 1, result.TotalChartsLinted)
		assert.Empty(t, result.Errors)
		assert.Empty(t, result.Messages, name)
	}
}

// objects decodes a manifest like an API server with strict field validation.
func objects(t *testing.T, manifest string) []runtime.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []runtime.Object
	for _, doc := range documents(manifest) {
		object, _, err := decoder.Decode([]byte(doc), nil, nil)
		if runtime.IsNotRegisteredError(err) {
			require.Contains(t, err.Error(), "monitoring.coreos.com",
				"the only kinds that Kubernetes itself does not have")
			continue
		}
		require.NoError(t, err, doc)
		all = append(all, object)
	}
	return all
}

func documents(manifest string) []string {
	var docs []string
	for _, doc := range strings.Split(manifest, "\n---\n") {
		doc = strings.TrimPrefix(doc, "---\n")
		if len(bytes.TrimSpace([]byte(doc))) > 0 {
			docs = append(docs, doc)
		}
	}
	return docs
}

func find[T runtime.Object](t *testing.T, all []runtime.Object) T {
	t.Helper()
	var found []T
	for _, object := range all {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

// workload returns the Pod template of the Deployment or DaemonSet.
func workload(t *testing.T, values map[string]any) *corev1.PodTemplateSpec {
	t.Helper()
	all := objects(t, render(t, values))
	if values["kind"] == "DaemonSet" {
		return &find[*appsv1.DaemonSet](t, all).Spec.Template
	}
	return &find[*appsv1.Deployment](t, all).Spec.Template
}
