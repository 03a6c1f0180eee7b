// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/pkg/node"
)

// The chart's own Pods start where nothing is initialised: hostNetwork, and every taint of a new node tolerated.
func TestTheProviderStartsOnNewNodes(t *testing.T) {
	t.Parallel()
	manifest, err := Provider(t.Context(), options(t, "").Chart, nil, "v1.33.1")
	require.NoError(t, err)
	objects, err := diff.Parse(manifest)
	require.NoError(t, err)
	i := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	raw, _, err := unstructured.NestedMap(objects[i].Object, "spec", "template", "spec")
	require.NoError(t, err)
	var spec corev1.PodSpec
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec))
	require.True(t, spec.HostNetwork)
	for _, key := range []string{"node-role.kubernetes.io/control-plane", corev1.TaintNodeNotReady, node.TaintKey} {
		taint := corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule}
		require.True(t, slices.ContainsFunc(spec.Tolerations, func(have corev1.Toleration) bool {
			return have.ToleratesTaint(klog.Background(), &taint, false)
		}), key)
	}
}
