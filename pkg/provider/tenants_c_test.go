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
						before := env.world()
						env.create("attacker/web", []int{port}, name2(ip))
						env.refused("attacker/web", reasonNotAllowed)
						env.restart()
						require.Error(t, env.sync("attacker/web"))
						env.drift()
						env.same(before, "the attacker")
						// The victim does not get in the way of itself.
						env.mustSync("victim/web")
						env.mustDelete("attacker/web")
						env.same(before, "the deletion")
					})
				}
			}
		}
	}
}

func TestTenantCSameNamespaceShares(t *testing.T) {
	t.Parallel()
	env := newTenantEnv(t)
	before := env.world()
	ip := env.owned()
	env.create("victim/mail", []int{25}, at(ip))
	env.mustSync("victim/mail")
	assert.Equal(t, []string{annotation.Anyone}, env.access(ip, 25))
	env.restart()
	env.mustSync("victim/mail")
	env.mustDelete("victim/web")
	env.mustDelete("victim/mail")
	env.same(before, "the deletions")
}

func TestTenantCShareWith(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"other, friend", "*"} {
		parallel(t, with, func(t *testing.T) {
			env := newTenantEnv(t)
			before := env.world()
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
			shared := of(env.world(), ip)
			for _, restart := range []bool{false, true} {
				if restart {
					env.restart()
					env.mustSync("victim/web")
				}
				_ = env.sync("friend/mail")
				env.drift()
				assert.Empty(t, changes(shared, of(env.world(), ip)), "after sharing was withdrawn")
			}
			env.edit("friend/mail", func(s *corev1.Service) { s.Spec.Ports = servicePorts(25, 587) })
			env.refused("friend/mail", reasonNotAllowed)
			assert.Empty(t, changes(shared, of(env.world(), ip)), "a port was added after sharing was withdrawn")
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
		before := env.world()
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

// Rules that Leaseweb's provider made for another cluster have the name of the Service too; only the cluster differs.
func TestTenantCRulesOfAnotherCluster(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string]func(*serviceEnv) []func(*corev1.Service){
		"id": func(env *serviceEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){annotate(annotation.LeasewebID, env.address(otherLeasewebIP).ID)}
		},
		"record": func(env *serviceEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){forgedRecord(recordOf(env, otherLeasewebIP, "opened", "tcp:80"))}
		},
		"id and record": func(env *serviceEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){annotate(annotation.LeasewebID, env.address(otherLeasewebIP).ID), forgedRecord(recordOf(env, otherLeasewebIP))}
		},
		"address":        func(*serviceEnv) []func(*corev1.Service) { return []func(*corev1.Service){at(otherLeasewebIP)} },
		"tagged address": func(*serviceEnv) []func(*corev1.Service) { return []func(*corev1.Service){at(otherClusterIP)} },
		"id and address": func(env *serviceEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){at(otherLeasewebIP), annotate(annotation.LeasewebID, env.address(otherLeasewebIP).ID)}
		},
	} {
		for _, port := range []int{80, 8080} {
			parallel(t, name, func(t *testing.T) {
				env := newTenantEnv(t)
				before := env.world()
				env.create("attacker/web", []int{port}, forged(env)...)
				_ = env.sync("attacker/web")
				env.unchanged(before, "the sync")
				env.edit("attacker/web", forged(env)...)
				env.restart()
				_ = env.sync("attacker/web")
				env.drift()
				env.unchanged(before, "a restart")
				env.edit("attacker/web", forged(env)...)
				env.mustDelete("attacker/web")
				env.same(before, "the deletion")
			})
		}
	}
}

// Kept addresses stay with the namespace that kept them.
func TestTenantCKeptAddress(t *testing.T) {
	t.Parallel()
	env := newTenantEnv(t)
	ip := keptByVictim(env)
	env.create("attacker/web", []int{80}, at(ip))
	env.refused("attacker/web", reasonNotAllowed)
	env.restart()
	env.refused("attacker/web", reasonNotAllowed)
	env.mustDelete("attacker/web")
	require.NotEmpty(t, of(env.world(), ip))

	env.create("victim/again", []int{80}, at(ip))
	env.mustSync("victim/again")
	assert.Equal(t, []string{annotation.Anyone}, env.access(ip, 80), "its own namespace may have it")
}
