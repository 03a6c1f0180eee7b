// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNodesThatWereThereBefore is what a migration builds on: how the controllers treat Nodes that came into
// the cluster without a cloud provider, or with another one.
func TestNodesThatWereThereBefore(t *testing.T) {
	t.Parallel()
	env := newDirectEnv(t, 6)
	plain := func(n *corev1.Node) { n.Spec.Taints = nil }
	env.register(t, 1, 2, plain) // of a kubelet without --cloud-provider
	env.register(t, 3, 3, func(n *corev1.Node) { plain(n); n.Spec.ProviderID = "k3s://w3" })
	env.register(t, 4, 4, func(n *corev1.Node) { // upstream's
		plain(n)
		n.Spec.ProviderID = "external-cloudstack://" + env.VM("w4")
		n.Labels[corev1.LabelInstanceTypeStable] = "SmallInstance"
	})
	env.register(t, 5, 5, func(n *corev1.Node) { // Cluster API's
		plain(n)
		n.Spec.ProviderID = "cloudstack:///" + env.VM("w5")
	})
	env.register(t, 6, 6, nil) // a new one, by which we see that the controllers work
	env.controller(t, "ccm-a", "--leader-elect=false")
	wait(t, limit, "w6 to be initialised", env.has(t, "w6", "external-cloudstack://"+env.VM("w6"), "Small_Instance"))

	for name, want := range map[string][2]string{
		"w1": {"", ""}, "w2": {"", ""}, "w3": {"k3s://w3", ""}, "w4": {"external-cloudstack://" + env.VM("w4"), "SmallInstance"}, "w5": {"cloudstack:///" + env.VM("w5"), ""},
	} {
		if err := env.has(t, name, want[0], want[1])(t.Context()); err != nil {
			t.Errorf("a Node without the taint is changed: %v", err)
		}
	}
	for _, name := range []string{"w1", "w3", "w5"} {
		env.taint(t, name, corev1.TaintEffectPreferNoSchedule)
	}
	wait(t, limit, "w1", env.has(t, "w1", "external-cloudstack://"+env.VM("w1"), "Small_Instance"))
	wait(t, limit, "w3", env.has(t, "w3", "k3s://w3", "Small_Instance"))
	wait(t, limit, "w5", env.has(t, "w5", "cloudstack:///"+env.VM("w5"), "Small_Instance"))

	// One without a provider ID and one of another provider are never judged, VM or none.
	for _, name := range []string{"w2", "w3"} {
		if _, err := env.Cloud.Admin(t.Context(), "destroyVirtualMachine", map[string]string{"id": env.VM(name), "expunge": "true"}); err != nil {
			t.Fatal(err)
		}
		env.notReady(t, name)
	}
	// The third, with an id of Cluster API's form, is: its end says that the controller has been round.
	if _, err := env.Cloud.Admin(t.Context(), "destroyVirtualMachine", map[string]string{"id": env.VM("w5"), "expunge": "true"}); err != nil {
		t.Fatal(err)
	}
	env.notReady(t, "w5")
	wait(t, limit, "the Node w5 to go", func(ctx context.Context) error {
		list, err := env.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 5 {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
	for _, name := range []string{"w2", "w3"} {
		if _, err := env.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("Node %s: %v", name, err)
		}
	}
}

// has compares what a cloud provider says of a Node, once it bears no taint.
func (env *directEnv) has(t *testing.T, name, providerID, instanceType string) func(context.Context) error {
	t.Helper()
	return func(ctx context.Context) error {
		n, err := env.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := n.Labels[corev1.LabelInstanceTypeStable]; hasTaint(n, taint) || n.Spec.ProviderID != providerID || got != instanceType {
			return fmt.Errorf("node %s: taints %v, provider ID %q, instance type %q", name, n.Spec.Taints, n.Spec.ProviderID, got)
		}
		return nil
	}
}

func (env *directEnv) taint(t *testing.T, name string, effect corev1.TaintEffect) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": []corev1.Taint{{Key: taint, Value: "true", Effect: effect}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
