// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// A Service whose request for an address is removed keeps the address, and one Normal Event says so.
func TestRemovedAddressIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ set, unset func(*corev1.Service) }{
		"annotation": {annotate(annotation.Address, "203.0.113.40"), func(s *corev1.Service) { delete(s.Annotations, annotation.Address) }},
		"spec":       {func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.40" }, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.service([]int{80}, c.set)
			b.mustSync("w1")
			b.mustSync("w1")
			assert.Empty(t, b.event(plan.ReasonAddressKept))
			b.change(c.unset)
			b.mustSync("w1")
			assert.Equal(t, "203.0.113.40", b.ip())
			event := b.event(plan.ReasonAddressKept)
			assert.True(t, strings.HasPrefix(event, "Normal "), event)
			assert.Contains(t, event, "keeps 203.0.113.40")
			b.mustSync("w1")
			assert.Empty(t, b.event(plan.ReasonAddressKept), "once")
		})
	}
}

// Before the virtual machine of an internal load balancer is destroyed with its rules, an Event says so; as long as a
// rule stays there is nothing to say.
func TestInterruptionOfAnInternalBalancerIsAnnounced(t *testing.T) {
	t.Parallel()
	b := newBed(t, withVPC)
	b.service([]int{80}, annotate(annotation.Internal, "true"))
	b.mustSync("i1", "i2")
	b.change(annotate(annotation.Algorithm, "leastconn"))
	b.events()
	b.killer.arm("deleteLoadBalancer", 1, false) // what comes before the first deletion
	require.Error(t, b.sync("i1", "i2"))
	event := b.event(plan.ReasonRuleReplaced)
	assert.Contains(t, event, "virtual machine")
	assert.Contains(t, event, "algorithm")
	list, err := b.inspect.ListInternalLoadBalancers(t.Context(), cloudstack.InternalLoadBalancerQuery{})
	require.NoError(t, err)
	require.Len(t, list, 1, "it is still there")
	b.restart()
	b.mustSync("i1", "i2")

	b.change(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81) })
	b.mustSync("i1", "i2")
	b.events()
	b.change(func(s *corev1.Service) { s.Spec.Ports[1].NodePort = 31999 })
	b.mustSync("i1", "i2")
	for _, e := range b.events() {
		assert.NotContains(t, e, "virtual machine")
	}
}
