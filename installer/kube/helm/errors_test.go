// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

func TestExplainOwnership(t *testing.T) {
	t.Parallel()
	const conflict = "Unable to continue with install: "
	for name, tc := range map[string]struct {
		text, want, remedy string
	}{
		"of nobody": {
			conflict + `ClusterRole "r" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by": must be set to "Helm"; annotation validation error: missing key "meta.helm.sh/release-name": must be set to "cloudstack-ccm"; annotation validation error: missing key "meta.helm.sh/release-namespace": must be set to "kube-system"`,
			"release cloudstack-ccm: ClusterRole r exists and belongs to no Helm release",
			"remove it (kubectl delete clusterrole r) or give it to the release: kubectl label --overwrite clusterrole r app.kubernetes.io/managed-by=Helm && kubectl annotate --overwrite clusterrole r meta.helm.sh/release-name=cloudstack-ccm meta.helm.sh/release-namespace=kube-system",
		},
		"of nobody, in a namespace": {
			conflict + `ServiceAccount "s" in namespace "kube-system" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by": must be set to "Helm"`,
			"release cloudstack-ccm: ServiceAccount kube-system/s exists and belongs to no Helm release",
			"remove it (kubectl delete -n kube-system serviceaccount s) or give it to the release: kubectl label --overwrite -n kube-system serviceaccount s app.kubernetes.io/managed-by=Helm && kubectl annotate --overwrite -n kube-system serviceaccount s meta.helm.sh/release-name=cloudstack-ccm meta.helm.sh/release-namespace=kube-system",
		},
		"deployment": {
			conflict + `Deployment "d" in namespace "kube-system" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by": must be set to "Helm"`,
			"release cloudstack-ccm: Deployment kube-system/d exists and belongs to no Helm release",
			"remove it (kubectl delete -n kube-system deployment d); a Deployment cannot be adopted, its selector is fixed",
		},
		"of another release": {
			conflict + `ClusterRole "r" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: key "meta.helm.sh/release-name" must equal "cloudstack-ccm": current value is "other"`,
			"release cloudstack-ccm: ClusterRole r exists and belongs to release kube-system/other",
			"use that release's name and namespace, or remove it first: helm -n kube-system uninstall other",
		},
		"of this name in another namespace": {
			conflict + `ClusterRole "r" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: key "meta.helm.sh/release-namespace" must equal "kube-system": current value is "cloud"`,
			"release cloudstack-ccm: ClusterRole r exists and belongs to release cloud/cloudstack-ccm",
			"use that release's name and namespace, or remove it first: helm -n cloud uninstall cloudstack-ccm",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := explain("cloudstack-ccm", "kube-system", errors.New(tc.text), nil)
			assert.Equal(t, &report.Error{What: tc.want, Fix: tc.remedy}, err)
		})
	}
}

func TestExplainOther(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection refused")
	err := explain("a", "b", cause, nil)
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "release a in namespace b: connection refused")

	_, err = Template(t.Context(), testNamespace, ApplyRequest{Name: testName, Chart: embedded(t), KubeVersion: "v1.30.0"})
	require.EqualError(t, err, "the chart needs Kubernetes >=1.33.0-0, this is v1.30.0")

	_, err = Template(t.Context(), testNamespace, ApplyRequest{Name: testName, Chart: embedded(t)})
	require.EqualError(t, err, `kubernetes version "": want a version such as v1.37.1`)

	f := newFixture(t)
	_, err = f.Apply(t.Context(), request(t, map[string]any{"fullnameOverride": "ccm"}))
	var values *ValuesError
	require.ErrorAs(t, err, &values)
	assert.Contains(t, err.Error(), `chart values: fullnameOverride: "ccm" must contain cloud-controller-manager; `)
	assert.NotEmpty(t, values.Remedy())
	assert.Equal(t, report.ExitUsage, values.ExitCode())
}
