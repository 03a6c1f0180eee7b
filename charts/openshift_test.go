// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// The range of a namespace is in its annotations openshift.io/sa.scc.uid-range and openshift.io/sa.scc.supplemental-groups.
const firstID, lastID = 1000650000, 1000659999

// Keys that a user gives are added to those of the chart, null takes one away, and the numbers of OpenShift's users stay whole.
func TestSecurityContextsMerge(t *testing.T) {
	t.Parallel()
	_, _, pod := workload(t, values{
		"podSecurityContext": values{"runAsUser": firstID, "fsGroup": nil, "supplementalGroups": []any{lastID}},
		"securityContext":    values{"capabilities": values{"add": []any{"NET_BIND_SERVICE"}}, "runAsNonRoot": nil},
	})
	have := pod.Spec.SecurityContext
	assert.EqualValues(t, firstID, *have.RunAsUser)
	assert.EqualValues(t, 65532, *have.RunAsGroup)
	assert.True(t, *have.RunAsNonRoot)
	assert.Nil(t, have.FSGroup)
	assert.Equal(t, []int64{lastID}, have.SupplementalGroups)
	c := pod.Spec.Containers[0].SecurityContext
	assert.Equal(t, &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"}}, c.Capabilities)
	assert.Nil(t, c.RunAsNonRoot)
	assert.Contains(t, render(t, values{"podSecurityContext": values{"runAsUser": firstID}}), fmt.Sprintf("runAsUser: %d\n", firstID))
}
