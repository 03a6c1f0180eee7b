// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/testenv"
)

func served(uid, ip string) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: types.UID(uid)}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: ip}}}},
	}
}

// TestBrokenInvariantsAreSeen checks that the watch records each kind of violation.
func TestBrokenInvariantsAreSeen(t *testing.T) {
	t.Parallel()
	fresh := func() *watch {
		return &watch{addresses: map[types.UID]string{}, calls: map[string]int{}, broken: map[string]int{}}
	}
	at := func(ips ...string) (c cloud) {
		for _, ip := range ips {
			c.ips = append(c.ips, cloudstack.PublicIP{Address: ip})
		}
		return c
	}
	says := func(w *watch, want string) {
		t.Helper()
		if err := w.err(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	one, other := []corev1.Service{served("1", "192.0.2.1")}, []corev1.Service{served("1", "192.0.2.2")}

	w := fresh()
	w.lost(one, one, at("192.0.2.1"))
	says(w, "")
	w.lost(other, other, at("192.0.2.2"))
	says(w, "Service web had 192.0.2.1 and has 192.0.2.2")

	w = fresh()
	w.lost(one, one, at("192.0.2.9"))
	says(w, "Service web has lost its address 192.0.2.1")
	w = fresh()
	w.lost(one, nil, at("192.0.2.9"))
	says(w, "") // it was deleted meanwhile

	w = fresh()
	rule := cloudstack.LoadBalancerRule{Name: "a-tcp-80", PublicIP: "192.0.2.1"}
	w.duplicates(cloud{rules: []cloudstack.LoadBalancerRule{rule}})
	says(w, "")
	w.duplicates(cloud{rules: []cloudstack.LoadBalancerRule{rule, rule}})
	says(w, "2 rules are named 192.0.2.1 a-tcp-80")
}

// TestForeignCallsAreSeen deletes a foreign rule as the controller's user.
func TestForeignCallsAreSeen(t *testing.T) {
	t.Parallel()
	c, err := testenv.StartCloudStack(simulator.ExampleWorld())
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	client, err := c.Client("k8s-owner")
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	rules, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	if err != nil || len(rules) == 0 {
		t.Fatal(err)
	}
	w := &watch{env: &testenv.Env{Cloud: c}, caller: "k8s-owner", foreign: map[string]string{rules[0].ID: "a rule"}, calls: map[string]int{}, broken: map[string]int{}}
	w.count()
	if err := w.err(); err != nil || w.calls["listLoadBalancerRules"] == 0 {
		t.Errorf("reading is allowed: %v, %v", err, w.calls)
	}
	if _, err := client.DeleteLoadBalancerRule(t.Context(), rules[0].ID); err != nil {
		t.Fatal(err)
	}
	w.count()
	if err := w.err(); err == nil || !strings.Contains(err.Error(), "foreign: deleteLoadBalancerRule was sent for a rule") {
		t.Errorf("%v", err)
	}
}
