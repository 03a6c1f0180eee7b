// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
)

// The same key in two places is one key of the object, of the value that says more: kustomize and others refuse an object
// with a key twice.
func TestKeysThatMeet(t *testing.T) {
	t.Parallel()
	manifest := render(t, values{
		"commonLabels":     values{"team": "infra", "env": "prod"},
		"podAnnotations":   values{"kubectl.kubernetes.io/default-container": "wait", "helm.sh/hook": "x"},
		"serviceMonitor":   values{"enabled": true, "labels": values{"team": "metrics", "app.kubernetes.io/part-of": "prometheus"}},
		"prometheusRule":   values{"enabled": true, "labels": values{"team": "metrics"}},
		"grafanaDashboard": values{"enabled": true, "labels": values{"team": "metrics"}},
	})
	monitoring := 0
	for _, document := range documents(manifest) {
		raw, err := yaml.YAMLToJSONStrict([]byte(document))
		require.NoError(t, err)
		var o struct {
			Kind     string
			Metadata metav1.ObjectMeta
			Spec     struct{ Template corev1.PodTemplateSpec }
		}
		require.NoError(t, yaml.Unmarshal(raw, &o))
		assert.Equal(t, "prod", o.Metadata.Labels["env"], o.Kind)
		switch o.Kind {
		case "ServiceMonitor", "PrometheusRule", "ConfigMap":
			monitoring++
			assert.Equal(t, "metrics", o.Metadata.Labels["team"], o.Kind)
			if o.Kind == "ServiceMonitor" {
				assert.Equal(t, "prometheus", o.Metadata.Labels["app.kubernetes.io/part-of"])
			}
		case "Deployment":
			assert.Equal(t, "infra", o.Metadata.Labels["team"])
			assert.Equal(t, "infra", o.Spec.Template.Labels["team"])
			assert.Equal(t, "wait", o.Spec.Template.Annotations["kubectl.kubernetes.io/default-container"])
		case "Pod":
			assert.Equal(t, "infra", o.Metadata.Labels["team"])
			assert.Equal(t, "test", o.Metadata.Annotations["helm.sh/hook"])
		default:
			assert.Equal(t, "infra", o.Metadata.Labels["team"], o.Kind)
		}
	}
	assert.Equal(t, 3, monitoring)
}

// The test proves something of the controller only where it runs as the controller does.
func TestTestPodRunsAsTheController(t *testing.T) {
	t.Parallel()
	sets := valueSets(t)
	sets["DaemonSet with the default affinity"] = values{"kind": "DaemonSet"}
	sets["Pods apart"] = values{"affinity": values{"podAntiAffinity": values{"requiredDuringSchedulingIgnoredDuringExecution": []any{
		values{"topologyKey": "kubernetes.io/hostname", "labelSelector": values{}},
	}}}}
	for name, v := range sets {
		_, _, controller := workload(t, v)
		test := find[*corev1.Pod](t, objects(t, render(t, v)))
		have, want := test.Spec, controller.Spec
		assert.NotEqual(t, controller.Labels["app.kubernetes.io/name"], test.Labels["app.kubernetes.io/name"], "%s: it must not be one of the controller's Pods", name)
		assert.False(t, *have.AutomountServiceAccountToken, name)
		assert.Equal(t, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, have.Containers[0].SecurityContext.Capabilities, name)
		assert.Equal(t, want.HostAliases, have.HostAliases, name)
		assert.Equal(t, want.NodeSelector, have.NodeSelector, name)
		assert.Equal(t, want.Tolerations, have.Tolerations, name)
		assert.Equal(t, want.HostNetwork, have.HostNetwork, name)
		assert.Equal(t, want.DNSPolicy, have.DNSPolicy, name)
		assert.Equal(t, want.ImagePullSecrets, have.ImagePullSecrets, name)
		assert.Equal(t, want.Volumes, have.Volumes, name)
		assert.Equal(t, want.SecurityContext, have.SecurityContext, name)
		assert.Equal(t, want.Containers[0].VolumeMounts, have.Containers[0].VolumeMounts, name)
		if want.Affinity == nil || want.Affinity.NodeAffinity == nil {
			assert.Nil(t, have.Affinity, name)
		} else {
			require.NotNil(t, have.Affinity, name)
			assert.Equal(t, want.Affinity.NodeAffinity, have.Affinity.NodeAffinity, name)
			assert.Nil(t, have.Affinity.PodAntiAffinity, "%s: two Pods on two nodes would keep the test away", name)
		}
		env := func(c corev1.Container) map[string]corev1.EnvVar {
			all := map[string]corev1.EnvVar{}
			for _, e := range c.Env {
				all[e.Name] = e
			}
			for _, kubernetes := range []string{"POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
				delete(all, kubernetes) // the test asks CloudStack alone
			}
			return all
		}
		assert.Equal(t, env(want.Containers[0]), env(have.Containers[0]), name)
		added := maps.Clone(controller.Labels)
		for key := range added {
			if _, ours := test.Labels[key]; ours && test.Labels[key] != added[key] || key == "app.kubernetes.io/component" || key == "app.kubernetes.io/part-of" {
				delete(added, key)
			}
		}
		assert.Subset(t, test.Labels, added, name)
	}
}

// A proxy with a password comes from a Secret, by extraEnv. The calls to the API server do not go through it either.
func TestProxyOfExtraEnv(t *testing.T) {
	t.Parallel()
	const own = "$(KUBERNETES_SERVICE_HOST),localhost,127.0.0.1,::1,.svc,.cluster.local"
	secret := values{"secretKeyRef": values{"name": "proxy", "key": "url"}}
	for name, tc := range map[string]struct {
		proxy values
		env   []any
		want  []string // NO_PROXY and no_proxy
	}{
		"none":             {nil, nil, nil},
		"variable":         {nil, []any{values{"name": "HTTPS_PROXY", "valueFrom": secret}}, []string{own}},
		"small letters":    {nil, []any{values{"name": "https_proxy", "valueFrom": secret}}, []string{own}},
		"and noProxy":      {values{"noProxy": "10.0.0.0/8"}, []any{values{"name": "HTTPS_PROXY", "valueFrom": secret}}, []string{"10.0.0.0/8," + own}},
		"and its NO_PROXY": {nil, []any{values{"name": "HTTPS_PROXY", "valueFrom": secret}, values{"name": "NO_PROXY", "value": "x"}}, []string{"x"}},
		"and its no_proxy": {nil, []any{values{"name": "http_proxy", "valueFrom": secret}, values{"name": "no_proxy", "value": "x"}}, []string{"x"}},
		"null":             {values{"noProxy": nil}, []any{values{"name": "HTTPS_PROXY", "valueFrom": secret}}, []string{own}},
	} {
		v := values{"extraEnv": tc.env}
		if tc.env == nil {
			v = values{}
		}
		if tc.proxy != nil {
			v["proxy"] = tc.proxy
		}
		_, _, pod := workload(t, v)
		var have []string
		for _, e := range pod.Spec.Containers[0].Env {
			if e.Name == "NO_PROXY" || e.Name == "no_proxy" {
				have = append(have, e.Value)
			}
		}
		assert.Equal(t, tc.want, have, name)
	}
}

// An umbrella chart may have this one twice, for one group of controllers each. Neither's budget may count the other's Pods:
// two budgets for one Pod, and no node can be drained.
func TestTwiceInAnUmbrellaChart(t *testing.T) {
	t.Parallel()
	first, err := loader.LoadDir(charts.Name)
	require.NoError(t, err)
	second, err := loader.LoadDir(charts.Name)
	require.NoError(t, err)
	umbrella := &chart.Chart{Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: "platform", Version: "1.0.0", Dependencies: []*chart.Dependency{
		{Name: charts.Name, Version: first.Metadata.Version, Condition: charts.Name + ".enabled"},
		{Name: charts.Name, Version: first.Metadata.Version, Alias: "services-of-a-chart-with-a-name-that-is-rather-long-for-a-label", Condition: "services.enabled"},
	}}}
	umbrella.SetDependencies(first, second)
	given := values{
		"global":                                values{"imageRegistry": "registry.example.org"},
		charts.Name:                             values{"enabled": true, "resources": values{"limits": nil}},
		umbrella.Metadata.Dependencies[1].Alias: values{"fullnameOverride": "services-cloud-controller-manager", "leaderElection": values{"leaseName": "services"}},
	}
	require.NoError(t, chartutil.ProcessDependenciesWithMerge(umbrella, given))
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: kubeVersion, Major: "1", Minor: "37"}
	toRender, err := chartutil.ToRenderValues(umbrella, given, chartutil.ReleaseOptions{Name: "platform", Namespace: "infra", IsInstall: true}, capabilities)
	require.NoError(t, err)
	rendered, err := engine.Render(umbrella, toRender)
	require.NoError(t, err)

	pods, budgets := map[string]labels.Set{}, map[string]labels.Selector{}
	for name, text := range rendered {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, object := range objects(t, text) {
			switch o := object.(type) {
			case *policyv1.PodDisruptionBudget:
				budgets[o.Name], err = metav1.LabelSelectorAsSelector(o.Spec.Selector)
				require.NoError(t, err)
			case *corev1.Pod:
				assert.LessOrEqual(t, len(o.Labels["app.kubernetes.io/instance"]), 63)
			case *appsv1.Deployment:
				pods[o.Name] = o.Spec.Template.Labels
				assert.Equal(t, "infra", o.Namespace)
			}
		}
	}
	require.Len(t, pods, 2)
	require.Len(t, budgets, 2)
	for owner, set := range pods {
		for name, budget := range budgets {
			assert.Equal(t, owner == name, budget.Matches(set), "budget %s, Pods of %s", name, owner)
		}
	}
}
