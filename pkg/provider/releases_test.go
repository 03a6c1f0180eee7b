// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// asRelease makes the server one of CloudStack's releases.
func asRelease(version string) envOption {
	return withWorld(func(w string) string { return strings.Replace(w, "version: 4.22.0.0", "version: "+version+".0.0", 1) })
}

// since reports whether a release, 4.x, has a feature of another release.
func since(version, brought string) bool { return len(version) == len(brought) && version >= brought }

// The life of a Service on every supported release: the state after each step is the same on all of them, except for the source ranges of rules (docs/support-policy.md).
func TestServiceOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		parallel(t, version, func(t *testing.T) {
			env := newEnv(t, asRelease(version))
			before := env.dump()
			env.create("web", []int{80, 81}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
			env.mustSync("web")
			ip := env.ip("web")
			ranges := func(of string) string {
				if since(version, "4.18") {
					return of
				}
				return "[]"
			}
			rule := func(port, to, of string) string {
				return "rule " + webLB + "-tcp-" + port + " " + port + "->" + to + " tcp roundrobin " + ranges(of) + " [w1 w2]"
			}
			assert.Equal(t, []string{
				"address Allocated " + webTags, "firewall tcp 80-81 [10.0.0.0/8]",
				rule("80", "30080", "[10.0.0.0/8]"), rule("81", "30081", "[10.0.0.0/8]"),
			}, of(env.dump(), ip))
			assert.Empty(t, env.event(plan.ReasonRangesNotServed), "the firewall serves them")

			// Tighter, then wider: the firewall follows, and the rules where they can.
			for _, want := range [][]string{{"10.1.0.0/16"}, {"10.0.0.0/8", "192.168.0.0/16"}} {
				env.edit("web", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = want })
				env.mustSync("web")
				text := "[" + strings.Join(want, " ") + "]"
				lines := of(env.dump(), ip)
				assert.Contains(t, lines, "firewall tcp 80-81 "+text)
				assert.Contains(t, lines, rule("80", "30080", text))
				assert.Len(t, lines, 4)
			}

			// Nothing to do, also after a restart.
			env.restart()
			env.mustSync("web")
			env.reset()
			env.mustSync("web")
			for _, call := range env.calls() {
				assert.True(t, strings.HasPrefix(call, "list") || strings.HasPrefix(call, "query"), call)
			}

			// A certificate is refused before anything changes, or taken.
			env.edit("web", annotate(annotation.SSLCertificate, "no-such-certificate"))
			lines := of(env.dump(), ip)
			require.Error(t, env.sync("web"))
			assert.Equal(t, lines, of(env.dump(), ip))
			env.edit("web", func(s *corev1.Service) { delete(s.Annotations, annotation.SSLCertificate) })

			env.removed(before, "web")
		})
	}
}

// In a VPC the ranges of the rule are the only filter. If the release has none, an Event says so; if it cannot change
// them, the rule is replaced.
func TestRangesInAVPCOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		parallel(t, version, func(t *testing.T) {
			env := newEnv(t, asRelease(version), withVPC)
			before := env.dump()
			env.create("web", []int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
			env.mustSync("web", "v1", "v2")
			ip := env.ip("web")
			served := since(version, "4.18")
			warned := env.event(plan.ReasonRangesNotServed)
			if !served {
				env.mustSync("web", "v1", "v2") // what a write showed is known to the next sync
				warned += env.event(plan.ReasonRangesNotServed)
			}
			assert.Equal(t, served, warned == "", warned)

			env.edit("web", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.1.0.0/16"} })
			events := ""
			for range 3 {
				env.mustSync("web", "v1", "v2")
				events += strings.Join(env.events(), "\n")
			}
			rules := grep(of(env.dump(), ip), "rule ")
			require.Len(t, rules, 1)
			assert.Equal(t, served, strings.Contains(rules[0], "[10.1.0.0/16] [v1 v2]"), rules[0])
			assert.Equal(t, !served, strings.HasSuffix(rules[0], " [] []"), "nobody gets in who should not: %s", rules[0])
			assert.Equal(t, served && !since(version, "4.22"), strings.Contains(events, string(plan.ReasonRuleReplaced)), events)

			env.reset()
			env.mustSync("web", "v1", "v2")
			assert.Empty(t, grep(env.calls(), "createLoadBalancerRule"), "it does not try again and again")
			env.removed(before, "web")
		})
	}
}
