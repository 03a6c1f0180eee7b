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
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// withVPC adds a VPC: a tier with an ACL list of the operator's, one that balances internally, and one under each
// default list.
func withVPC(b *bed, w *string) {
	b.vpc = true
	*w += `
  - {address: 203.0.113.50, vpc: vpc-1}
vpcs:
  - name: vpc-1
    cidr: 10.2.0.0/16
    account: k8s
    aclLists:
      - name: acl-1
        items:
          - {number: 1, protocol: tcp, startPort: 22, endPort: 22, cidrs: [198.51.100.0/24], reason: by hand}
          - {number: 5, protocol: tcp, startPort: 80, endPort: 80, cidrs: [192.0.2.0/24], action: Deny, reason: "Service default/web (csccm other ` + webUID + `)"}
          - {number: 10, protocol: all, action: Deny, reason: wall}
`
	*w = strings.Replace(*w, "networks:\n", `networks:
  - {name: tier, vpc: vpc-1, account: k8s, cidr: 10.2.1.0/24, acl: acl-1}
  - {name: inner, vpc: vpc-1, account: k8s, cidr: 10.2.2.0/24, acl: acl-1, offering: DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB}
  - {name: denied, vpc: vpc-1, account: k8s, cidr: 10.2.3.0/24, acl: default_deny}
`, 1)
	*w = strings.Replace(*w, "virtualMachines:\n", `virtualMachines:
  - {name: v1, account: k8s, nics: [{network: tier, ip: 10.2.1.21}]}
  - {name: v2, account: k8s, nics: [{network: tier, ip: 10.2.1.22}]}
  - {name: i1, account: k8s, nics: [{network: inner, ip: 10.2.2.21}]}
  - {name: i2, account: k8s, nics: [{network: inner, ip: 10.2.2.22}]}
  - {name: d1, account: k8s, nics: [{network: denied, ip: 10.2.3.21}]}
`, 1)
}

// dumpVPC adds ACL items and internal load balancers to a dump.
func (b *bed) dumpVPC(names map[string]string) []string {
	b.t.Helper()
	var out []string
	items, err := b.inspect.ListNetworkACLs(b.t.Context(), cloudstack.NetworkACLQuery{ProjectID: b.project})
	require.NoError(b.t, err)
	for _, i := range items {
		action := "deny"
		if i.Allow {
			action = "allow"
		}
		out = append(out, fmt.Sprintf("acl %s %d %s %s %d-%d %v %q", i.ListName, i.Number, action, i.Protocol, i.StartPort, i.EndPort, i.CIDRs, i.Reason))
	}
	internal, err := b.inspect.ListInternalLoadBalancers(b.t.Context(), cloudstack.InternalLoadBalancerQuery{ProjectID: b.project})
	require.NoError(b.t, err)
	for i := range internal {
		l := &internal[i]
		var members []string
		for _, m := range l.Members {
			members = append(members, names[m.VMID])
		}
		slices.Sort(members)
		out = append(out, fmt.Sprintf("internal %s %s %d->%d %s %v", l.Address, l.Name, l.Port, l.InstancePort, l.Algorithm, members))
	}
	return out
}

const ownReason = `"Service default/web (csccm test ` + webUID + `)"`

func grep(lines []string, part string) []string {
	var out []string
	for _, l := range lines {
		if strings.Contains(l, part) {
			out = append(out, l)
		}
	}
	return out
}

func TestServiceOnATier(t *testing.T) {
	t.Parallel()
	b := newBed(t, withVPC)
	before := b.dump()
	b.service([]int{80, 81}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
	b.mustSync("v1", "v2")
	ip := b.ip()
	assert.Equal(t, []string{
		"address Allocated " + webTags,
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8] [v1 v2]",
		"rule " + webLB + "-tcp-81 81->30081 tcp roundrobin [10.0.0.0/8] [v1 v2]",
	}, of(b.dump(), ip))
	assert.Equal(t, []string{"acl acl-1 9 allow tcp 80-81 [10.0.0.0/8] " + ownReason}, grep(b.dump(), ownReason), "before the wall, behind what the operator denies")

	// Nothing to do, also after a restart.
	b.reset()
	b.restart()
	b.mustSync("v1", "v2")
	assert.Empty(t, grep(b.calls(), "create"))

	// Ranges, ports.
	b.change(func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "192.168.0.0/16"}
		s.Spec.Ports = s.Spec.Ports[:1]
	})
	b.mustSync("v1", "v2")
	assert.Len(t, of(b.dump(), ip), 2)
	assert.Equal(t, []string{"acl acl-1 8 allow tcp 80-80 [10.0.0.0/8 192.168.0.0/16] " + ownReason}, grep(b.dump(), ownReason))

	// Deny all: no members, as nothing else would keep anybody out.
	b.change(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil })
	b.change(annotate(annotation.SourceCIDRs, ""))
	b.mustSync("v1", "v2")
	assert.Contains(t, of(b.dump(), ip)[1], "[]")
	assert.Empty(t, grep(b.dump(), ownReason))

	require.NoError(t, b.remove())
	assert.Equal(t, before, b.dump())
}

func TestAddressesOfAVPC(t *testing.T) {
	t.Parallel()
	address := func(ip string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }
	t.Run("held: bound to the tier and left unbound", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, withVPC)
		before := b.dump()
		b.service([]int{80}, address("203.0.113.50"))
		b.mustSync("v1")
		assert.Len(t, of(b.dump(), "203.0.113.50"), 2)
		require.NoError(t, b.remove())
		assert.Equal(t, before, b.dump())
	})
	t.Run("the source NAT address is refused", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, withVPC)
		ips, err := b.inspect.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
		require.NoError(t, err)
		nat := ""
		for i := range ips {
			if ips[i].VPCID != "" && ips[i].SourceNAT {
				nat = ips[i].Address
			}
		}
		require.NotEmpty(t, nat)
		before := b.dump()
		b.service([]int{80}, address(nat))
		require.ErrorContains(t, b.sync("v1"), "source NAT address of the VPC")
		assert.Equal(t, before, b.dump())
	})
	t.Run("an isolated network's is refused", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, withVPC)
		b.service([]int{80}, address("203.0.113.31"))
		require.ErrorContains(t, b.sync("v1"), "does not belong to the nodes' VPC")
	})
	t.Run("under default_deny Event and condition name the remedy", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, withVPC)
		b.service([]int{80})
		b.mustSync("d1")
		assert.Contains(t, b.event(plan.ReasonDefaultACL), "list of its own")
		ready := func() *metav1.Condition {
			return apimeta.FindStatusCondition(b.get().Status.Conditions, ConditionReady)
		}
		require.NotNil(t, ready())
		assert.Equal(t, metav1.ConditionFalse, ready().Status)
		assert.Equal(t, string(plan.ReasonDefaultACL), ready().Reason)
		assert.Contains(t, ready().Message, "list of its own")
		b.mustSync("d1")
		assert.Equal(t, metav1.ConditionFalse, ready().Status, "also when there is nothing to do")

		// A list that can be changed ends it, in the next drift round.
		b.operator("replaceNetworkACLList", "networkid", b.net("denied").ID, "aclid", b.net("tier").ACLID)
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.lb.driftRound(t.Context())
		assert.Equal(t, metav1.ConditionTrue, ready().Status)
	})
	t.Run("under default_deny nobody is missed who is not to come in", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, withVPC)
		b.service([]int{80}, annotate(annotation.SourceCIDRs, ""))
		b.mustSync("d1")
		assert.Empty(t, b.event(plan.ReasonDefaultACL))
		assert.True(t, apimeta.IsStatusConditionTrue(b.get().Status.Conditions, ConditionReady))
	})
	t.Run("ACLs can be left alone", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, withVPC, func(b *bed, _ *string) { b.options = func(d *loadBalancerDeps) { d.LeaveACLs = true } })
		b.service([]int{80})
		b.mustSync("v1")
		assert.Empty(t, grep(b.dump(), ownReason))
		assert.Zero(t, b.sim.Ledger().Count("createNetworkACL"))
	})
}

func TestInternalLoadBalancer(t *testing.T) {
	t.Parallel()
	b := newBed(t, withVPC)
	before := b.dump()
	b.service([]int{80, 81}, annotate(annotation.Internal, "true"), func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.2.0.0/16"} })
	b.mustSync("i1", "i2")
	ip := b.ip()
	assert.True(t, strings.HasPrefix(ip, "10.2.2."), ip)
	assert.Equal(t, []string{
		"internal " + webLB + "-tcp-80 80->30080 roundrobin [i1 i2]",
		"internal " + webLB + "-tcp-81 81->30081 roundrobin [i1 i2]",
	}, of(b.dump(), ip))
	assert.Equal(t, []string{"acl acl-1 9 allow tcp 80-81 [10.2.0.0/16] " + ownReason}, grep(b.dump(), ownReason))
	b.restart()
	b.reset()
	b.mustSync("i1", "i2")
	assert.Empty(t, grep(b.calls(), "create"))

	b.change(func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.Ports = s.Spec.Ports[:1]
	})
	b.mustSync("i2")
	assert.Equal(t, []string{"internal " + webLB + "-tcp-80 80->30080 source [i2]"}, of(b.dump(), ip))

	// Public nodes have no such balancer.
	require.NoError(t, b.remove())
	assert.Equal(t, before, b.dump())
	b.change(func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} })
	require.ErrorContains(t, b.sync("v1"), "InternalLbVm")
}
