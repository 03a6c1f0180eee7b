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

// shareWith is the annotation by which a Service lets Services of other namespaces use its address.
const shareWith = annotation.Prefix + "share-with"

// owned makes victim/web and returns its address.
func (env *serviceEnv) owned(change ...func(*corev1.Service)) string {
	env.t.Helper()
	env.create("victim/web", []int{80}, change...)
	env.mustSync("victim/web")
	return env.ip("victim/web")
}

// A Service of another namespace that names an address in use is refused, whatever its ports.
func TestTenantCAddressOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	byField := func(ip string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }
	for role, options := range map[string][]envOption{"tags": nil, "no tags": {withoutTags}} {
		for name, name2 := range map[string]func(string) func(*corev1.Service){"annotation": at, "spec.loadBalancerIP": byField} {
			for _, port := range []int{80, 81} {
				for _, acquired := range []string{"", idleIP} { // by the controller, or by an operator
					parallel(t, role+"/"+name, func(t *testing.T) {
						env := newTenantEnv(t, options...)
						ip := env.owned(func(s *corev1.Service) { s.Spec.LoadBalancerIP = acquired })
						env.create("attacker/web", []int{port}, name2(ip))
						env.harmless("attacker/web", reasonNotAllowed)
						env.mustSync("victim/web") // it does not get in the way of itself
					})
				}
			}
		}
	}
}

func TestTenantCShareWith(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"other, friend", "*"} {
		parallel(t, with, func(t *testing.T) {
			env := newTenantEnv(t)
			before := env.dump()
			ip := env.owned(annotate(shareWith, with))
			env.create("friend/mail", []int{25}, at(ip))
			env.mustSync("friend/mail")
			assert.Equal(t, []string{annotation.Anyone}, env.access(ip, 25))
			env.create("attacker/web", []int{8080}, at(ip))
			if with != "*" {
				env.refused("attacker/web", reasonNotAllowed)
			}
			env.mustDelete("attacker/web")

			// Withdrawn: what is served goes on, and nothing is added.
			env.edit("victim/web", unset(shareWith))
			env.mustSync("victim/web")
			shared := of(env.dump(), ip)
			for _, restart := range []bool{false, true} {
				if restart {
					env.restart()
					env.mustSync("victim/web")
				}
				_ = env.sync("friend/mail")
				env.drift()
				assert.Empty(t, changes(shared, of(env.dump(), ip)), "after sharing was withdrawn")
			}
			env.edit("friend/mail", func(s *corev1.Service) { s.Spec.Ports = servicePorts(25, 587) })
			env.refused("friend/mail", reasonNotAllowed)
			assert.Empty(t, changes(shared, of(env.dump(), ip)), "a port was added after sharing was withdrawn")
			env.create("friend/new", []int{143}, at(ip))
			env.refused("friend/new", reasonNotAllowed)
			env.mustDelete("friend/new")
			env.mustDelete("friend/mail")
			env.mustDelete("victim/web")
			env.same(before, "the deletions")
		})
	}
	parallel(t, "the attacker cannot share the victim's address with itself", func(t *testing.T) {
		env := newTenantEnv(t)
		ip := env.owned()
		env.create("attacker/web", []int{81}, at(ip), annotate(shareWith, "*"))
		env.refused("attacker/web", reasonNotAllowed)
		env.create("attacker/second", []int{82}, at(ip))
		env.refused("attacker/second", reasonNotAllowed)
	})
	parallel(t, "a guest cannot share what it was lent", func(t *testing.T) {
		env := newTenantEnv(t)
		ip := env.owned(annotate(shareWith, friendNS))
		env.create("friend/mail", []int{25}, at(ip), annotate(shareWith, "*"))
		env.mustSync("friend/mail")
		env.create("attacker/web", []int{81}, at(ip))
		env.refused("attacker/web", reasonNotAllowed)
	})
	parallel(t, "an empty value shares with nobody", func(t *testing.T) {
		env := newTenantEnv(t)
		ip := env.owned(annotate(shareWith, ""))
		env.create("attacker/web", []int{81}, at(ip))
		env.refused("attacker/web", reasonNotAllowed)
	})
}

// The owner of a shared address goes before its guests: the last of them releases it.
func TestTenantCOwnerGoesFirst(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		env := newTenantEnv(t)
		before := env.dump()
		ip := env.owned(annotate(shareWith, friendNS))
		env.create("friend/mail", []int{25}, at(ip))
		env.mustSync("friend/mail")
		env.mustDelete("victim/web")
		if restart {
			env.restart()
		}
		assert.Empty(t, env.access(ip, 80))
		assert.Equal(t, []string{annotation.Anyone}, env.access(ip, 25), "the guest goes on")
		env.create("attacker/web", []int{80}, at(ip))
		env.refused("attacker/web", reasonNotAllowed)
		env.mustDelete("attacker/web")
		env.mustSync("friend/mail")
		env.drift()
		assert.Equal(t, []string{annotation.Anyone}, env.access(ip, 25))
		env.mustDelete("friend/mail")
		env.same(before, "the deletions")
	}
}

// Kept addresses stay with the namespace that kept them.
func TestTenantCKeptAddress(t *testing.T) {
	t.Parallel()
	env := newTenantEnv(t)
	ip := keptByVictim(env)
	env.create("attacker/web", []int{80}, at(ip))
	env.harmless("attacker/web", reasonNotAllowed)
	require.NotEmpty(t, of(env.dump(), ip))

	env.create("victim/again", []int{80}, at(ip))
	env.mustSync("victim/again")
	assert.Equal(t, []string{annotation.Anyone}, env.access(ip, 80), "its own namespace may have it")
}

// keptPerNamespace is keepIP.maxPerNamespace of the default policy.
const keptPerNamespace = 2

// A loop of Services with keep-ip does not use up the account's addresses.
func TestTenantEKeepIPLoop(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"one controller": false, "restarts": true} {
		parallel(t, name, func(t *testing.T) {
			env := newTenantEnv(t)
			before := len(grep(env.dump(), "address "))
			for i := range 6 {
				key := fmt.Sprintf("attacker/web%d", i)
				env.create(key, []int{80}, annotate(annotation.KeepIP, "true"))
				if err := env.sync(key); err != nil {
					env.edit(key, unset(annotation.KeepIP))
					env.mustSync(key)
					env.edit(key, annotate(annotation.KeepIP, "true"))
				}
				if restart {
					env.restart()
				}
				env.mustDelete(key)
				assert.LessOrEqual(t, len(grep(env.dump(), "address ")), before+keptPerNamespace, "after %d rounds", i+1)
			}
			// Another namespace has a limit of its own.
			kept := len(grep(env.dump(), "address "))
			require.NotEmpty(t, keptByVictim(env))
			assert.Len(t, grep(env.dump(), "address "), kept+1)
		})
	}
}

// The default policy denies settings that open ports elsewhere or use objects of the account.
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
		parallel(t, name, func(t *testing.T) {
			env := newTenantEnv(t)
			env.create("attacker/web", []int{tc.port}, tc.change)
			env.harmless("attacker/web", reasonNotAllowed)
			if tc.trusted {
				env.create("kube-system/web", []int{tc.port}, tc.change)
				assert.NoError(t, env.sync("kube-system/web"), "a trusted namespace")
			}
		})
		parallel(t, name+", set on a running Service", func(t *testing.T) {
			env := newTenantEnv(t)
			env.create("attacker/web", []int{tc.port})
			env.mustSync("attacker/web")
			env.edit("attacker/web", tc.change)
			env.refused("attacker/web", reasonNotAllowed)
			env.restart()
			env.refused("attacker/web", reasonNotAllowed)
		})
		parallel(t, name+", set while the Service has no load balancer", func(t *testing.T) {
			env := newTenantEnv(t)
			env.create("attacker/web", []int{tc.port}, tc.change, ofType(corev1.ServiceTypeClusterIP))
			env.mustSync("attacker/web")
			env.edit("attacker/web", ofType(corev1.ServiceTypeLoadBalancer))
			env.refused("attacker/web", reasonNotAllowed)
		})
	}
	parallel(t, "an idle address of the account is allowed", func(t *testing.T) {
		env := newTenantEnv(t)
		before := env.dump()
		env.create("attacker/web", []int{80}, at(idleIP))
		env.mustSync("attacker/web")
		assert.Equal(t, []string{annotation.Anyone}, env.access(idleIP, 80))
		env.restart()
		env.mustSync("attacker/web")
		env.mustDelete("attacker/web")
		env.same(before, "the deletion")
	})
	parallel(t, "the address of another Service of the namespace is not foreign", func(t *testing.T) {
		env := newTenantEnv(t)
		env.create("attacker/web", []int{80})
		env.mustSync("attacker/web")
		env.create("attacker/mail", []int{25}, at(env.ip("attacker/web")))
		env.mustSync("attacker/mail")
	})
}

// A port forwarding that is added to an address of a Service does not stop the Service, and stays.
func TestTenantEForwardingThatComesLater(t *testing.T) {
	t.Parallel()
	env := newTenantEnv(t)
	env.create("victim/web", []int{80})
	env.mustSync("victim/web")
	ip := env.ip("victim/web")
	env.forward(ip, 2222, "w5", "openfirewall", "true")
	before := env.dump()
	env.drift()
	env.restart()
	env.mustSync("victim/web")
	env.drift()
	env.same(before, "the controller")
	env.edit("victim/web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 2222) })
	env.refused("victim/web", plan.ReasonPortTaken, reasonNotAllowed)
	env.edit("victim/web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
	env.mustSync("victim/web")
	env.same(before, "the refused change")
	env.mustDelete("victim/web")
	assert.Len(t, grep(of(env.dump(), ip), "forwarding"), 1)
	assert.Len(t, grep(of(env.dump(), ip), "firewall tcp 2222"), 1)
}

func numbers(first, count int) []int {
	var out []int
	for i := range count {
		out = append(out, first+i)
	}
	return out
}
