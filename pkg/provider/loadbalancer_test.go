// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

const (
	webLB   = "a7c3e1b5200004000800000000000abc" // of webUID
	webTags = "[csccm-allocated-by=cloudstack-ccm csccm-cluster=test csccm-managed-by=cloudstack-ccm csccm-service-uid=" + webUID + " csccm-service=default/web]"
)

func TestServiceLifeCycle(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80, 81})
	ip := env.ip("web")
	assert.Equal(t, corev1.LoadBalancerIPModeVIP, *env.get("web").Status.LoadBalancer.Ingress[0].IPMode)
	assert.Len(t, env.get("web").Status.LoadBalancer.Ingress[0].Ports, 2)
	assert.Equal(t, []string{
		"address Allocated " + webTags,
		"firewall tcp 80-81 [0.0.0.0/0]",
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] [w1 w2]",
		"rule " + webLB + "-tcp-81 81->30081 tcp roundrobin [0.0.0.0/0] [w1 w2]",
	}, of(env.dump(), ip))
	recorded := records(env)
	require.Len(t, recorded.Addresses, 1)
	assert.Empty(t, recorded.Pending)
	assert.True(t, recorded.Addresses[0].Allocated && recorded.Addresses[0].Tagged)
	assert.Contains(t, env.event(plan.ReasonAddressAllocated), ip)

	// A port goes, one comes, a node port changes.
	env.changed(func(s *corev1.Service) {
		s.Spec.Ports = servicePorts(81, 443)
		s.Spec.Ports[0].NodePort = 31999
	})
	assert.Equal(t, []string{
		"address Allocated " + webTags,
		"firewall tcp 443-443 [0.0.0.0/0]",
		"firewall tcp 81-81 [0.0.0.0/1 128.0.0.0/1]", // written so that it could be opened before 80-81 was closed
		"rule " + webLB + "-tcp-443 443->30443 tcp roundrobin [0.0.0.0/0] [w1 w2]",
		"rule " + webLB + "-tcp-81 81->31999 tcp roundrobin [0.0.0.0/0] [w1 w2]",
	}, of(env.dump(), ip))
	assert.NotEmpty(t, env.event(plan.ReasonRuleReplaced))

	// PROXY protocol and affinity, in place.
	env.reset()
	env.changed(func(s *corev1.Service) {
		s.Annotations[annotation.ProxyProtocol] = "Enabled"
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	})
	assert.Equal(t, []string{"updateLoadBalancerRule", "updateLoadBalancerRule"}, env.calls())
	assert.Equal(t, corev1.LoadBalancerIPModeProxy, *env.get("web").Status.LoadBalancer.Ingress[0].IPMode)
	assert.Contains(t, of(env.dump(), ip), "rule "+webLB+"-tcp-proxy-443 443->30443 tcp-proxy source [0.0.0.0/0] [w1 w2]")

	// Members follow the nodes.
	env.update("web", "w2", "w3", "w4")
	assert.Contains(t, of(env.dump(), ip), "rule "+webLB+"-tcp-proxy-443 443->30443 tcp-proxy source [0.0.0.0/0] [w2 w3 w4]")
	env.events()
	env.update("web")
	assert.Contains(t, of(env.dump(), ip), "rule "+webLB+"-tcp-proxy-443 443->30443 tcp-proxy source [0.0.0.0/0] []")
	assert.NotEmpty(t, env.event(plan.ReasonNoBackends))

	// Hostname in place of the address.
	env.changed(annotate(annotation.Hostname, "lb.example.org"), "w1")
	assert.Equal(t, "lb.example.org", env.get("web").Status.LoadBalancer.Ingress[0].Hostname)
	assert.Empty(t, env.get("web").Status.LoadBalancer.Ingress[0].IP)

	env.removed("web")
	recorded = records(env)
	assert.True(t, recorded.Empty())
	assert.False(t, env.exists("web"))
	assert.NotEmpty(t, env.event(plan.ReasonAddressReleased))
}

func TestSourceRanges(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "192.168.0.0/16"} })
	env.mustSync("web", "w1")
	ip := env.ip("web")
	lines := func() []string { return of(env.dump(), ip)[1:] }
	assert.Equal(t, []string{
		"firewall tcp 80-80 [10.0.0.0/8 192.168.0.0/16]",
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8 192.168.0.0/16] [w1]",
	}, lines())

	env.edit("web", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil })
	env.changed(annotate(annotation.SourceCIDRs, "10.0.0.0/8"), "w1")
	assert.Equal(t, []string{
		"firewall tcp 80-80 [10.0.0.0/9 10.128.0.0/9]", // opened before the wider rule was closed
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8] [w1]",
	}, lines())

	env.changed(annotate(annotation.SourceCIDRs, ""), "w1")
	assert.Equal(t, []string{"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8] [w1]"}, lines(), "no firewall rule: nobody gets in")

	env.changed(func(s *corev1.Service) { delete(s.Annotations, annotation.SourceCIDRs) }, "w1")
	assert.Equal(t, []string{
		"firewall tcp 80-80 [0.0.0.0/0]",
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] [w1]",
	}, lines())
}

func TestStaticAddress(t *testing.T) {
	t.Parallel()
	address := func(ip string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }

	for name, c := range map[string]struct {
		change func(*corev1.Service)
		ip     string
		lines  int // of the address, with what others have there
	}{
		"free: acquired and released":                   {address("203.0.113.77"), "203.0.113.77", 3},
		"held by the account: used and kept":            {annotate(annotation.Address, "203.0.113.31"), "203.0.113.31", 3},
		"beside somebody else's rules: only ours go":    {address(foreignIP), foreignIP, 5 + 2},
		"the source NAT address, which others use, too": {address(sourceNAT), sourceNAT, 3},
	} {
		parallel(t, name, func(t *testing.T) {
			env := served(t, []int{443}, as(c.change))
			assert.Equal(t, c.ip, env.ip("web"))
			assert.Len(t, of(env.dump(), c.ip), c.lines)
			env.removed("web")
			if c.ip == "203.0.113.31" {
				assert.Contains(t, env.event(plan.ReasonAddressKept), "no tag proves that this controller acquired it")
			}
		})
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		ports  []int
		reason plan.Reason
	}{
		"another account's": {address("203.0.113.33"), []int{80}, plan.ReasonAddressUnavailable},
		"another network's": {address("203.0.113.32"), []int{80}, plan.ReasonAddressUnavailable},
		"another network's, with a forged record and no node": {func(s *corev1.Service) {
			address("203.0.113.32")(s)
			annotate(annotation.NodeSelector, "x")(s)
			forgedRecord(map[string]any{"id": "88bb1f21-3d3b-57bb-9409-c4c24cafa460", "ip": "203.0.113.14", "allocated": true})(s)
		}, []int{80}, plan.ReasonAddressUnavailable},
		"outside of the ranges": {address("198.51.100.1"), []int{80}, plan.ReasonAddressUnavailable},
		"port taken":            {address(foreignIP), []int{80}, plan.ReasonPortTaken},
		"DNS on source NAT":     {address(sourceNAT), []int{53}, plan.ReasonReservedPort},
		"not an address":        {annotate(annotation.Address, "my-ip"), []int{80}, plan.ReasonInvalidAnnotation},
		"PROXY protocol v2":     {annotate(annotation.ProxyProtocol, "v2"), []int{80}, plan.ReasonInvalidAnnotation},
		"UDP": {func(s *corev1.Service) {
			s.Spec.Ports[0].Protocol, s.Annotations[annotation.Mode] = corev1.ProtocolUDP, annotation.Proxy
		}, []int{80}, plan.ReasonUnsupportedProto},
		"the router's own port": {func(*corev1.Service) {}, []int{8081}, plan.ReasonReservedPort},
		"TCP and UDP on a port": {func(s *corev1.Service) {
			s.Spec.Ports[0].Port, s.Spec.Ports[0].Protocol, s.Annotations[annotation.Mode] = 81, corev1.ProtocolUDP, annotation.Proxy
		}, []int{80, 81}, plan.ReasonMixedProtocols},
		"no node port":           {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 }, []int{80}, plan.ReasonNoNodePort},
		"port outside the range": {func(s *corev1.Service) { s.Spec.Ports[0].Port = 70000 }, []int{80}, plan.ReasonInvalidPort},
	} {
		parallel(t, "refused: "+name, func(t *testing.T) {
			env := newEnv(t)
			env.create("web", tc.ports, tc.change)
			err := env.sync("web", "w1")
			require.Error(t, err)
			assert.NotEmpty(t, env.event(tc.reason), err)
			// Only the acquisition shows that an address is somebody else's; csccm plan says all else.
			if p := env.preview("w1"); p.Refusal != nil || tc.reason != plan.ReasonAddressUnavailable {
				assert.Equal(t, tc.reason, p.Refusal.Reason)
				assert.Empty(t, p.Actions)
			}
			assert.Equal(t, env.before, env.dump())
			require.NoError(t, env.remove("web"), "a refused Service can go")
		})
	}
}

func TestNodesOfAService(t *testing.T) {
	t.Parallel()
	parallel(t, "one without a VM does not keep the others from serving", func(t *testing.T) {
		env := served(t, []int{80}, by("w1", "nowhere"))
		assert.Contains(t, of(env.dump(), env.ip("web"))[2], "[w1]")
		assert.Contains(t, env.event("NodeWithoutVM"), "nowhere")
		env.mustSync("web", "w1")
		assert.NotEmpty(t, env.event("UpdatedLoadBalancer"), "the Node is gone: the warning has no later word otherwise")
	})
	parallel(t, "one that is named by its FQDN serves", func(t *testing.T) {
		env := served(t, []int{80}, by("W1.example.org", "w2"))
		assert.Contains(t, grep(env.dump(), webLB)[0], "[w1 w2]")
	})
	parallel(t, "none with a VM leaves everything as it is", func(t *testing.T) {
		env := served(t, []int{80}, by("w1"))
		before := env.dump()
		require.Error(t, env.sync("web", "x1", "x2"))
		assert.Equal(t, before, env.dump())
		assert.NotEmpty(t, env.event(plan.ReasonNoBackends))
	})
	parallel(t, "no nodes yet", func(t *testing.T) {
		env := newEnv(t)
		env.create("web", []int{80})
		require.Error(t, env.sync("web", []string{}...))
		assert.NotEmpty(t, env.event(plan.ReasonNoNodes))
	})
}

func TestKeepIP(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, by("w1"), as(annotate(annotation.KeepIP, "yes")))
	ip := env.ip("web")
	require.NoError(t, env.remove("web"))
	assert.Equal(t, []string{"address Allocated [csccm-cluster=test csccm-kept-by=default/web csccm-managed-by=cloudstack-ccm]"}, of(env.dump(), ip),
		"kept, without rules, with a tag that says by whom")
	assert.Contains(t, env.event(plan.ReasonAddressKept), annotation.KeepIP)
}

// A role without tags, as CKS gives its clusters, is enough.
func TestRoleWithoutTags(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, withoutTags, by("w1"))
	assert.NotEmpty(t, env.event(plan.ReasonTaggingForbidden))
	env.restart()
	env.mustSync("web", "w1")
	assert.Equal(t, "address Allocated []", of(env.dump(), env.ip("web"))[0])
	env.removed("web")
}

func TestAddressLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		reason plan.Reason
	}{{532, plan.ReasonAddressLimit}, {533, plan.ReasonNoFreeAddress}} {
		env := newEnv(t)
		env.create("web", []int{80})
		remove := env.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultErrorBefore, HTTPStatus: tc.status, Text: "no"})
		require.Error(t, env.sync("web", "w1"))
		assert.NotEmpty(t, env.event(tc.reason))
		recorded := records(env)
		assert.True(t, recorded.Empty())
		remove()
		env.mustSync("web", "w1")
	}
}
