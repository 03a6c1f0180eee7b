// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
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
				was := env.ledTo(env.ip("web"))[0]
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
		was := env.ledTo(env.ip("web"))[0]
		spend("failover", n, func() { env.update("web", map[string]string{"w1": "w2", "w2": "w1"}[was]) })
		assert.Equal(t, n, count(env.calls(), "updatePortForwardingRule"))
		env.restart()
		spend("restart", 4, func() { env.mustSync("web") })
		spend("delete", 5, func() { require.NoError(t, env.remove("web")) })
	}
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
