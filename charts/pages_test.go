// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// chartReference is where the pages install the chart from.
const chartReference = "oci://ghcr.io/csccm/charts/cloudstack-ccm"

// pageSchemas returns the schemas of the documents in docs/distributions.md. Those of Cluster API and of the Helm
// controller come from their Go modules. Those of tools without such a module are in testdata/apischemas/by-hand.yaml.
// A file without a kind has the name of its tool.
func pageSchemas(t *testing.T) (all *apiSchemas, kinds []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "apischemas", "by-hand.yaml"))
	require.NoError(t, err)
	more := map[string]any{}
	require.NoError(t, yaml.UnmarshalStrict(raw, &more))
	for _, schema := range more {
		closed(schema.(map[string]any))
	}
	maps.Copy(more, definitions(t, "cluster-api.yaml"))
	maps.Copy(more, definitions(t, "helm-controller.yaml"))
	maps.Copy(more, kubeadmSchemas(t, more["bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfigTemplate"]))
	return loadAPISchemas(t, "v1.37", more), slices.Sorted(maps.Keys(more))
}

// kubeadmSchemas returns the schemas for kubeadm's v1beta4, which has none of its own: v1beta2 of Cluster API has the
// same fields in InitConfiguration and JoinConfiguration.
func kubeadmSchemas(t *testing.T, template any) map[string]any {
	t.Helper()
	for _, key := range []string{"spec", "template", "spec"} {
		template = template.(map[string]any)["properties"].(map[string]any)[key]
	}

	out := map[string]any{}
	for field, kind := range map[string]string{
		"initConfiguration": "InitConfiguration",
		"joinConfiguration": "JoinConfiguration",
	} {
		schema := template.(map[string]any)["properties"].(map[string]any)[field].(map[string]any)
		properties := maps.Clone(schema["properties"].(map[string]any))
		properties["apiVersion"], properties["kind"] = map[string]any{
			"type": "string",
		}, map[string]any{"type": "string"}
		schema = maps.Clone(schema)
		schema["properties"] = properties
		out["kubeadm.k8s.io/v1beta4 "+kind] = schema
	}

	return out
}

// shown has the fields of a document on a page that this test reads.
type shown struct {
	APIVersion, Kind string
	Manifest         string // of Talos
	StringData       map[string]string
	Spec             struct {
		Chart, ValuesContent               string // HelmChart
		RepoURL, ChartName, ValuesTemplate string // HelmChartProxy
		Extensions                         struct {
			Helm struct {
				Charts []struct{ Chartname, Values string }
			}
		} // ClusterConfig of k0s
	}
}

// TestManifestsOfTheDistributions: the documents in docs/distributions.md match the schemas of their kinds; values in
// them match the chart's schema, and cloud-configs in them can be parsed.
func TestManifestsOfTheDistributions(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	all, err := pages.ReadAll(root)
	require.NoError(t, err)
	schemas, kinds := pageSchemas(t)
	seen := map[string]bool{}
	for _, page := range all {
		if page.Path != "docs/distributions.md" {
			continue
		}
		for _, code := range page.Code {
			if code.Language != "yaml" {
				continue
			}
			for _, document := range documents(code.Text) {
				kind := checkShown(t, schemas, page.Path, document)
				seen[kind] = true
			}
		}
	}

	for _, kind := range kinds {
		if !strings.HasSuffix(kind, "/v1beta2 KubeadmControlPlane") &&
			!strings.HasSuffix(kind, "/v1beta2 ClusterResourceSet") {
			assert.True(t, seen[kind], "no page has a %s", kind)
		}
	}
}

// checkShown checks a document and what is embedded in it, and returns its kind.
func checkShown(t *testing.T, schemas *apiSchemas, page, document string) string {
	t.Helper()
	var s shown
	require.NoError(t, yaml.Unmarshal([]byte(document), &s), "%s\n%s", page, document)
	kind := s.APIVersion + " " + s.Kind
	switch {
	case s.Kind == "":
		kind = configurationOf(document)
		require.NoError(t, schemas.checkAs(kind, document), "%s\n%s", page, document)
	case kind == "v1 Secret":
		checkSecret(t, page, document)
	default:
		require.NoError(t, schemas.check(document), "%s\n%s", page, document)
	}

	var references, values []string
	switch s.Kind {
	case "HelmChart":
		references, values = []string{s.Spec.Chart}, []string{s.Spec.ValuesContent}
	case "HelmChartProxy":
		references, values = []string{s.Spec.RepoURL + "/" + s.Spec.ChartName}, []string{s.Spec.ValuesTemplate}
	case "ClusterConfig":
		for _, c := range s.Spec.Extensions.Helm.Charts {
			references, values = append(references, c.Chartname), append(values, c.Values)
		}
	case "KubeInlineManifestConfig":
		checkSecret(t, page, s.Manifest)
	}

	for i := range references {
		assert.Equal(t, chartReference, references[i], page)
		assert.NoError(t, checkValues(t, values[i]), "%s: %s", page, values[i])
	}

	return kind
}

// configurationOf returns the name of the tool that is configured by a document without a kind.
func configurationOf(document string) string {
	switch {
	case strings.HasPrefix(document, "cluster:"):
		return "talos"
	case strings.Contains(document, "\ndisable:"):
		return "k3s"
	default:
		return "rke2"
	}
}

// checkSecret checks a Secret with a cloud-config, or with a manifest of such a Secret.
func checkSecret(t *testing.T, page, document string) {
	t.Helper()
	var secret corev1.Secret
	require.NoError(t, yaml.UnmarshalStrict([]byte(document), &secret), page)
	require.Equal(t, "Secret", secret.Kind, page)
	require.Equal(t, "cloudstack-secret", secret.Name, page)
	require.Len(t, secret.StringData, 1, page)
	if manifest, ok := secret.StringData["secret.yaml"]; ok {
		checkSecret(t, page, manifest)
		return
	}
	require.Equal(t, "kube-system", secret.Namespace, page)
	config, err := cloudconfig.Parse(strings.NewReader(secret.StringData["cloud-config"]))
	require.NoError(t, err, page)
	require.NotEmpty(t, config.APIURL, page)
}

// checkValues checks values against the chart's schema.
func checkValues(t *testing.T, text string) error {
	t.Helper()
	var given values
	if err := yaml.UnmarshalStrict([]byte(text), &given); err != nil {
		return err
	}
	_, err := renderWith(given, load(t))
	return err
}
