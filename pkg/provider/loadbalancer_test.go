// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/simulator"
)

const (
	webLB   = "a7c3e1b5200004000800000000000abc" // of webUID
	webTags = "[csccm-allocated-by=cloudstack-ccm csccm-cluster=test csccm-managed-by=cloudstack-ccm csccm-service-uid=" + webUID + " csccm-service=default/web]"
)

func TestServiceLifeCycle(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	before := b.dump()
	b.service([]int{80, 81})
	b.mustSync("w1", "w2")
	ip := b.ip()
	assert.Equal(t, corev1.LoadBalancerIPModeVIP, *b.get().Status.LoadBalancer.Ingress[0].IPMode)
	assert.Len(t, b.get().Status.LoadBalancer.Ingress[0].Ports, 2)
	assert.Equal(t, []string{
		"address Allocated " + webTags,
		"firewall tcp 80-81 [0.0.0.0/0]",
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] [w1 w2]",
		"rule " + webLB + "-tcp-81 81->30081 tcp roundrobin [0.0.0.0/0] [w1 w2]",
	}, of(b.dump(), ip))
	records, err := annotation.ParseRecords(b.get().Annotations)
	require.NoError(t, err)
	require.Len(t, records.Addresses, 1)
	assert.Empty(t, records.Pending)
	assert.True(t, records.Addresses[0].Allocated && records.Addresses[0].Tagged)
	assert.Contains(t, b.event(loadbalancer.ReasonAddressAllocated), ip)

	// A port goes, one comes, a node port changes.
	b.change(func(s *corev1.Service) {
		s.Spec.Ports = servicePorts(81, 443)
		s.Spec.Ports[0].NodePort = 31999
	})
	b.mustSync("w1", "w2")
	assert.Equal(t, []string{
		"address Allocated " + webTags,
		"firewall tcp 443-443 [0.0.0.0/0]",
		"firewall tcp 81-81 [0.0.0.0/1 128.0.0.0/1]", // written so that it could be opened before 80-81 was closed
		"rule " + webLB + "-tcp-443 443->30443 tcp roundrobin [0.0.0.0/0] [w1 w2]",
		"rule " + webLB + "-tcp-81 81->31999 tcp roundrobin [0.0.0.0/0] [w1 w2]",
	}, of(b.dump(), ip))
	assert.NotEmpty(t, b.event(loadbalancer.ReasonRuleReplaced))

	// PROXY protocol and affinity, in place.
	b.reset()
	b.change(func(s *corev1.Service) {
		s.Annotations[annotation.ProxyProtocol] = "Enabled"
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	})
	b.mustSync("w1", "w2")
	assert.Equal(t, []string{"updateLoadBalancerRule", "updateLoadBalancerRule"}, b.calls())
	assert.Equal(t, corev1.LoadBalancerIPModeProxy, *b.get().Status.LoadBalancer.Ingress[0].IPMode)
	assert.Contains(t, of(b.dump(), ip), "rule "+webLB+"-tcp-proxy-443 443->30443 tcp-proxy source [0.0.0.0/0] [w1 w2]")

	// Members follow the nodes.
	require.NoError(t, b.lb.UpdateLoadBalancer(t.Context(), "", b.get(), nodesNamed("w2", "w3", "w4")))
	assert.Contains(t, of(b.dump(), ip), "rule "+webLB+"-tcp-proxy-443 443->30443 tcp-proxy source [0.0.0.0/0] [w2 w3 w4]")
	b.events()
	require.NoError(t, b.lb.UpdateLoadBalancer(t.Context(), "", b.get(), nil))
	assert.Contains(t, of(b.dump(), ip), "rule "+webLB+"-tcp-proxy-443 443->30443 tcp-proxy source [0.0.0.0/0] []")
	assert.NotEmpty(t, b.event(loadbalancer.ReasonNoBackends))

	// Hostname in place of the address.
	b.change(annotate(annotation.Hostname, "lb.example.org"))
	b.mustSync("w1")
	assert.Equal(t, "lb.example.org", b.get().Status.LoadBalancer.Ingress[0].Hostname)
	assert.Empty(t, b.get().Status.LoadBalancer.Ingress[0].IP)

	require.NoError(t, b.remove())
	assert.Equal(t, before, b.dump(), "nothing is left and nothing else was touched")
	records, err = annotation.ParseRecords(b.get().Annotations)
	require.NoError(t, err)
	assert.True(t, records.Empty())
	_, exists, err := b.lb.GetLoadBalancer(t.Context(), "", b.get())
	require.NoError(t, err)
	assert.False(t, exists)
	assert.NotEmpty(t, b.event(loadbalancer.ReasonAddressReleased))
}

func TestSourceRanges(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "192.168.0.0/16"} })
	b.mustSync("w1")
	ip := b.ip()
	lines := func() []string { return of(b.dump(), ip)[1:] }
	assert.Equal(t, []string{
		"firewall tcp 80-80 [10.0.0.0/8 192.168.0.0/16]",
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8 192.168.0.0/16] [w1]",
	}, lines())

	b.change(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil })
	b.change(annotate(annotation.SourceCIDRs, "10.0.0.0/8"))
	b.mustSync("w1")
	assert.Equal(t, []string{
		"firewall tcp 80-80 [10.0.0.0/9 10.128.0.0/9]", // opened before the wider rule was closed
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8] [w1]",
	}, lines())

	b.change(annotate(annotation.SourceCIDRs, ""))
	b.mustSync("w1")
	assert.Equal(t, []string{"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8] [w1]"}, lines(), "no firewall rule: nobody gets in")

	b.change(func(s *corev1.Service) { delete(s.Annotations, annotation.SourceCIDRs) })
	b.mustSync("w1")
	assert.Equal(t, []string{
		"firewall tcp 80-80 [0.0.0.0/0]",
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] [w1]",
	}, lines())
}

func TestStaticAddress(t *testing.T) {
	t.Parallel()
	address := func(ip string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }

	t.Run("free: acquired and released", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		before := b.dump()
		b.service([]int{80}, address("203.0.113.77"))
		b.mustSync("w1")
		assert.Equal(t, "203.0.113.77", b.ip())
		require.NoError(t, b.remove())
		assert.Equal(t, before, b.dump())
	})
	t.Run("held by the account: used and kept", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		before := b.dump()
		b.service([]int{80}, annotate(annotation.Address, "203.0.113.31"))
		b.mustSync("w1")
		assert.Equal(t, "203.0.113.31", b.ip())
		require.NoError(t, b.remove())
		assert.Equal(t, before, b.dump())
		assert.Contains(t, b.event(loadbalancer.ReasonAddressKept), "nothing proves that this controller acquired it")
	})
	t.Run("beside somebody else's rules: only ours go", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		before := b.dump()
		b.service([]int{443}, address(foreignIP))
		b.mustSync("w1", "w2")
		assert.Len(t, of(b.dump(), foreignIP), 5+2)
		require.NoError(t, b.remove())
		assert.Equal(t, before, b.dump())
	})
	t.Run("the source NAT address", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		before := b.dump()
		b.service([]int{443}, address(sourceNAT))
		b.mustSync("w1", "w2")
		require.NoError(t, b.remove())
		assert.Equal(t, before, b.dump())
	})
	t.Run("changed: the old one is released when the new one serves", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80})
		b.mustSync("w1")
		old := b.ip()
		b.change(address("203.0.113.77"))
		b.mustSync("w1")
		assert.Equal(t, "203.0.113.77", b.ip())
		assert.Empty(t, of(b.dump(), old))
		assert.Len(t, of(b.dump(), "203.0.113.77"), 3)
	})
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		ports  []int
		reason loadbalancer.Reason
	}{
		"another account's":      {address("203.0.113.33"), []int{80}, loadbalancer.ReasonAddressUnavailable},
		"another network's":      {address("203.0.113.32"), []int{80}, loadbalancer.ReasonAddressUnavailable},
		"outside of the ranges":  {address("198.51.100.1"), []int{80}, loadbalancer.ReasonAddressUnavailable},
		"port taken":             {address(foreignIP), []int{80}, loadbalancer.ReasonPortTaken},
		"DNS on source NAT":      {address(sourceNAT), []int{53}, loadbalancer.ReasonReservedPort},
		"not an address":         {annotate(annotation.Address, "my-ip"), []int{80}, loadbalancer.ReasonInvalidAnnotation},
		"PROXY protocol v2":      {annotate(annotation.ProxyProtocol, "v2"), []int{80}, loadbalancer.ReasonInvalidAnnotation},
		"UDP":                    {func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, []int{80}, loadbalancer.ReasonUnsupportedProto},
		"the router's own port":  {func(*corev1.Service) {}, []int{8081}, loadbalancer.ReasonReservedPort},
		"TCP and UDP on a port":  {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81; s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, []int{80, 81}, loadbalancer.ReasonMixedProtocols},
		"no node port":           {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 }, []int{80}, loadbalancer.ReasonNoNodePort},
		"port outside the range": {func(s *corev1.Service) { s.Spec.Ports[0].Port = 70000 }, []int{80}, loadbalancer.ReasonInvalidPort},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			before := b.dump()
			b.service(tc.ports, tc.change)
			err := b.sync("w1")
			require.Error(t, err)
			assert.NotEmpty(t, b.event(tc.reason), err)
			assert.Equal(t, before, b.dump())
			require.NoError(t, b.remove(), "a refused Service can go")
		})
	}
}

func TestNodesOfAService(t *testing.T) {
	t.Parallel()
	t.Run("one without a VM does not keep the others from serving", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80})
		b.mustSync("w1", "nowhere")
		assert.Contains(t, of(b.dump(), b.ip())[2], "[w1]")
		assert.Contains(t, b.event("NodeWithoutVM"), "nowhere")
	})
	t.Run("none with a VM leaves everything as it is", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80})
		b.mustSync("w1")
		before := b.dump()
		require.Error(t, b.sync("x1", "x2"))
		assert.Equal(t, before, b.dump())
		assert.NotEmpty(t, b.event(loadbalancer.ReasonNoBackends))
	})
	t.Run("in two networks", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80})
		require.ErrorContains(t, b.sync("w1", "s1"), "k8s-net (w1); second-net (s1)")
	})
	t.Run("no nodes yet", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80})
		require.Error(t, b.sync())
		assert.NotEmpty(t, b.event(loadbalancer.ReasonNoNodes))
	})
}

func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80, 81})
	b.mustSync("w1", "w2")
	want := b.dump()
	ctx := t.Context()
	ips, err := b.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: b.ip()})
	require.NoError(t, err)
	firewall, err := b.inspect.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: ips[0].ID})
	require.NoError(t, err)
	rules, err := b.inspect.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: ips[0].ID})
	require.NoError(t, err)
	wait := func(s cloudstack.Submitted, err error) {
		t.Helper()
		require.NoError(t, err)
		_, err = b.inspect.Jobs().Wait(ctx, "by hand", s.JobID)
		require.NoError(t, err)
	}
	wait(b.inspect.DeleteFirewallRule(ctx, firewall[0].ID))
	wait(b.inspect.DeleteLoadBalancerRule(ctx, rules[0].ID))
	members, err := b.inspect.ListLoadBalancerMembers(ctx, rules[1].ID)
	require.NoError(t, err)
	wait(b.inspect.RemoveFromLoadBalancerRule(ctx, rules[1].ID, cloudstack.VMs(members[0].VMID, members[1].VMID)))
	require.NotEqual(t, want, b.dump())
	b.mustSync("w1", "w2")
	assert.NotEqual(t, want, b.dump(), "what was read a moment ago is trusted")
	b.clock.SetTime(b.clock.Now().Add(6 * time.Minute))
	b.mustSync("w1", "w2")
	assert.Equal(t, want, b.dump())
	assert.NotEmpty(t, b.event(loadbalancer.ReasonDriftRepaired))

	// The address itself.
	wait(b.inspect.DisassociateIP(ctx, ips[0].ID))
	b.clock.SetTime(b.clock.Now().Add(6 * time.Minute))
	b.mustSync("w1", "w2")
	assert.Len(t, of(b.dump(), b.ip()), 4)
	assert.NotEmpty(t, b.event(loadbalancer.ReasonAddressLost))
	require.NoError(t, b.remove())
}

func TestKeepIP(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80}, annotate(annotation.KeepIP, "yes"))
	b.mustSync("w1")
	ip := b.ip()
	require.NoError(t, b.remove())
	assert.Equal(t, []string{"address Allocated [csccm-cluster=test csccm-kept-by=default/web csccm-managed-by=cloudstack-ccm]"}, of(b.dump(), ip),
		"kept, without rules, with a tag that says by whom")
	assert.Contains(t, b.event(loadbalancer.ReasonAddressKept), annotation.KeepIP)
	_, exists, err := b.lb.GetLoadBalancer(t.Context(), "", b.get())
	require.NoError(t, err)
	assert.False(t, exists)
}

// A role without tags, as CKS gives its clusters, is enough.
func TestRoleWithoutTags(t *testing.T) {
	t.Parallel()
	b := newBed(t, withWorld(func(w string) string {
		return strings.Replace(w, "accounts:\n", `roles:
  - name: restricted
    type: User
    rules: [{deny: createTags}, {deny: deleteTags}, {deny: listTags}, {deny: listZones}, {allow: "*"}]
accounts:
`, 1)
	}), withWorld(func(w string) string {
		return strings.Replace(w, "  - name: k8s\n    role: User", "  - name: k8s\n    role: restricted", 1)
	}))
	before := b.dump()
	b.service([]int{80})
	b.mustSync("w1")
	assert.NotEmpty(t, b.event(loadbalancer.ReasonTaggingForbidden))
	b.restart()
	b.mustSync("w1")
	assert.Equal(t, "address Allocated []", of(b.dump(), b.ip())[0])
	require.NoError(t, b.remove())
	assert.Equal(t, before, b.dump())
}

// In a project everything belongs to the project, and is found there by a user's key.
func TestProject(t *testing.T) {
	t.Parallel()
	const project = "6c1f6d3e-0000-4000-8000-000000000001"
	b := newBed(t, func(b *bed, w *string) {
		b.project = project
		*w += `
projects:
  - {id: ` + project + `, name: dev, owner: k8s}
`
		*w = strings.Replace(*w, "networks:\n", "networks:\n  - {name: project-net, project: dev, cidr: 10.1.9.0/24, sourceNAT: 203.0.113.90}\n", 1)
		*w = strings.Replace(*w, "virtualMachines:\n", "virtualMachines:\n  - {name: p1, project: dev, nics: [{network: project-net, ip: 10.1.9.21}]}\n", 1)
	})
	before := b.dump()
	b.service([]int{80})
	b.mustSync("p1")
	assert.Len(t, of(b.dump(), b.ip()), 3)
	b.restart()
	b.mustSync("p1")
	require.NoError(t, b.remove())
	assert.Equal(t, before, b.dump())
}

// Services do not wait for each other, and their calls do not run into the locks of the server, which
// make the second of two calls sleep for seconds.
func TestManyServicesAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	before := b.dump()
	var group sync.WaitGroup
	for i := range 12 {
		svc := newService([]int{80, 443}, uid(fmt.Sprintf("%08d-0000-4000-8000-00000000abcd", i)))
		svc.Name = fmt.Sprintf("web%d", i)
		_, err := b.kube.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{})
		require.NoError(t, err)
		group.Go(func() {
			_, err := b.lb.EnsureLoadBalancer(t.Context(), "", svc, nodesNamed("w1", "w2"))
			assert.NoError(t, err)
		})
	}
	group.Wait()
	assert.Len(t, b.dump(), len(before)+12*5)
	for i := range 12 {
		group.Go(func() {
			svc, err := b.kube.CoreV1().Services("default").Get(t.Context(), fmt.Sprintf("web%d", i), metav1.GetOptions{})
			if assert.NoError(t, err) {
				assert.NoError(t, b.lb.EnsureLoadBalancerDeleted(t.Context(), "", svc))
			}
		})
	}
	group.Wait()
	assert.Equal(t, before, b.dump())
}

func TestAddressLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		reason loadbalancer.Reason
	}{{532, loadbalancer.ReasonAddressLimit}, {533, loadbalancer.ReasonNoFreeAddress}} {
		b := newBed(t)
		b.service([]int{80})
		remove := b.sim.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultErrorBefore, HTTPStatus: tc.status, Text: "no"})
		require.Error(t, b.sync("w1"))
		assert.NotEmpty(t, b.event(tc.reason))
		records, err := annotation.ParseRecords(b.get().Annotations)
		require.NoError(t, err)
		assert.True(t, records.Empty())
		remove()
		b.mustSync("w1")
	}
}
