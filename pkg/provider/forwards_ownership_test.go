// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/event"
)

// The budgets of forwarded ports: F forwardings cost F calls beside those that every Service costs.
func TestBudgetOfForwards(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10} {
		env := newEnv(t)
		env.create("web", nil, withUDP(someOrTen(n)...))
		spend := func(what string, budget int, do func()) {
			t.Helper()
			env.reset()
			do()
			own := without(env.calls(), append(snapshots, "listApis")...)
			t.Logf("%-28s %3d calls, budget %3d", what, len(own), budget)
			assert.LessOrEqual(t, len(own), budget, "%s: %v", what, own)
		}
		// The address takes 3, looking for rules of the same name, the tags and the firewall one each.
		spend("create", 6+n, func() { env.mustSync("web") })
		spend("sync again", 0, func() { env.mustSync("web") })
		env.advance(6 * time.Minute)
		spend("sync after the drift period", 3, func() { env.mustSync("web") })
		was := nodesOf(env, env.ip("web"))[0]
		spend("failover", n, func() { env.update("web", map[string]string{"w1": "w2", "w2": "w1"}[was]) })
		assert.Equal(t, n, count(env.calls(), "updatePortForwardingRule"))
		env.restart()
		spend("restart", 3, func() { env.mustSync("web") })
		// One more than without: the proof that nobody else forwards ports of the address.
		spend("delete", 5, func() { require.NoError(t, env.remove("web")) })
	}
}

// What others forward is refused on a wanted port, and never touched.
func TestForeignForwards(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	forward := func(protocol string, port int) string {
		return env.did(env.inspect.CreatePortForwarding(t.Context(), cloudstack.CreatePortForwardingRequest{
			PublicIPID: env.address("203.0.113.31").ID, Protocol: protocol, PublicPort: port, PrivatePort: 32000 + port, VMID: env.vm("w1"),
		}))
	}
	forward("udp", 53)
	forward("tcp", 2222)
	before := env.dump()
	env.create("web", nil, withUDP(53), at("203.0.113.31"))
	err := env.sync("web")
	require.ErrorContains(t, err, "port 53 of address 203.0.113.31 is forwarded to VM w1")
	assert.Equal(t, before, env.dump())

	// One that leads to the Service's own node port is not the Service's without a record that names the port. TCP on the
	// number is free.
	env.edit("web", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolTCP }, direct)
	env.mustSync("web")
	assert.Contains(t, forwardsAt(env, "203.0.113.31"), "forwarding 53/tcp->32053 [] test:default/web")
	env.advance(10 * time.Minute)
	env.round(0)
	require.NoError(t, env.remove("web"))
	assert.Equal(t, before, env.dump(), "nothing of others was changed")
}

// A tenant who writes the id of another Service's port forwarding into the record of a Service gets nothing by it: the
// record has no valid signature.
func TestForgedForwards(t *testing.T) {
	t.Parallel()
	for role, option := range map[string]envOption{"tags": func(*serviceEnv, *string) {}, "no tags": withoutTags} {
		parallel(t, role, func(t *testing.T) {
			env := newEnv(t, option)
			env.create("mail", nil, withUDP(53))
			env.mustSync("mail")
			ip := env.ip("mail")
			forwards, err := env.inspect.ListPortForwardings(t.Context(), cloudstack.PortForwardingQuery{})
			require.NoError(t, err)
			require.Len(t, forwards, 1)
			victims := of(env.dump(), ip)
			env.create("web", nil, withUDP(53), forgedRecord(map[string]any{
				"id": forwards[0].PublicIPID, "ip": ip, "allocated": true, "tagged": role == "tags", "network": forwards[0].NetworkID,
				"forwarded": "udp:53", "forwards": forwards[0].ID,
			}), at(ip))
			require.ErrorContains(t, env.sync("web"), "port 53 of address "+ip)
			require.NoError(t, env.remove("web"))
			assert.Equal(t, victims, of(env.dump(), ip))
		})
	}
}

// Another Service of the cluster has the port: the message says which, to those of its namespace.
func TestForwardsOfAnotherService(t *testing.T) {
	t.Parallel()
	env := served(t, nil, as(withUDP(53)))
	ip := env.ip("web")
	env.create("mail", nil, withUDP(53), at(ip))
	require.ErrorContains(t, env.sync("mail"), "port 53 of address "+ip+" is taken by Service default/web")
	env.create("other/dns", nil, withUDP(53), at(ip))
	err := env.sync("other/dns")
	require.ErrorContains(t, err, "another namespace")
	assert.NotContains(t, err.Error(), "default/web")
	env.edit("mail", func(s *corev1.Service) { s.Spec.Ports[0].Port = 54 })
	env.mustSync("mail")
	require.NoError(t, env.remove("web"))
	assert.Len(t, forwardsAt(env, ip), 1, "the address serves the other one")
	env.removed("mail")
}

// The controller of a role that may not tag knows its forwardings by the signed record.
func TestForwardsWithoutTags(t *testing.T) {
	t.Parallel()
	env := served(t, nil, as(withUDP(53, 54)), withoutTags)
	ids := strings.Fields(records(env).Addresses[0].Forwards)
	assert.Len(t, ids, 2)
	// Their node port changes while the controller is away: the ids still prove them.
	env.restart()
	env.edit("web", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31999 })
	env.mustSync("web")
	assert.Contains(t, strings.Join(forwardsAt(env, env.ip("web")), " "), "53/udp->31999")
	env.restart()
	env.removed("web")
}

// A role without one of the commands: what needs them is refused with its name, before anything is written.
func TestRoleWithoutForwards(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"createPortForwardingRule", "updatePortForwardingRule", "deletePortForwardingRule", "listPortForwardingRules"} {
		parallel(t, command, func(t *testing.T) {
			env := newEnv(t, withWorld(func(w string) string {
				w = strings.Replace(w, "accounts:\n", "roles:\n  - name: few\n    type: User\n    rules: [{deny: "+command+"}, {allow: \"*\"}]\naccounts:\n", 1)
				w = strings.Replace(w, "  - name: k8s\n    role: User", "  - name: k8s\n    role: few", 1)
				return w
			}), func(env *serviceEnv, _ *string) { env.noForwards = command == "listPortForwardingRules" })
			env.create("web", []int{80}, withUDP(53))
			require.ErrorContains(t, env.sync("web"), "("+command+")")
			env.edit("web", direct)
			require.ErrorContains(t, env.sync("web"), "("+command+")")
			assert.Equal(t, env.before, env.dump(), "nothing was written")
			env.edit("web", unset(annotation.Mode), func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] })
			env.mustSync("web")
			assert.Len(t, grep(of(env.dump(), env.ip("web")), "rule "), 1, "rules are served as ever")
			env.removed("web")
		})
	}
}

// Forwardings of a Service that is gone are found, and removed if that is asked for.
func TestOrphansOfForwards(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		env := newEnv(t, withDeps(func(d *loadBalancerDeps) { d.CleanOrphans = true }))
		env.create("web", nil, withUDP(53), at("203.0.113.31"))
		env.mustSync("web")
		env.forget("web")
		if restarted {
			env.restart()
		}
		env.round(0)
		env.round(5 * time.Minute)
		assert.NotEmpty(t, env.event(event.Orphan))
		assert.Equal(t, env.before, env.dump())
	}
}

// What others change of a forwarding is put right.
func TestDriftOfForwards(t *testing.T) {
	t.Parallel()
	env := served(t, nil, as(withUDP(53, 54)))
	want := env.dump()
	forwards, err := env.inspect.ListPortForwardings(t.Context(), cloudstack.PortForwardingQuery{})
	require.NoError(t, err)
	env.did(env.inspect.DeletePortForwarding(t.Context(), forwards[0].ID))
	env.did(env.inspect.UpdatePortForwarding(t.Context(), cloudstack.UpdatePortForwardingRequest{ID: forwards[1].ID, VMID: env.vm("w3"), PrivatePort: 31000}))
	env.round(6 * time.Minute)
	assert.Equal(t, want, env.dump())
	assert.NotEmpty(t, env.event(plan.ReasonDriftRepaired))
	env.removed("web")
}

// CloudStack deletes the port forwardings of a VM that is expunged. The move to another node makes them again in the same
// sync.
func TestForwardIsGoneWhenItMoves(t *testing.T) {
	t.Parallel()
	env := served(t, nil, as(withUDP(53, 54)))
	ip := env.ip("web")
	forwards, err := env.inspect.ListPortForwardings(t.Context(), cloudstack.PortForwardingQuery{})
	require.NoError(t, err)
	env.did(env.inspect.DeletePortForwarding(t.Context(), forwards[0].ID))
	other := map[string]string{"w1": "w2", "w2": "w1"}[nodesOf(env, ip)[0]]
	env.update("web", other)
	assert.Len(t, forwardsAt(env, ip), 2)
	assert.Equal(t, []string{other}, nodesOf(env, ip))
	env.removed("web")
}

// A tier under default_deny: an Event says what has to be let in.
func TestForwardsUnderDefaultDeny(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withVPC)
	env.create("web", nil, withUDP(53))
	env.mustSync("web", "d1")
	assert.Contains(t, env.event(plan.ReasonDefaultACL), "default_deny lets nobody reach forwarded ports")
	env.removed("web")
	env = newEnv(t, withVPC, withDeps(func(d *loadBalancerDeps) { d.LeaveACLs = true }))
	env.create("web", nil, withUDP(53))
	env.mustSync("web", "v1")
	assert.Contains(t, env.event(plan.ReasonDefaultACL), "let in 0.0.0.0/0 to 32053/udp")
	env.removed("web")
}

// An address that another Service's ports are forwarded on stays, also while that Service lets nobody in, so that nothing
// else shows it.
func TestAddressWithForwardsOfAnotherServiceStays(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80})
	ip := env.ip("web")
	env.create("mail", nil, withUDP(53), at(ip), annotate(annotation.SourceCIDRs, ""))
	env.mustSync("mail")
	require.NoError(t, env.remove("web"))
	assert.Equal(t, []string{"forwarding 53/udp->32053 [] test:default/mail"}, forwardsAt(env, ip))
	env.removed("mail")
}
