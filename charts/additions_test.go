// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csccm/csccm/charts"
)

// A proxy in extraEnv must not be used for calls to the API server.
func TestProxyOfExtraEnv(t *testing.T) {
	t.Parallel()
	const own = "$(KUBERNETES_SERVICE_HOST),localhost,127.0.0.1,::1,.svc,.cluster.local"
	for given, want := range map[string]string{
		"":                         "",
		"HTTPS_PROXY=a":            own,
		"https_proxy=a":            own,
		"HTTPS_PROXY=a NO_PROXY=x": "x",
		"http_proxy=a no_proxy=x":  "x",
	} {
		env, have := []any{}, ""
		for pair := range strings.FieldsSeq(given) {
			name, value, _ := strings.Cut(pair, "=")
			env = append(env, values{"name": name, "value": value})
		}

		for _, e := range workload(t, values{"extraEnv": env}).Spec.Containers[0].Env {
			if strings.EqualFold(e.Name, "NO_PROXY") {
				have += e.Value
			}
		}

		assert.Equal(t, want, have, given)
	}
}

// An umbrella chart may contain this chart twice, each for a group of controllers. No PodDisruptionBudget may select
// the Pods of the other one: a node cannot be drained if two budgets select one Pod.
func TestTwiceInAnUmbrellaChart(t *testing.T) {
	t.Parallel()
	first, err := loader.LoadDir(charts.Name)
	require.NoError(t, err)
	second, err := loader.LoadDir(charts.Name)
	require.NoError(t, err)
	version := first.Metadata.Version
	const alias = "services-of-a-chart-with-a-name-that-is-rather-long-for-a-label"
	umbrella := &chart.Chart{
		Metadata: &chart.Metadata{
			APIVersion: chart.APIVersionV2,
			Name:       "platform",
			Version:    "1.0.0",
			Dependencies: []*chart.Dependency{
				{Name: charts.Name, Version: version, Condition: charts.Name + ".enabled"},
				{Name: charts.Name, Version: version, Alias: alias},
			},
		},
	}

	umbrella.SetDependencies(first, second)
	install := action.NewInstall(&action.Configuration{})
	install.DryRun, install.ClientOnly, install.ReleaseName, install.Namespace = true, true, "platform", "infra"
	install.KubeVersion = &chartutil.KubeVersion{Version: kubeVersion, Major: "1", Minor: "37"}
	rel, err := install.Run(umbrella, values{
		"global":    values{"imageRegistry": "registry.example.org"},
		charts.Name: values{"enabled": true, "resources": values{"limits": nil}},
		alias: values{
			"fullnameOverride": "services-cloud-controller-manager",
			"leaderElection":   values{"leaseName": "services"},
		},
	})
	require.NoError(t, err)
	pods, budgets := map[string]labels.Set{}, map[string]labels.Selector{}
	for _, object := range objects(t, rel.Manifest) {
		switch o := object.(type) {
		case *policyv1.PodDisruptionBudget:
			budgets[o.Name], err = metav1.LabelSelectorAsSelector(o.Spec.Selector)
			require.NoError(t, err)
		case *appsv1.Deployment:
			pods[o.Name] = o.Spec.Template.Labels
			assert.Equal(t, "infra", o.Namespace)
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
