// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

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
		80:  {"L", "  one", "  " + strings.Repeat("x", 75) + "...", "R", "  two"},
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
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	count := map[string]int{}
	for _, vm := range sim.Objects().VMs {
		count[vm.Owner]++
	}
	if count[withoutName] != workers+1 || count[withName] != workers+1 || len(count) != 2 {
		t.Errorf("VMs by account: %v", count)
	}
}

// TestAddCluster: a Service leads to its address and a Node to its VM; both ends of each link exist.
func TestAddCluster(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	s, err := simpage.New(sim).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vm := sim.Objects().VMs[0]
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	balancer := corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}
	addCluster(&s, clusterState{
		name: "a", kubeconfig: "$A",
		services: []corev1.Service{
			{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: balancer, Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: balancer}, {ObjectMeta: metav1.ObjectMeta{Name: "inner"}},
		},
		nodes: []corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "external-cloudstack://" + vm.ID}, Status: ready},
			{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint}}}, Status: ready},
			{ObjectMeta: metav1.ObjectMeta{Name: "n3"}},
		},
		events: []corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "Service", Name: "web"}, Reason: "Reconciled", Message: "m", LastTimestamp: metav1.Now()}},
	})
	health := map[string]model.Health{}
	addresses := map[string]string{}
	for _, o := range s.Objects {
		health[o.ID] = o.Health
		addresses[o.Name] = o.ID
	}
	for id, want := range map[string]model.Health{
		"service/a/web": model.HealthOK, "service/a/new": model.HealthPending, "service/a/inner": "",
		"node/a/n1": model.HealthOK, "node/a/n2": model.HealthPending, "node/a/n3": model.HealthError,
	} {
		if health[id] != want {
			t.Errorf("%s: health %q, want %q", id, health[id], want)
		}
	}
	for _, want := range []model.Link{{From: "service/a/web", To: addresses["203.0.113.20"]}, {From: "node/a/n1", To: "vm/" + vm.ID}} {
		if !slices.Contains(s.Links, want) {
			t.Errorf("no link %v", want)
		}
	}
	for _, l := range s.Links {
		if health[l.From] == "" || health[l.To] == "" {
			t.Errorf("link %v leads nowhere", l)
		}
	}
	if e := s.Timeline[len(s.Timeline)-1]; e.Object != "service/a/web" || e.Message != "a: web: m" {
		t.Errorf("the Event is %+v", e)
	}
	if n := s.Nodes[0]; n.VMState != "Running" || !slices.Equal(n.CloudStack, []string{vm.NICs[0].Address}) {
		t.Errorf("the node is %+v", n)
	}
}
