// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/charts"
)

type values = map[string]any

// Each value that reaches the controller by an argument.
func TestValuesBecomeArguments(t *testing.T) {
	t.Parallel()
	usual := args(t, nil)
	for want, v := range map[string]values{
		"--controllers=cloud-node-controller,service-lb-controller": {"controllers": []any{"cloud-node-controller", "service-lb-controller"}},
		"--provider-id-format=cloudstack":                           {"providerIDFormat": "cloudstack"},
		"--instance-type-format=upstream":                           {"instanceTypeFormat": "upstream"},
		"--drift-period=1m30s":                                      {"driftPeriod": "1m30s"},
		"--drift-period=0":                                          {"driftPeriod": "0"},
		"--manage-network-acls=false":                               {"loadBalancers": values{"manageNetworkACLs": false}},
		"--load-balancer-policy=dry-run":                            {"loadBalancers": values{"policy": "dry-run"}},
		"--load-balancer-mode=direct":                               {"loadBalancers": values{"mode": "direct"}},
		"--clean-orphans=true":                                      {"loadBalancers": values{"cleanOrphans": true}},
		"--node-internal-cidrs=10.0.0.0/8,fd00::/8":                 {"nodes": values{"internalCIDRs": []any{"10.0.0.0/8", "fd00::/8"}}},
		"--node-external-cidrs=203.0.113.0/24":                      {"nodes": values{"externalCIDRs": []any{"203.0.113.0/24"}}},
		"--node-labels=host,offering":                               {"nodes": values{"labels": []any{"host", "offering"}}},
		"--node-label-tag-prefix=k8s:":                              {"nodes": values{"labelTagPrefix": "k8s:"}},
		"--node-deletion-limit=100":                                 {"nodes": values{"deletionLimit": 100}},
		"--ca-bundle=/etc/cloudstack-ca/ca.crt":                     {"caBundle": values{"configMapName": "ca"}},
		"--secure-port=10300":                                       {"securePort": 10300},
		"--bind-address=$(POD_IP)":                                  {"bindAddress": "$(POD_IP)"},
		"--cluster-id=a":                                            {"clusterID": "a"},
		"--cluster-name=a":                                          {"clusterName": "a"},
		"--leader-elect-resource-name=a":                            {"leaderElection": values{"leaseName": "a"}},
		"--logging-format=json":                                     {"logFormat": "json"},
		"--v=4":                                                     {"logVerbosity": 4},
		"--profiling=false":                                         {"extraArgs": []any{"--profiling=false"}},
	} {
		have := args(t, v)
		assert.Contains(t, have, want)
		assert.NotContains(t, usual, want, "it is not the default")
		name, _, _ := strings.Cut(want, "=")
		var times int
		for _, arg := range have {
			if strings.HasPrefix(arg, name+"=") {
				times++
			}
		}
		assert.Equal(t, 1, times, want)
	}
}

// A changed Secret or ConfigMap reaches a running Pod as a file and the controller reads it again, so nothing restarts the
// Pods: no checksum, no subPath, no variable.
func TestConfigurationIsReloadedNotRestarted(t *testing.T) {
	t.Parallel()
	_, _, pod := workload(t, values{"caBundle": values{"configMapName": "ca"}})
	for key := range pod.Annotations {
		assert.NotContains(t, key, "checksum")
	}
	c := pod.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		assert.Empty(t, m.SubPath)
		assert.True(t, m.ReadOnly)
	}
	for _, e := range c.Env {
		assert.Nil(t, e.ValueFrom.SecretKeyRef)
	}
	assert.Equal(t, []string{"cloudstack-secret", "ca"}, []string{pod.Spec.Volumes[0].Secret.SecretName, pod.Spec.Volumes[1].ConfigMap.Name})
}

// Every object that has a namespace says it, so that kubectl apply of the manifest puts it there.
func TestNamespaceIsWritten(t *testing.T) {
	t.Parallel()
	cluster := []string{"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
	for name, v := range valueSets(t) {
		for _, o := range objects(t, render(t, v)) {
			kind := o.GetObjectKind().GroupVersionKind().Kind
			meta, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			require.NoError(t, err)
			namespace, _ := meta["metadata"].(map[string]any)["namespace"].(string)
			if slices.Contains(cluster, kind) {
				assert.Empty(t, namespace, "%s: %s", name, kind)
			} else {
				assert.NotEmpty(t, namespace, "%s: %s", name, kind)
			}
		}
	}
}

// nameOverride and fullnameOverride work as in a chart of "helm create".
func TestNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values      values
		full, label string
	}{
		"defaults":         {nil, "cloudstack-cloud-controller-manager", "cloudstack-ccm"},
		"nameOverride":     {values{"nameOverride": "ccm"}, "cloudstack-cloud-controller-manager", "ccm"},
		"fullnameOverride": {values{"fullnameOverride": "my-cloud-controller-manager"}, "my-cloud-controller-manager", "cloudstack-ccm"},
		"of the release":   {values{"fullnameOverride": "", "nameOverride": "cloud-controller-manager"}, releaseName + "-cloud-controller-manager", "cloud-controller-manager"},
	} {
		full, selector, pod := workload(t, tc.values)
		assert.Equal(t, tc.full, full, name)
		assert.Equal(t, tc.full, pod.Spec.ServiceAccountName, name)
		assert.Equal(t, tc.label, selector.MatchLabels["app.kubernetes.io/name"], name)
	}
}

// The notes name the objects that are there, whatever the values.
func TestNotes(t *testing.T) {
	t.Parallel()
	c, err := loader.LoadDir(charts.Name)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		values values
		want   []string
	}{
		"defaults": {nil, []string{
			"installed as Deployment kube-system/cloudstack-cloud-controller-manager.", "kubectl -n kube-system get secret cloudstack-secret\n",
			"kubectl -n kube-system rollout status deployment/cloudstack-cloud-controller-manager\n", "helm test -n kube-system cloudstack-ccm --logs\n",
			"csccm doctor -n kube-system\n",
		}},
		"DaemonSet": {values{"kind": "DaemonSet", "existingSecret": values{"name": "other", "key": "k"}}, []string{
			"installed as DaemonSet kube-system/", "the Secret other (key k) in namespace", "rollout status daemonset/cloudstack-cloud-controller-manager\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			install := action.NewInstall(&action.Configuration{})
			install.DryRun, install.ClientOnly = true, true
			install.ReleaseName, install.Namespace = releaseName, namespace
			install.KubeVersion = &chartutil.KubeVersion{Version: kubeVersion, Major: "1", Minor: "37"}
			rel, err := install.Run(c, tc.values)
			require.NoError(t, err)
			for _, want := range tc.want {
				assert.Contains(t, rel.Info.Notes, want)
			}
		})
	}
}
