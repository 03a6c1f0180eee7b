// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// What upstream v1.2 and older providers leave is taken over without a change.
func TestAdoption(t *testing.T) {
	t.Parallel()
	adopt := func(t *testing.T, rules string, annotations ...string) *bed {
		t.Helper()
		b := newBed(t, withWorld(func(w string) string {
			return w + `
  - address: 203.0.113.40
    network: k8s-net
    loadBalancerRules:
` + strings.ReplaceAll(rules, "LB", webLB) + `
    firewallRules:
      - {protocol: tcp, startPort: 80, endPort: 80}
      - {protocol: tcp, startPort: 443, endPort: 443}
`
		}))
		b.service([]int{80, 443}, annotate(annotations...), func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.40"}}
		})
		return b
	}
	const upstream = `
      - {name: LB-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, cidrs: [0.0.0.0/0], members: [w1, w2]}
      - {name: LB-tcp-443, publicPort: 443, privatePort: 30443, protocol: tcp, cidrs: [0.0.0.0/0], members: [w1, w2]}`
	const legacy = `
      - {name: LB-80, publicPort: 80, privatePort: 30080, members: [w1, w2]}
      - {name: LB-443, publicPort: 443, privatePort: 30443, members: [w1, w2]}`

	for name, rules := range map[string]string{"upstream": upstream, "legacy names": legacy} {
		t.Run(name+": no change", func(t *testing.T) {
			t.Parallel()
			b := adopt(t, rules)
			before := b.dump()
			b.mustSync("w1", "w2")
			assert.Equal(t, before, b.dump())
			assert.Equal(t, "203.0.113.40", b.ip())
			require.NoError(t, b.remove())
			assert.Equal(t, []string{"address Allocated []"}, of(b.dump(), "203.0.113.40"), "without proof the address stays")
		})
	}
	t.Run("what the Service says of who acquired the address proves nothing", func(t *testing.T) {
		t.Parallel()
		b := adopt(t, upstream, annotation.AssociatedByController, "true")
		before := b.dump()
		b.mustSync("w1", "w2")
		assert.Equal(t, before, b.dump())
		require.NoError(t, b.remove())
		assert.Equal(t, []string{"address Allocated []"}, of(b.dump(), "203.0.113.40"))
	})
	t.Run("a legacy rule takes its name when it is touched", func(t *testing.T) {
		t.Parallel()
		b := adopt(t, legacy, annotation.ProxyProtocol, "true")
		b.mustSync("w1", "w2")
		assert.Contains(t, of(b.dump(), "203.0.113.40"), "rule "+webLB+"-tcp-proxy-80 80->30080 tcp-proxy roundrobin [] [w1 w2]")
	})
	t.Run("deleted before it was ever synced", func(t *testing.T) {
		t.Parallel()
		b := adopt(t, upstream)
		require.NoError(t, b.remove())
		assert.Equal(t, []string{"address Allocated []"}, of(b.dump(), "203.0.113.40"))
	})
}

// An address that somebody else released and acquired anew has the same id.
func TestAddressAcquiredBySomebodyElseIsNotReleased(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80})
	b.mustSync("w1")
	ip := b.ip()
	ctx := t.Context()
	ips, err := b.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
	require.NoError(t, err)
	s, err := b.inspect.DisassociateIP(ctx, ips[0].ID)
	require.NoError(t, err)
	_, err = b.inspect.Jobs().Wait(ctx, "", s.JobID)
	require.NoError(t, err)
	s, err = b.inspect.AssociateIP(ctx, cloudstack.AssociateIPRequest{NetworkID: ips[0].AssociatedNetworkID, Address: ip})
	require.NoError(t, err)
	_, err = b.inspect.Jobs().Wait(ctx, "", s.JobID)
	require.NoError(t, err)
	require.Equal(t, ips[0].ID, s.ID)
	require.NoError(t, b.remove())
	assert.Equal(t, []string{"address Allocated []"}, of(b.dump(), ip))
}

func TestForeignRuleOnOurAddressKeepsIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80})
	b.mustSync("w1")
	ip := b.ip()
	ctx := t.Context()
	ips, err := b.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
	require.NoError(t, err)
	s, err := b.inspect.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
		Name: "by-hand", Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: ips[0].ID, PublicPort: 9000, PrivatePort: 9000, OpenFirewall: true,
	})
	require.NoError(t, err)
	_, err = b.inspect.Jobs().Wait(ctx, "", s.JobID)
	require.NoError(t, err)
	require.NoError(t, b.remove())
	assert.Equal(t, []string{
		"address Allocated []",
		"firewall tcp 9000-9000 [0.0.0.0/0]",
		"rule by-hand 9000->9000 tcp roundrobin [] []",
	}, of(b.dump(), ip))
	assert.Contains(t, b.event(plan.ReasonAddressKept), "by-hand")
}

// The framework's copy of a Service can be older than what an earlier process recorded on it.
func TestStaleCopyOfTheServiceAllocatesNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80})
	stale := b.get()
	b.mustSync("w1")
	want := b.dump()
	b.restart()
	_, err := b.lb.EnsureLoadBalancer(t.Context(), "", stale, nodesNamed("w1"))
	if err != nil { // it may want another look
		_, err = b.lb.EnsureLoadBalancer(t.Context(), "", b.get(), nodesNamed("w1"))
	}
	require.NoError(t, err)
	assert.Equal(t, want, b.dump())

	// A Service that is gone gets no address.
	require.NoError(t, b.remove())
	empty := b.dump()
	require.NoError(t, b.kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	b.restart()
	_, err = b.lb.EnsureLoadBalancer(t.Context(), "", stale, nodesNamed("w1"))
	require.Error(t, err)
	assert.Equal(t, empty, b.dump())
}
