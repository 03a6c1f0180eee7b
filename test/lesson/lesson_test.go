// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/simpage"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	left, right := []string{"one", strings.Repeat("x", 80)}, []string{"two"}
	for width, want := range map[int][]string{
		0:   {"L" + strings.Repeat(" ", 64) + "│ R", "one" + strings.Repeat(" ", 62) + "│ two", strings.Repeat("x", 61) + "... │"},
		100: {"L" + strings.Repeat(" ", 48) + "│ R", "one" + strings.Repeat(" ", 46) + "│ two", strings.Repeat("x", 45) + "... │"},
	} {
		if have := columns(width, "L", "R", left, right); !slices.Equal(have, want) {
			t.Errorf("%d columns:\n%q, want\n%q", width, have, want)
		}
	}
}

// TestWorld: CloudStack takes the lesson's world, and the accounts differ only in their names and networks.
func TestWorld(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: world()})
	require.NoError(t, err)
	defer sim.Close()
	count := map[string]int{}
	for _, vm := range sim.Objects().VMs {
		count[vm.Owner]++
	}
	if count[withoutName] != workers+1 || count[withName] != workers+1 || len(count) != 2 {
		t.Errorf("VMs by account: %v", count)
	}
}

// TestAddCluster: a Service leads to its address and a Node to its VM, and what the cluster lacks is seen.
func TestAddCluster(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	defer sim.Close()
	s, err := simpage.New(sim).Snapshot(t.Context())
	require.NoError(t, err)
	vm, address, links := sim.Objects().VMs[0], sim.Objects().Addresses[0], len(s.Links)
	service := func(name string, kind corev1.ServiceType, at ...corev1.LoadBalancerIngress) corev1.Service {
		return corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: kind},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: at}},
		}
	}
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	addCluster(&s, "a", []corev1.Service{
		service("web", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: address.Address}),
		service("new", corev1.ServiceTypeLoadBalancer), service("inner", corev1.ServiceTypeClusterIP),
	}, []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "external-cloudstack://" + vm.ID}, Status: ready},
		{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint}}}, Status: ready},
		{ObjectMeta: metav1.ObjectMeta{Name: "n3"}},
	})
	health := map[string]model.Health{}
	for _, o := range s.Objects {
		if o.Group == "a" {
			health[o.ID] = o.Health
		}
	}
	assert.Equal(t, map[string]model.Health{
		"service/a/web": model.HealthOK, "service/a/new": model.HealthPending,
		"node/a/n1": model.HealthOK, "node/a/n2": model.HealthPending, "node/a/n3": model.HealthError,
	}, health)
	assert.Equal(t, []model.Link{
		{From: "service/a/web", To: "address/" + address.ID}, {From: "node/a/n1", To: "vm/" + vm.ID},
	}, s.Links[links:])
}
