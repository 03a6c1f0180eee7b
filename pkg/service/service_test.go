// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node/failover"
	"github.com/csccm/csccm/pkg/tenancy"
)

// serviceWith returns a Service of type LoadBalancer.
func serviceWith(changes ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "7c3e1b52-0000-4000-8000-00000000abcd", Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}
	for _, c := range changes {
		c(svc)
	}
	return svc
}

func TestHandles(t *testing.T) {
	t.Parallel()
	class := "other.example.org/lb"
	now := metav1.Now()
	finalizer := []string{servicehelpers.LoadBalancerCleanupFinalizer}
	for name, c := range map[string]struct {
		change func(*corev1.Service)
		want   bool
	}{
		"load balancer":              {func(*corev1.Service) {}, true},
		"of another class":           {func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }, false},
		"never one":                  {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, false},
		"no longer one":              {func(s *corev1.Service) { s.Spec.Type, s.Finalizers = corev1.ServiceTypeNodePort, finalizer }, true},
		"being deleted":              {func(s *corev1.Service) { s.DeletionTimestamp, s.Finalizers = &now, finalizer }, true},
		"being deleted, cleaned up":  {func(s *corev1.Service) { s.DeletionTimestamp = &now }, false},
		"its class, being deleted":   {func(s *corev1.Service) { s.DeletionTimestamp, s.Spec.LoadBalancerClass = &now, &class }, false},
		"with the finalizer, living": {func(s *corev1.Service) { s.Finalizers = finalizer }, true},
	} {
		assert.Equal(t, c.want, Handles(serviceWith(c.change)), name)
	}
}

func TestEligible(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"plain": {func(*corev1.Node) {}, true},
		"not ready": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}, true},
		"excluded":          {func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} }, false},
		"excluded: true":    {func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"} }, false},
		"excluded: false":   {func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "false"} }, true},
		"by the autoscaler": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: failover.TaintBeingDeleted}} }, false},
		"being deleted":     {func(n *corev1.Node) { n.DeletionTimestamp = &now }, false},
	} {
		n := &corev1.Node{}
		c.change(n)
		assert.Equal(t, c.want, len(Eligible([]*corev1.Node{n})) == 1, name)
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	parse := func(text string) tenancy.Policy {
		p, err := tenancy.Parse([]byte(text))
		require.NoError(t, err)
		return p
	}
	shop := tenancy.Namespace{Name: "shop"}
	assert.Equal(t, plan.Grants{MaxAddresses: -1, MaxKept: 2, MaxPorts: 100}, grantsOf(tenancy.Default(), shop, ""))
	assert.Equal(t, plan.AllGrants(), grantsOf(tenancy.Default(), tenancy.Namespace{Name: "kube-system"}, ""))
	assert.Equal(t, plan.AllGrants(), grantsOf(parse("{}"), shop, ""))
	p := parse(`{"sourceNATAddress":{"allow":["shop"],"deny":true},"foreignAddress":{"values":["203.0.113.9"]},"limits":{"maxAddressesPerNamespace":3,"keepIP":{"maxPerNamespace":0}}}`)
	assert.Equal(t, plan.Grants{SourceNAT: true, ForeignAddress: true, MaxAddresses: 3, MaxPorts: -1}, grantsOf(p, shop, "203.0.113.9"))
	assert.Equal(t, plan.Grants{MaxAddresses: 3, MaxPorts: -1}, grantsOf(p, tenancy.Namespace{Name: "blog"}, "203.0.113.8"))
}
