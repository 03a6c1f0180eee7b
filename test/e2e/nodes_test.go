// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/test/internal/must"
)

// TestNodesThatWereThereBefore checks what a migration relies on: how the controllers treat Nodes that joined the
// cluster without a cloud provider, or with another one.
func TestNodesThatWereThereBefore(t *testing.T) {
	t.Parallel()
	e := newDirectEnv(t, 6)
	id := func(name string) string { return "external-cloudstack://" + e.vms.VM(name) }
	before := map[string][2]string{ // provider ID and instance type
		"w1": {}, "w2": {}, // of a kubelet without --cloud-provider
		"w3": {"k3s://w3", ""},
		"w4": {id("w4"), "SmallInstance"},             // upstream's
		"w5": {"cloudstack:///" + e.vms.VM("w5"), ""}, // Cluster API's
	}
	e.register(t, 1, 5, func(n *corev1.Node) {
		n.Spec.Taints, n.Spec.ProviderID = nil, before[n.Name][0]
		if kind := before[n.Name][1]; kind != "" {
			n.Labels[corev1.LabelInstanceTypeStable] = kind
		}
	})
	e.register(t, 6, 6, nil) // a new Node: when it is initialised, the controllers work
	e.controller(t, "ccm-a", "--leader-elect=false")
	has := func(name, providerID, instanceType string) {
		t.Helper()
		e.eventually(t, "Node "+name+" to be as wanted", func(ctx context.Context) {
			n := must.Get(e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
			got := []string{n.Spec.ProviderID, n.Labels[corev1.LabelInstanceTypeStable]}
			must.Be(!hasTaint(n, taint) && slices.Equal(got, []string{providerID, instanceType}), "taints %v, %q",
				n.Spec.Taints, got)
		})
	}
	has("w6", id("w6"), "Small_Instance")
	for name, want := range before { // they lack the taint
		n := e.node(t, name)
		require.Equal(t, want, [2]string{n.Spec.ProviderID, n.Labels[corev1.LabelInstanceTypeStable]}, name)
	}
	for _, name := range []string{"w1", "w3", "w5"} {
		patch := fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"value":"true","effect":"PreferNoSchedule"}]}}`, taint)
		_, err := e.Client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{})
		require.NoError(t, err)
	}
	has("w1", id("w1"), "Small_Instance")
	has("w3", "k3s://w3", "Small_Instance")
	has("w5", before["w5"][0], "Small_Instance")

	// A Node without a provider ID, or with that of another provider, is never deleted, even if its VM is gone. The
	// third Node, with an ID in Cluster API's form, is deleted: that shows that the controller has checked all of them.
	for _, name := range []string{"w2", "w3", "w5"} {
		require.NoError(t, e.vms.Destroy(t.Context(), name))
	}
	e.nodeGone(t, "w5")
	e.node(t, "w2")
	e.node(t, "w3")
}
