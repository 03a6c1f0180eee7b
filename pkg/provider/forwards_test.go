// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
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
