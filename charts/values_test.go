// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/helm"
)

func TestWrongValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values values
		want   string
	}{
		"unknown":               {values{"replicaCounts": 2}, "replicaCounts: there is no such value"},
		"unknown below":         {values{"image": values{"name": "x"}}, "image.name: there is no such value"},
		"two at once":           {values{"a": 1, "b": 2}, "a: there is no such value; b: there is no such value"},
		"type":                  {values{"replicaCount": "2"}, "replicaCount: got string, want integer"},
		"too many":              {values{"replicaCount": 11}, "replicaCount: maximum: got 11, want 10"},
		"negative":              {values{"logVerbosity": -1}, "logVerbosity: minimum: got -1, want 0"},
		"port":                  {values{"securePort": 0}, "securePort: minimum: got 0, want 1"},
		"digest":                {values{"image": values{"digest": "sha256:abc"}}, "image.digest: 'sha256:abc' does not match pattern"},
		"tag in the repository": {values{"image": values{"repository": "a@sha256:x"}}, "image.repository: 'a@sha256:x' does not match pattern"},
		"pull policy":           {values{"image": values{"pullPolicy": "Sometimes"}}, "image.pullPolicy: value must be one of 'Always', 'IfNotPresent', 'Never'"},
		"controller":            {values{"controllers": []any{"route"}}, "controllers.0: value must be one of 'cloud-node-controller', 'cloud-node-lifecycle-controller', 'service-lb-controller'"},
		"controller twice":      {values{"controllers": []any{"service-lb-controller", "service-lb-controller"}}, "controllers: items at 0 and 1 are equal"},
		"controllers, one text": {values{"controllers": "service-lb-controller"}, "controllers: got string, want array"},
		"duration":              {values{"driftPeriod": "5 minutes"}, "driftPeriod: '5 minutes' does not match pattern"},
		"provider ID":           {values{"providerIDFormat": "aws"}, "providerIDFormat: value must be one of '', 'external-cloudstack', 'cloudstack'"},
		"instance type":         {values{"instanceTypeFormat": "x"}, "instanceTypeFormat: value must be one of '', 'keep-separators', 'upstream'"},
		"node network":          {values{"nodes": values{"internalCIDRs": []any{"lan"}}}, "nodes.internalCIDRs.0: 'lan' does not match pattern"},
		"node label":            {values{"nodes": values{"labels": []any{"rack"}}}, "nodes.labels.0: value must be one of 'offering', 'hypervisor', 'host', 'affinity-groups'"},
		"deletion limit":        {values{"nodes": values{"deletionLimit": 101}}, "nodes.deletionLimit: maximum: got 101, want 100"},
		"log format":            {values{"logFormat": "xml"}, "logFormat: value must be one of 'text', 'json'"},
		"bind address":          {values{"bindAddress": "eth0"}, "bindAddress: 'eth0' does not match pattern"},
		"argument":              {values{"extraArgs": []any{"v=3"}}, "extraArgs.0: 'v=3' does not match pattern '^-'"},
		"secret name":           {values{"existingSecret": values{"name": ""}}, "existingSecret.name: '' does not match pattern"},
		"proxy with a password": {values{"proxy": values{"https": "http://u:p@proxy:3128"}}, "proxy.https: "},
		"budget":                {values{"podDisruptionBudget": values{"maxUnavailable": "half"}}, "podDisruptionBudget.maxUnavailable: 'half' does not match pattern"},
		"toleration":            {values{"tolerations": []any{values{"keys": "a"}}}, "tolerations.0.keys: there is no such value"},
		"env without a name":    {values{"extraEnv": []any{values{"value": "a"}}}, "extraEnv.0: missing property 'name'"},
		"label value":           {values{"podLabels": values{"a": "b c"}}, "podLabels.a: 'b c' does not match pattern"},

		"key":                 {values{"apiKey": "x"}, "apiKey: credentials are no values of this chart"},
		"secret key":          {values{"secretKey": "x"}, "secretKey: credentials are no values of this chart"},
		"cloud-config":        {values{"cloudConfig": values{"global": values{}}}, "cloudConfig: credentials are no values of this chart"},
		"secret":              {values{"secret": values{"create": true}}, "secret: credentials are no values of this chart"},
		"renamed":             {values{"logLevel": 4}, "logLevel is not known here; use logVerbosity"},
		"renamed with parts":  {values{"cluster": values{"name": "x"}}, "cluster is not known here; use clusterName"},
		"name":                {values{"fullnameOverride": "ccm"}, `fullnameOverride: "ccm" must contain cloud-controller-manager`},
		"chart's own flag":    {values{"extraArgs": []any{"--cloud-config=/x"}}, "extraArgs: --cloud-config is set by the chart"},
		"chart's own env":     {values{"extraEnv": []any{values{"name": "POD_IP", "value": "x"}}}, "extraEnv: POD_IP is set by the chart"},
		"chart's own label":   {values{"commonLabels": values{"app.kubernetes.io/name": "x"}}, "commonLabels: the label app.kubernetes.io/name is set by the chart"},
		"podMonitor no token": {values{"podMonitor": values{"enabled": true}}, "podMonitor.tokenSecret.name: the metrics are served to authorised accounts only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := helm.Template(t.Context(), namespace, helm.ApplyRequest{
				Name: releaseName, Chart: load(t), Values: tc.values, KubeVersion: kubeVersion,
			})
			var wrong *helm.ValuesError
			require.ErrorAs(t, err, &wrong)
			assert.Contains(t, err.Error(), "chart values: "+tc.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

// As a dependency of another chart the values get two keys that users do not write.
func TestValuesOfAParentChart(t *testing.T) {
	t.Parallel()
	render(t, map[string]any{"global": map[string]any{"x": 1}, "enabled": true})
}

type schema struct {
	Type                 any               `json:"type"`
	Comment              string            `json:"$comment"`
	AdditionalProperties any               `json:"additionalProperties"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
}

// Each value has its place in the schema and the other way round, and no level takes unknown ones.
func TestSchemaCoversTheValues(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(charts.Name, "values.schema.json"))
	require.NoError(t, err)
	var root schema
	require.NoError(t, json.Unmarshal(raw, &root))
	raw, err = os.ReadFile(filepath.Join(charts.Name, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &values))
	compare(t, "", root, values)
}

func compare(t *testing.T, path string, s schema, values map[string]any) {
	t.Helper()
	assert.Equal(t, false, s.AdditionalProperties, "additionalProperties of %q", path)
	for key, value := range values {
		property, ok := s.Properties[key]
		if !assert.True(t, ok, "%s%s is not in the schema", path, key) {
			continue
		}
		// Maps that are the user's own have no list of properties.
		if below, isMap := value.(map[string]any); isMap && property.Properties != nil && len(below) > 0 {
			compare(t, path+key+".", property, below)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if s.Properties[key].Comment != "" || slices.Contains([]string{"affinity.", "resources."}, path) {
			continue // refused by a guard, set by Helm, or a part of Kubernetes' own type
		}
		assert.Contains(t, values, key, "%s%s is in the schema and not in values.yaml", path, key)
	}
}

func TestReadmeIsFresh(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "run", "./internal/readme", "--check", charts.Name).CombinedOutput()
	require.NoError(t, err, string(out))
}
