// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

var direct = annotate(annotation.Mode, annotation.Direct)

// withUDP gives a Service UDP ports beside the others, with node ports of their own.
func withUDP(ports ...int) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, p := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("u%d", p), Protocol: corev1.ProtocolUDP, Port: int32(p), NodePort: int32(32000 + p%700)})
		}
	}
}

// forwardScenarios are those of ports that are forwarded past the load balancer.
func forwardScenarios() []scenario {
	in := func(world []envOption, kind string, nodes []string) []scenario {
		sync := on(nodes...)
		create := func(env *serviceEnv) {
			env.create("web", []int{80}, withUDP(53, 80), annotate(annotation.DirectSpread, "2"))
		}
		made := func(changes ...func(*corev1.Service)) func(*serviceEnv) {
			return func(env *serviceEnv) {
				create(env)
				env.mustSync("web", nodes...)
				if len(changes) > 0 {
					env.edit("web", changes...)
				}
			}
		}
		return []scenario{
			{kind + ": create forwards", world, create, sync},
			{kind + ": delete forwards", world, made(), removeWeb},
			{kind + ": ports of forwards", world, made(func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] }, withUDP(443)), sync},
			{kind + ": to mode direct", world, func(env *serviceEnv) {
				env.create("web", []int{80, 81})
				env.mustSync("web", nodes...)
				env.edit("web", direct, annotate(annotation.DirectSpread, "2"))
			}, sync},
			{kind + ": from mode direct", world, func(env *serviceEnv) {
				env.create("web", []int{80, 81}, direct, annotate(annotation.DirectSpread, "2"))
				env.mustSync("web", nodes...)
				env.edit("web", unset(annotation.Mode))
			}, sync},
			{kind + ": a node of forwards leaves", world, func(env *serviceEnv) {
				made()(env)
				was := nodesOf(env, env.ip("web"))[0]
				env.nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == was })
			}, on()},
			{kind + ": ranges of forwards", world, made(ranges("10.0.0.0/8", "172.16.0.0/12")), sync},
			{kind + ": node ports of forwards", world, made(func(s *corev1.Service) { s.Spec.Ports[1].NodePort = 31999 }), sync},
		}
	}
	out := in(nil, "isolated", []string{"w1", "w2"})
	out = append(out, in([]envOption{withVPC}, "VPC", []string{"v1", "v2"})...)
	out = append(out, in([]envOption{withProject}, "project", []string{"p1", "p2"})[:3]...)
	return append(out,
		scenario{
			name: "shared: forwards join",
			setup: func(env *serviceEnv) {
				sharing(env)
				env.edit("mail", withUDP(25, 53))
			},
			act: func(env *serviceEnv) error { return env.sync("mail") },
		},
		scenario{
			name: "shared: forwards leave",
			setup: func(env *serviceEnv) {
				env.create("web", nil, withUDP(53))
				env.mustSync("web")
				ip := env.ip("web")
				env.create("mail", nil, withUDP(54), at(ip))
				env.mustSync("mail")
			},
			act: removeWeb,
		},
	)
}

// forwardsAt are the port forwardings of a dump, without the node.
func forwardsAt(env *serviceEnv, ip string) []string {
	var out []string
	for _, l := range grep(of(env.dump(), ip), "forwarding ") {
		out = append(out, l[:strings.LastIndex(l, " ")])
	}
	return out
}

// nodesOf are the nodes that the port forwardings of an address lead to.
func nodesOf(env *serviceEnv, ip string) []string {
	var out []string
	for _, l := range grep(of(env.dump(), ip), "forwarding ") {
		out = append(out, l[strings.LastIndex(l, " ")+1:])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestForwardsInAnIsolatedNetwork(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, as(withUDP(53, 80), ranges("10.0.0.0/8")))
	ip := env.ip("web")
	assert.Equal(t, []string{
		"forwarding 53/udp->32053 [] test:default/web",
		"forwarding 80/tcp->30080 [] test:default/web",
		"forwarding 80/udp->32080 [] test:default/web",
	}, forwardsAt(env, ip), "TCP on a number with UDP as well")
	assert.Empty(t, grep(of(env.dump(), ip), "rule "))
	assert.Equal(t, []string{"firewall tcp 80-80 [10.0.0.0/8]", "firewall udp 53-53 [10.0.0.0/8]", "firewall udp 80-80 [10.0.0.0/8]"}, grep(of(env.dump(), ip), "firewall "))
	require.Len(t, nodesOf(env, ip), 1, "one node has all ports")

	// The node leaves: everything moves to the other one, by one call a port; it stays there when the node returns.
	was := nodesOf(env, ip)[0]
	other := map[string]string{"w1": "w2", "w2": "w1"}[was]
	env.events()
	env.reset()
	env.update("web", other)
	assert.Equal(t, []string{"updatePortForwardingRule", "updatePortForwardingRule", "updatePortForwardingRule"}, without(env.calls(), snapshots...))
	assert.Equal(t, []string{other}, nodesOf(env, ip))
	assert.Contains(t, env.event(plan.ReasonPortMoved), "moved ports 53/udp, 80/tcp, 80/udp from node")
	env.reset()
	env.update("web", "w1", "w2")
	assert.Empty(t, without(env.calls(), snapshots...))

	// Mode proxy refuses UDP as ever, and says what would serve it.
	env.edit("web", annotate(annotation.Mode, annotation.Proxy))
	require.ErrorContains(t, env.sync("web"), "or set the annotation "+annotation.Mode+" to auto")
	env.edit("web", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] })
	env.mustSync("web")
	assert.Empty(t, forwardsAt(env, ip))
	assert.Len(t, grep(of(env.dump(), ip), "rule "), 1)
	assert.Contains(t, env.event(plan.ReasonBriefInterruption), "from port forwarding to the load balancer")
	env.changed(direct)
	assert.Equal(t, ip, env.ip("web"), "the address stays")
	assert.Equal(t, []string{"forwarding 80/tcp->30080 [] test:default/web"}, forwardsAt(env, ip))
	assert.Contains(t, env.event(plan.ReasonBriefInterruption), "from the load balancer to port forwarding")
	env.removed("web")
}

func TestForwardsOnATier(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withVPC)
	env.create("web", nil, withUDP(53), annotate(annotation.DirectSpread, "3"), ranges("10.0.0.0/8", "192.0.2.1/32"))
	env.mustSync("web", "v1", "v2")
	ip := env.ip("web")
	forwards := forwardsAt(env, ip)
	require.Len(t, forwards, 4, "the next power of two")
	text := strings.Join(forwards, "\n")
	for _, part := range []string{"10.0.0.0/10", "10.64.0.0/10", "10.128.0.0/10", "10.192.0.0/10", "192.0.2.1/32"} {
		assert.Equal(t, 1, strings.Count(text, part), "%s in %s", part, text)
	}
	assert.Equal(t, []string{"v1", "v2"}, nodesOf(env, ip), "both nodes serve")
	assert.Equal(t, []string{"acl acl-1 9 allow udp 32053-32053 [10.0.0.0/8 192.0.2.1/32] " + ownReason}, grep(env.dump(), ownReason), "the node port passes the tier's list")

	env.restart()
	env.reset()
	env.mustSync("web", "v1", "v2")
	for _, call := range env.calls() {
		assert.True(t, strings.HasPrefix(call, "list"), call)
	}

	env.edit("web", ranges("10.0.0.0/9"))
	env.mustSync("web", "v1", "v2")
	for _, part := range []string{"10.0.0.0/11", "10.32.0.0/11", "10.64.0.0/11", "10.96.0.0/11"} {
		assert.Equal(t, 1, strings.Count(strings.Join(forwardsAt(env, ip), "\n"), part), part)
	}
	env.mustSync("web", "v2")
	assert.Equal(t, []string{"v2"}, nodesOf(env, ip))
	env.removed("web")
}

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
		// The address takes 3, looking for rules of the same name, the tags, the firewall and its tags one each.
		spend("create", 7+n, func() { env.mustSync("web") })
		spend("sync again", 0, func() { env.mustSync("web") })
		env.advance(6 * time.Minute)
		spend("sync after the drift period", 4, func() { env.mustSync("web") })
		was := nodesOf(env, env.ip("web"))[0]
		spend("failover", n, func() { env.update("web", map[string]string{"w1": "w2", "w2": "w1"}[was]) })
		assert.Equal(t, n, count(env.calls(), "updatePortForwardingRule"))
		env.restart()
		spend("restart", 4, func() { env.mustSync("web") })
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
	require.ErrorContains(t, err, "port 53 of address 203.0.113.31 is taken by a port forwarding")
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
	env = newEnv(t, withVPC, withDeps(func(d *service.Deps) { d.Known.LeaveACLs = true }))
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
