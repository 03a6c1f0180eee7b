// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/testenv/leftby"
)

// csccm derives values from the cluster again when the cluster has changed. Values that the operator chose stay.
func TestValuesFollowTheCluster(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given map[string]any
		want  any // replicaCount with two control plane nodes
	}{
		"decided by csccm":    {nil, nil},
		"the operator's wish": {map[string]any{"replicaCount": 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			o := e.keys(t)
			o.Values = tc.given
			e.install(t, o)
			require.EqualValues(t, 1, e.Releases.Release().Values["replicaCount"])
			e.install(t, Config{})
			require.Equal(t, 1, e.Releases.Applied, "nothing to do")

			e.label(t, "demo-worker-1", true)
			e.install(t, Config{})
			require.Equal(t, tc.want, e.Releases.Release().Values["replicaCount"])
		})
	}
}

// label makes a node one of the control plane, or a worker.
func (e *env) label(t *testing.T, name string, controlPlane bool) {
	t.Helper()
	n, err := e.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	delete(n.Labels, "node-role.kubernetes.io/control-plane")
	if controlPlane {
		n.Labels["node-role.kubernetes.io/control-plane"] = ""
	}
	_, err = e.Kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// csccm template prints what an install applies, whatever the cluster, the releases before and the flags.
func TestTemplatePrintsWhatInstallApplies(t *testing.T) {
	t.Parallel()
	kept := func(status string, decided ...string) helm.Release {
		return helm.Release{
			Name: "cloudstack-ccm", Status: status, ChartVersion: "0.0.1", Decided: decided,
			Values: map[string]any{"logVerbosity": len(status), "replicaCount": 1},
		}
	}

	for cluster, change := range map[string]func(t *testing.T, e *env){
		"one control plane node":  func(*testing.T, *env) {},
		"two control plane nodes": func(t *testing.T, e *env) { t.Helper(); e.label(t, "demo-worker-1", true) },
		"no control plane node":   func(t *testing.T, e *env) { t.Helper(); e.label(t, "demo-cp-1", false) },
		"CKS": func(t *testing.T, e *env) {
			t.Helper()
			require.NoError(t, e.Kube.Tracker().Add(aNode("x-control-0123456789a", "10.1.1.12")))
			require.NoError(t, e.Kube.Tracker().Add(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
			}))
		},
	} {
		for release, history := range map[string][]helm.Release{
			"no release":         nil,
			"deployed":           {kept("deployed", "replicaCount")},
			"chosen replicas":    {kept("deployed")},
			"failed":             {kept("failed")},
			"failed afterwards":  {kept("failed"), kept("deployed", "replicaCount")},
			"uninstalled before": {kept("uninstalled")},
		} {
			for name, values := range map[string]map[string]any{
				"no flag":   nil,
				"replicas":  {"replicaCount": 3},
				"placement": {"controlPlaneOnly": false, "adoptNodes": false},
				"kind":      {"kind": "DaemonSet", "logVerbosity": 5},
			} {
				t.Run(cluster+", "+release+", "+name, func(t *testing.T) {
					t.Parallel()
					e := newEnv(t)
					e.Releases.Kept = slices.Clone(history)
					given := e.keys(t)
					e.putKeys(t, given.Answers["api-key"], given.Answers["secret-key"])
					change(t, e)

					chart, err := helm.Embedded()
					require.NoError(t, err)
					manifest, err := Manifest(t.Context(), e.Env.Env, chart, values)
					require.NoError(t, err)

					e.install(t, Config{Values: values, SkipTaint: true})
					require.Equal(t, e.Releases.Release().Manifest, manifest)
				})
			}
		}
	}
}

// What keeps the labels and provider IDs of nodes is known to an install alone: csccm template says so while there is
// another provider that an install would replace.
func TestTemplateNamesTheOtherProvider(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]bool{"runs": true, "stopped": true, "replaced": false} {
		objects := leftby.ApacheObjects()
		old, _ := objects[0].(*appsv1.Deployment)
		if state != "runs" {
			old.Spec.Replicas = ptr.To(int32(0))
		}
		if state == "replaced" {
			old.Annotations = map[string]string{family.ReplacedAnnotation: "true"}
		}

		e, _ := takenEnv(t, leftby.Apache, objects...)
		o := e.installer(t, e.taking(t))
		manifest, err := Manifest(t.Context(), e.Env.Env, o.Chart, nil)
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(e.Stderr.String(), "may set more values"), state)
		require.NoError(t, o.Run(t.Context()), e.Stderr.String())
		require.Equal(t, !want, e.Releases.Release().Manifest == manifest, state)
	}
}
