// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// On the wire: no load balancer rule is made or changed on an address after the creation of a firewall rule there has
// been submitted, when an address is acquired, when ports are added, and when an address is shared.
func TestFirewallRulesAreSubmittedLast(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	steps := []struct {
		name string
		do   func()
	}{
		{"create", func() {
			b.service([]int{80, 443, 8080})
			b.mustSync("w1", "w2")
		}},
		{"add ports", func() {
			b.change(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 443, 8080, 9000, 9002) })
			b.mustSync("w1", "w2")
		}},
		{"a second Service", func() {
			b.service([]int{25, 26}, uid(mailUID), func(s *corev1.Service) { s.Name, s.Spec.LoadBalancerIP = "mail", b.ip() })
			require.NoError(t, b.syncAs("mail", "w1", "w2"))
		}},
	}
	for _, step := range steps {
		b.reset()
		step.do()
		calls := b.calls()
		first := slices.Index(calls, "createFirewallRule")
		if assert.NotEqual(t, -1, first, step.name) {
			assert.NotContains(t, calls[first:], "createLoadBalancerRule", step.name)
			assert.NotContains(t, calls[first:], "assignToLoadBalancerRule", step.name)
		}
	}
}
