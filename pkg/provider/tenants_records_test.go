// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

// forgery is what an attacker writes on its Service. The victim's Service is victim/web.
type forgery struct {
	port  int
	write func(*serviceEnv) []func(*corev1.Service)
	then  []func(*corev1.Service) // written after the first sync
	// sameNamespace means that Services of the victim's namespace may have the address.
	sameNamespace bool
}

// recordOf is a record that claims an address.
func recordOf(env *serviceEnv, ip string, more ...any) map[string]any {
	a := env.address(ip)
	r := map[string]any{"id": a.ID, "ip": ip, "network": a.AssociatedNetworkID, "allocated": true}
	for i := 0; i < len(more); i += 2 {
		r[more[i].(string)] = more[i+1]
	}
	return r
}

func forgeries() map[string]forgery {
	claim := func(ip func(*serviceEnv) string, more ...any) func(*serviceEnv) []func(*corev1.Service) {
		return func(env *serviceEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){forgedRecord(recordOf(env, ip(env), more...))}
		}
	}
	fixed := func(ip string) func(*serviceEnv) string { return func(*serviceEnv) string { return ip } }
	victim := func(env *serviceEnv) string { return env.ip("victim/web") }
	victimsJob := func(since time.Duration) func(*serviceEnv) []func(*corev1.Service) {
		return func(env *serviceEnv) []func(*corev1.Service) {
			for _, c := range env.Ledger().Find("associateIpAddress", "ccm") {
				return []func(*corev1.Service){annotate(annotation.Allocation, jsonText([]map[string]any{{
					"job": c.JobID, "network": env.address(victim(env)).AssociatedNetworkID, "since": env.clock.Now().Add(-since).UTC(),
				}}))}
			}
			env.t.Fatal("the victim has acquired no address")
			return nil
		}
	}
	predecessor := annotate(annotation.AssociatedByController, "true")
	list := func(c ...func(*corev1.Service)) func(*serviceEnv) []func(*corev1.Service) {
		return func(*serviceEnv) []func(*corev1.Service) { return c }
	}
	leasewebID := func(ip string, more ...func(*corev1.Service)) func(*serviceEnv) []func(*corev1.Service) {
		return func(env *serviceEnv) []func(*corev1.Service) {
			return append([]func(*corev1.Service){annotate(annotation.LeasewebID, env.address(ip).ID)}, more...)
		}
	}
	out := map[string]forgery{
		"an idle address":                     {port: 80, write: claim(fixed(idleIP))},
		"an idle address, tagged":             {port: 80, write: claim(fixed(idleIP), "tagged", true)},
		"an idle address that it also names":  {port: 80, write: func(env *serviceEnv) []func(*corev1.Service) { return append(claim(fixed(idleIP))(env), at(idleIP)) }},
		"the victim's address":                {port: 81, write: claim(victim)},
		"the victim's address and port":       {port: 80, write: claim(victim, "opened", "tcp:80")},
		"the victim's address, tagged":        {port: 81, write: claim(victim, "tagged", true, "opened", "tcp:80,81")},
		"a forwarded port":                    {port: 2222, write: claim(fixed(forwardedIP), "opened", "tcp:2222")},
		"a forwarded port, other than wanted": {port: 80, write: claim(fixed(forwardedIP), "opened", "tcp:2222")},
		"a forwarded port, tagged":            {port: 80, write: claim(fixed(forwardedIP), "opened", "tcp:2222", "tagged", true)},
		"an operator's firewall rule":         {port: 80, write: claim(fixed(openedIP), "opened", "tcp:80")},
		"the address of other rules":          {port: 8080, write: claim(fixed(foreignIP), "opened", "tcp:80,2222")},
		"another cluster's address":           {port: 80, write: claim(fixed(otherClusterIP), "tagged", true)},
		"the source NAT address":              {port: 80, write: claim(fixed(sourceNAT), "tagged", true)},
		"the victim's acquisition":            {port: 81, write: victimsJob(0)},
		"the victim's old acquisition":        {port: 81, write: victimsJob(time.Hour)},
		"an address by the predecessor's annotation": {
			port: 80, write: list(at(idleIP), predecessor), then: []func(*corev1.Service){unset(annotation.Addresses)},
		},
		"an address by the predecessor's annotation, no longer named": {
			port: 80, write: list(at(idleIP), predecessor), then: []func(*corev1.Service){unset(annotation.Addresses, annotation.Address)},
		},
		"an address by Leaseweb's annotation": {port: 80, write: leasewebID(idleIP, predecessor)},
		"a copy of the victim's record": {port: 81, sameNamespace: true, write: func(env *serviceEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){annotate(annotation.Addresses, env.get("victim/web").Annotations[annotation.Addresses])}
		}},
		"an address that the victim keeps": {port: 80, sameNamespace: true, write: func(env *serviceEnv) []func(*corev1.Service) {
			return claim(fixed(keptByVictim(env)))(env)
		}},
		"an address that the victim keeps, by the predecessor's annotation": {port: 80, sameNamespace: true, write: func(env *serviceEnv) []func(*corev1.Service) {
			return []func(*corev1.Service){at(keptByVictim(env)), predecessor}
		}, then: []func(*corev1.Service){unset(annotation.Addresses)}},
	}
	// Rules that Leaseweb's provider made for another cluster have the name of the Service too; only the cluster differs.
	for name, write := range map[string]func(*serviceEnv) []func(*corev1.Service){
		"id":     leasewebID(otherLeasewebIP),
		"record": claim(fixed(otherLeasewebIP), "opened", "tcp:80"),
		"id and record": func(env *serviceEnv) []func(*corev1.Service) {
			return append(leasewebID(otherLeasewebIP)(env), claim(fixed(otherLeasewebIP))(env)...)
		},
		"address":        list(at(otherLeasewebIP)),
		"tagged address": list(at(otherClusterIP)),
		"id and address": leasewebID(otherLeasewebIP, at(otherLeasewebIP)),
	} {
		for _, port := range []int{80, 8080} {
			out[fmt.Sprintf("another cluster's rules, by %s, port %d", name, port)] = forgery{port: port, write: write}
		}
	}
	return out
}

// keptByVictim makes a Service of the victim's namespace leave an address behind.
func keptByVictim(env *serviceEnv) string {
	env.t.Helper()
	env.create("victim/kept", []int{80}, annotate(annotation.KeepIP, "true"))
	env.mustSync("victim/kept")
	ip := env.ip("victim/kept")
	env.mustDelete("victim/kept")
	return ip
}

// No record that a user writes makes the controller tag, change or release what is not the user's.
func TestTenantBForgedRecords(t *testing.T) {
	t.Parallel()
	for role, options := range map[string][]envOption{"tags": nil, "no tags": {withoutTags}} {
		for name, f := range forgeries() {
			for _, evil := range []string{"attacker/web", "victim/other"} {
				if f.sameNamespace && evil != "attacker/web" {
					continue
				}
				parallel(t, role+"/"+name+" from "+evil, func(t *testing.T) {
					testForgery(t, f, evil, options...)
				})
			}
		}
	}
}

func testForgery(t *testing.T, f forgery, evil string, options ...envOption) {
	t.Helper()
	env := newTenantEnv(t, options...)
	env.create("victim/web", []int{80})
	env.mustSync("victim/web")
	forged := f.write(env)
	before := env.dump()
	last := ""
	check := func(when string) {
		t.Helper()
		// An idle address that the Service names may carry its rules. Without tags, one that others keep is idle too.
		// What serves goes on serving when it is no longer named.
		named := cmp.Or(env.get(evil).Annotations[annotation.Address], last)
		last = named
		if named == "" || named == otherLeasewebIP || named == otherClusterIP || named != idleIP && len(options) == 0 {
			env.unchanged(before, when)
			return
		}
		env.unchanged(before, when, named)
		assert.NotContains(t, env.address(named).Tags, "csccm-allocated-by", "after %s: %s was acquired by hand", when, named)
	}
	env.create(evil, []int{f.port}, forged...)
	_ = env.sync(evil) // refused, or served on an address of its own
	check("the first sync")
	env.edit(evil, f.then...)
	env.restart()
	_ = env.sync(evil)
	check("a restart")
	env.drift()
	check("the drift loop")
	// The record is forged again just before the Service goes.
	env.edit(evil, forged...)
	env.edit(evil, f.then...)
	env.restart()
	env.mustDelete(evil)
	env.drift()
	env.mustSync("victim/web")
	if len(options) > 0 {
		// Without tags nothing proves an address whose true record the attacker has overwritten, so it stays.
		env.unchanged(before, "the deletion")
		return
	}
	env.same(before, "the deletion")
}

// The record of an address that was released and then acquired by somebody else, with the same id, is no proof.
func TestTenantBReplayedRecord(t *testing.T) {
	t.Parallel()
	for role, options := range map[string][]envOption{"tags": nil, "no tags": {withoutTags}} {
		for _, restart := range []bool{false, true} {
			parallel(t, role, func(t *testing.T) {
				const evil = "attacker/web"
				env := newTenantEnv(t, options...)
				env.create(evil, []int{80})
				env.mustSync(evil)
				ip, old := env.ip(evil), env.get(evil).Annotations[annotation.Addresses]
				network := env.address(ip).AssociatedNetworkID
				env.edit(evil, ofType(corev1.ServiceTypeClusterIP))
				env.mustSync(evil)
				require.Empty(t, of(env.dump(), ip), "the address is released")
				env.acquireAgain(ip, network)
				before := env.dump()
				if restart {
					env.restart()
				}
				env.edit(evil, ofType(corev1.ServiceTypeLoadBalancer), annotate(annotation.Addresses, old))
				_ = env.sync(evil)
				env.unchanged(before, "the sync")
				env.edit(evil, annotate(annotation.Addresses, old))
				env.restart()
				env.mustDelete(evil)
				if len(options) > 0 {
					env.unchanged(before, "the deletion") // nothing proves the address whose record was overwritten
					return
				}
				env.same(before, "the deletion")
			})
		}
	}
}

// A firewall rule that somebody opened on an idle address is not ours before our load balancer rule uses its port: that comes first,
// and access is never wider than the source ranges.
func TestTenantAFirewallRuleOpenedBeforehand(t *testing.T) {
	t.Parallel()
	const key = trustedNS + "/web"
	env := newTenantEnv(t)
	env.create(key, []int{80}, at(openedIP), ranges("10.0.0.0/8"))
	env.reset()
	env.watch(func(command string) {
		for _, r := range env.access(openedIP, 80) {
			assert.Equal(t, []string{r}, intersection([]string{"10.0.0.0/8"}, []string{r}), "after %s", command)
		}
	})
	env.mustSync(key)
	env.watch(nil)
	onAddress := env.writes()
	require.NotEmpty(t, onAddress)
	for _, command := range onAddress {
		if command == "createLoadBalancerRule" {
			break
		}
		assert.NotContains(t, []string{"deleteFirewallRule", "createFirewallRule"}, command, "before the load balancer rule")
	}
	assert.Equal(t, []string{"10.0.0.0/8"}, env.access(openedIP, 80))
}
