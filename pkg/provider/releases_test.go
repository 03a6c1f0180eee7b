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
func asRelease(version string) bedOption {
	return withWorld(func(w string) string { return strings.Replace(w, "version: 4.22.0.0", "version: "+version+".0.0", 1) })
}

// since tells whether a release, 4.x, has what another brought.
func since(version, brought string) bool { return len(version) == len(brought) && version >= brought }

// The life of a Service on every release that is supported: what is there at the end of each step is the same on all
// of them, but for the source ranges of rules, which docs/support-policy.md tells of.
func TestServiceOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, asRelease(version))
			before := b.dump()
			b.service([]int{80, 81}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
			b.mustSync("w1", "w2")
			ip := b.ip()
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
			}, of(b.dump(), ip))
			assert.Empty(t, b.event(plan.ReasonRangesNotServed), "the firewall serves them")

			// Tighter, then wider: the firewall follows, and the rules where they can.
			for _, want := range [][]string{{"10.1.0.0/16"}, {"10.0.0.0/8", "192.168.0.0/16"}} {
				b.change(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = want })
				b.mustSync("w1", "w2")
				text := "[" + strings.Join(want, " ") + "]"
				lines := of(b.dump(), ip)
				assert.Contains(t, lines, "firewall tcp 80-81 "+text)
				assert.Contains(t, lines, rule("80", "30080", text))
				assert.Len(t, lines, 4)
			}

			// Nothing to do, also after a restart.
			b.restart()
			b.mustSync("w1", "w2")
			b.reset()
			b.mustSync("w1", "w2")
			for _, call := range b.calls() {
				assert.True(t, strings.HasPrefix(call, "list") || strings.HasPrefix(call, "query"), call)
			}

			// A certificate is refused before anything changes, or taken.
			b.change(annotate(annotation.SSLCertificate, "no-such-certificate"))
			lines := of(b.dump(), ip)
			require.Error(t, b.sync("w1", "w2"))
			assert.Equal(t, lines, of(b.dump(), ip))
			b.change(func(s *corev1.Service) { delete(s.Annotations, annotation.SSLCertificate) })

			require.NoError(t, b.remove())
			assert.Equal(t, before, b.dump())
		})
	}
}

// In a VPC the rule's own ranges are the only filter: where there are none, the Service's Event says so, and where
// they cannot be changed, the rule is replaced.
func TestRangesInAVPCOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, asRelease(version), withVPC)
			before := b.dump()
			b.service([]int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
			b.mustSync("v1", "v2")
			ip := b.ip()
			served := since(version, "4.18")
			warned := b.event(plan.ReasonRangesNotServed)
			if !served {
				b.mustSync("v1", "v2") // what a write showed is known to the next sync
				warned += b.event(plan.ReasonRangesNotServed)
			}
			assert.Equal(t, served, warned == "", warned)

			b.change(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.1.0.0/16"} })
			events := ""
			for range 3 {
				b.mustSync("v1", "v2")
				events += strings.Join(b.events(), "\n")
			}
			rules := grep(of(b.dump(), ip), "rule ")
			require.Len(t, rules, 1)
			assert.Equal(t, served, strings.Contains(rules[0], "[10.1.0.0/16] [v1 v2]"), rules[0])
			assert.Equal(t, !served, strings.HasSuffix(rules[0], " [] []"), "nobody gets in who should not: %s", rules[0])
			assert.Equal(t, served && !since(version, "4.22"), strings.Contains(events, string(plan.ReasonRuleReplaced)), events)

			b.reset()
			b.mustSync("v1", "v2")
			assert.Empty(t, grep(b.calls(), "createLoadBalancerRule"), "it does not try again and again")
			require.NoError(t, b.remove())
			assert.Equal(t, before, b.dump())
		})
	}
}
