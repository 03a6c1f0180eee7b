// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

func TestExplainOther(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection refused")
	err := explain("a", "b", cause, nil)
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "release a in namespace b: connection refused")

	_, err = Template(t.Context(), testNamespace, ApplyRequest{Name: testName, Chart: embedded(t), KubeVersion: "v1.30.0"})
	require.ErrorContains(t, err, "chart requires kubeVersion: >=1.33.0-0 which is incompatible with Kubernetes v1.30.0")

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
