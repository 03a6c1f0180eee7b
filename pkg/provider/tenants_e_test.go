// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// keptPerNamespace is keepIP.maxPerNamespace of the default policy.
const keptPerNamespace = 2

// A loop of Services with keep-ip does not use up the account's addresses.
func TestTenantEKeepIPLoop(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"one controller": false, "restarts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTenantEnv(t)
			before := len(grep(e.world(), "address "))
			for i := range 6 {
				key := fmt.Sprintf("attacker/web%d", i)
				e.create(key, []int{80}, annotate(annotation.KeepIP, "true"))
				if err := e.sync(key); err != nil {
					e.edit(key, unset(annotation.KeepIP))
					e.mustSync(key)
					e.edit(key, annotate(annotation.KeepIP, "true"))
				}
				if restart {
					e.restart()
				}
				e.mustDelete(key)
				assert.LessOrEqual(t, len(grep(e.world(), "address ")), before+keptPerNamespace, "after %d rounds", i+1)
			}
			// Another namespace has a limit of its own.
			kept := len(grep(e.world(), "address "))
			require.NotEmpty(t, keptByVictim(e))
			assert.Len(t, grep(e.world(), "address "), kept+1)
		})
	}
	t.Run("set just before the deletion", func(t *testing.T) {
		t.Parallel()
		e := newTenantEnv(t)
		before := len(grep(e.world(), "address "))
		for i := range 5 {
			e.create(fmt.Sprintf("attacker/web%d", i), []int{80})
			e.mustSync(fmt.Sprintf("attacker/web%d", i))
		}
		for i := range 5 {
			e.edit(fmt.Sprintf("attacker/web%d", i), annotate(annotation.KeepIP, "true"))
			e.mustDelete(fmt.Sprintf("attacker/web%d", i))
		}
		assert.LessOrEqual(t, len(grep(e.world(), "address ")), before+keptPerNamespace)
	})
}

// The default policy denies what opens ports elsewhere or uses what is the account's.
func TestTenantEDeniedByDefault(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*corev1.Service)
		port    int
		trusted bool // whether a trusted namespace is served
	}{
		"network":                      {annotate(annotation.Network, "k8s-net"), 80, true},
		"zone":                         {annotate(annotation.Zone, "zone-1"), 80, true},
		"project":                      {annotate(annotation.Project, "shop"), 80, false},
		"ssl-certificate":              {annotate(annotation.SSLCertificate, "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"), 80, false},
		"source NAT address":           {at(sourceNAT), 80, true},
		"source NAT address, by field": {func(s *corev1.Service) { s.Spec.LoadBalancerIP = sourceNAT }, 80, true},
		"address with other rules":     {at(foreignIP), 8080, true},
		"address with a forwarding":    {at(forwardedIP), 8080, true},
		"too many ports":               {func(s *corev1.Service) { s.Spec.Ports = servicePorts(numbers(1000, 101)...) }, 80, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTenantEnv(t)
			e.create("attacker/web", []int{tc.port}, tc.change)
			e.refused("attacker/web", reasonNotAllowed)
			e.restart()
			e.refused("attacker/web", reasonNotAllowed)
			e.mustDelete("attacker/web")
			if tc.trusted {
				e.create("kube-system/web", []int{tc.port}, tc.change)
				assert.NoError(t, e.sync("kube-system/web"), "a trusted namespace")
			}
		})
		t.Run(name+", set on a running Service", func(t *testing.T) {
			t.Parallel()
			e := newTenantEnv(t)
			e.create("attacker/web", []int{tc.port})
			e.mustSync("attacker/web")
			e.edit("attacker/web", tc.change)
			e.refused("attacker/web", reasonNotAllowed)
			e.restart()
			e.refused("attacker/web", reasonNotAllowed)
		})
		t.Run(name+", set while the Service has no load balancer", func(t *testing.T) {
			t.Parallel()
			e := newTenantEnv(t)
			e.create("attacker/web", []int{tc.port}, tc.change, ofType(corev1.ServiceTypeClusterIP))
			require.NoError(t, e.sync("attacker/web"))
			e.edit("attacker/web", ofType(corev1.ServiceTypeLoadBalancer))
			e.refused("attacker/web", reasonNotAllowed)
		})
	}
	t.Run("an idle address of the account is allowed", func(t *testing.T) {
		t.Parallel()
		e := newTenantEnv(t)
		before := e.world()
		e.create("attacker/web", []int{80}, at(idleIP))
		e.mustSync("attacker/web")
		assert.Equal(t, []string{annotation.Anyone}, e.access(idleIP, 80))
		e.restart()
		e.mustSync("attacker/web")
		e.mustDelete("attacker/web")
		e.same(before, "the deletion")
	})
	t.Run("the address of another Service of the namespace is not foreign", func(t *testing.T) {
		t.Parallel()
		e := newTenantEnv(t)
		e.create("attacker/web", []int{80})
		e.mustSync("attacker/web")
		e.create("attacker/mail", []int{25}, at(e.ip("attacker/web")))
		e.mustSync("attacker/mail")
	})
}

// A forwarding that appears on an address that a Service already uses does not stop it, and stays.
func TestTenantEForwardingThatComesLater(t *testing.T) {
	t.Parallel()
	e := newTenantEnv(t)
	e.create("victim/web", []int{80})
	e.mustSync("victim/web")
	ip := e.ip("victim/web")
	e.forward(ip, 2222, "w5", "openfirewall", "true")
	before := e.world()
	e.drift()
	e.restart()
	e.mustSync("victim/web")
	e.drift()
	e.same(before, "the controller")
	e.edit("victim/web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 2222) })
	e.refused("victim/web", plan.ReasonPortTaken, reasonNotAllowed)
	e.edit("victim/web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
	e.mustSync("victim/web")
	e.same(before, "the refused change")
	e.mustDelete("victim/web")
	assert.Len(t, grep(of(e.world(), ip), "forwarding"), 1)
	assert.Len(t, grep(of(e.world(), ip), "firewall tcp 2222"), 1)
}

func numbers(first, count int) []int {
	var out []int
	for i := range count {
		out = append(out, first+i)
	}
	return out
}
