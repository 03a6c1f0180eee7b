// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

// shareWith is the annotation by which a Service lets Services of other namespaces use its address.
const shareWith = annotation.Prefix + "share-with"

// owned makes victim/web and returns its address.
func (e *tenantEnv) owned(change ...func(*corev1.Service)) string {
	e.t.Helper()
	e.create("victim/web", []int{80}, change...)
	e.mustSync("victim/web")
	return e.ip("victim/web")
}

// A Service of another namespace that names an address in use is refused, whatever its ports.
func TestTenantCAddressOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	byField := func(ip string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }
	for role, options := range map[string][]bedOption{"tags": nil, "no tags": {withoutTags}} {
		for name, name2 := range map[string]func(string) func(*corev1.Service){"annotation": at, "spec.loadBalancerIP": byField} {
			for _, port := range []int{80, 81} {
				for _, acquired := range []string{"", idleIP} { // by the controller, or by an operator
					t.Run(role+"/"+name, func(t *testing.T) {
						t.Parallel()
						e := newTenantEnv(t, options...)
						ip := e.owned(func(s *corev1.Service) { s.Spec.LoadBalancerIP = acquired })
						before := e.world()
						e.create("attacker/web", []int{port}, name2(ip))
						e.refused("attacker/web", reasonNotAllowed)
						e.restart()
						require.Error(t, e.sync("attacker/web"))
						e.drift()
						e.same(before, "the attacker")
						// The victim does not get in the way of itself.
						e.mustSync("victim/web")
						e.mustDelete("attacker/web")
						e.same(before, "the deletion")
					})
				}
			}
		}
	}
}

func TestTenantCSameNamespaceShares(t *testing.T) {
	t.Parallel()
	e := newTenantEnv(t)
	before := e.world()
	ip := e.owned()
	e.create("victim/mail", []int{25}, at(ip))
	e.mustSync("victim/mail")
	assert.Equal(t, []string{annotation.Anyone}, e.access(ip, 25))
	e.restart()
	e.mustSync("victim/mail")
	e.mustDelete("victim/web")
	e.mustDelete("victim/mail")
	e.same(before, "the deletions")
}

func TestTenantCShareWith(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"other, friend", "*"} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			e := newTenantEnv(t)
			before := e.world()
			ip := e.owned(annotate(shareWith, with))
			e.create("friend/mail", []int{25}, at(ip))
			e.mustSync("friend/mail")
			assert.Equal(t, []string{annotation.Anyone}, e.access(ip, 25))
			e.create("attacker/web", []int{8080}, at(ip))
			if with != "*" {
				e.refused("attacker/web", reasonNotAllowed)
			}
			e.mustDelete("attacker/web")

			// Withdrawn: what is served goes on, and nothing is added.
			e.edit("victim/web", unset(shareWith))
			e.mustSync("victim/web")
			shared := of(e.world(), ip)
			for _, restart := range []bool{false, true} {
				if restart {
					e.restart()
					e.mustSync("victim/web")
				}
				_ = e.sync("friend/mail")
				e.drift()
				assert.Empty(t, changes(shared, of(e.world(), ip)), "after sharing was withdrawn")
			}
			e.edit("friend/mail", func(s *corev1.Service) { s.Spec.Ports = servicePorts(25, 587) })
			e.refused("friend/mail", reasonNotAllowed)
			assert.Empty(t, changes(shared, of(e.world(), ip)), "a port was added after sharing was withdrawn")
			e.create("friend/new", []int{143}, at(ip))
			e.refused("friend/new", reasonNotAllowed)
			e.mustDelete("friend/new")
			e.mustDelete("friend/mail")
			e.mustDelete("victim/web")
			e.same(before, "the deletions")
		})
	}
	t.Run("the attacker cannot share the victim's address with itself", func(t *testing.T) {
		t.Parallel()
		e := newTenantEnv(t)
		ip := e.owned()
		e.create("attacker/web", []int{81}, at(ip), annotate(shareWith, "*"))
		e.refused("attacker/web", reasonNotAllowed)
		e.create("attacker/second", []int{82}, at(ip))
		e.refused("attacker/second", reasonNotAllowed)
	})
	t.Run("a guest cannot share what it was lent", func(t *testing.T) {
		t.Parallel()
		e := newTenantEnv(t)
		ip := e.owned(annotate(shareWith, friendNS))
		e.create("friend/mail", []int{25}, at(ip), annotate(shareWith, "*"))
		e.mustSync("friend/mail")
		e.create("attacker/web", []int{81}, at(ip))
		e.refused("attacker/web", reasonNotAllowed)
	})
	t.Run("an empty value shares with nobody", func(t *testing.T) {
		t.Parallel()
		e := newTenantEnv(t)
		ip := e.owned(annotate(shareWith, ""))
		e.create("attacker/web", []int{81}, at(ip))
		e.refused("attacker/web", reasonNotAllowed)
	})
}

// The owner of a shared address goes before its guests: the last of them releases it.
func TestTenantCOwnerGoesFirst(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		e := newTenantEnv(t)
		before := e.world()
		ip := e.owned(annotate(shareWith, friendNS))
		e.create("friend/mail", []int{25}, at(ip))
		e.mustSync("friend/mail")
		e.mustDelete("victim/web")
		if restart {
			e.restart()
		}
		assert.Empty(t, e.access(ip, 80))
		assert.Equal(t, []string{annotation.Anyone}, e.access(ip, 25), "the guest goes on")
		e.create("attacker/web", []int{80}, at(ip))
		e.refused("attacker/web", reasonNotAllowed)
		e.mustDelete("attacker/web")
		e.mustSync("friend/mail")
		e.drift()
		assert.Equal(t, []string{annotation.Anyone}, e.access(ip, 25))
		e.mustDelete("friend/mail")
		e.same(before, "the deletions")
	}
}

// Rules that Leaseweb's provider made for another cluster are named after the Service too. Only the cluster differs.
func TestTenantCRulesOfAnotherCluster(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string]func(*tenantEnv) []func(*corev1.Service){
		"id": func(e *tenantEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){annotate(annotation.LeasewebID, e.address(otherLeasewebIP).ID)}
		},
		"record": func(e *tenantEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){forgedRecord(recordOf(e, otherLeasewebIP, "opened", "tcp:80"))}
		},
		"id and record": func(e *tenantEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){annotate(annotation.LeasewebID, e.address(otherLeasewebIP).ID), forgedRecord(recordOf(e, otherLeasewebIP))}
		},
		"address":        func(*tenantEnv) []func(*corev1.Service) { return []func(*corev1.Service){at(otherLeasewebIP)} },
		"tagged address": func(*tenantEnv) []func(*corev1.Service) { return []func(*corev1.Service){at(otherClusterIP)} },
		"id and address": func(e *tenantEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){at(otherLeasewebIP), annotate(annotation.LeasewebID, e.address(otherLeasewebIP).ID)}
		},
	} {
		for _, port := range []int{80, 8080} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newTenantEnv(t)
				before := e.world()
				e.create("attacker/web", []int{port}, forged(e)...)
				_ = e.sync("attacker/web")
				e.unchanged(before, "the sync")
				e.edit("attacker/web", forged(e)...)
				e.restart()
				_ = e.sync("attacker/web")
				e.drift()
				e.unchanged(before, "a restart")
				e.edit("attacker/web", forged(e)...)
				e.mustDelete("attacker/web")
				e.same(before, "the deletion")
			})
		}
	}
}

// Kept addresses stay with the namespace that kept them.
func TestTenantCKeptAddress(t *testing.T) {
	t.Parallel()
	e := newTenantEnv(t)
	ip := keptByVictim(e)
	e.create("attacker/web", []int{80}, at(ip))
	e.refused("attacker/web", reasonNotAllowed)
	e.restart()
	e.refused("attacker/web", reasonNotAllowed)
	e.mustDelete("attacker/web")
	require.NotEmpty(t, of(e.world(), ip))

	e.create("victim/again", []int{80}, at(ip))
	e.mustSync("victim/again")
	assert.Equal(t, []string{annotation.Anyone}, e.access(ip, 80), "its own namespace may have it")
}
