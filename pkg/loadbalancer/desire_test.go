// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
)

func isolated() *Network {
	return &Network{ID: "net", Name: "k8s-net", Type: "Isolated", LoadBalancer: true, Firewall: true, DNS: true, Provider: virtualRouter}
}

func aService(ports ...Port) Service {
	return Service{UID: "01234567-89ab-cdef-0123-456789abcdef", Namespace: "default", Name: "web", LB: testLB, Ports: ports}
}

func tcp(port int) Port { return Port{Protocol: "TCP", Port: port, NodePort: 30000 + port} }

func openSpec() annotation.Spec {
	return annotation.Spec{SourceRanges: []string{annotation.Anyone}, Algorithm: annotation.RoundRobin}
}

func TestDesire(t *testing.T) {
	t.Parallel()
	members := []Member{{"b", "vm2", "net", "k8s-net"}, {"a", "vm1", "net", "k8s-net"}, {"a2", "vm1", "net", "k8s-net"}}
	d, refusal := Desire(Facts{Service: aService(tcp(443), tcp(80)), Spec: openSpec(), Members: members, Network: isolated()})
	require.Nil(t, refusal)
	assert.Equal(t, desired([]int{80, 443}), d, "sorted, without repetitions")

	spec := openSpec()
	spec.ProxyProtocol, spec.Algorithm, spec.Address, spec.KeepIP = annotation.Ports{All: true}, annotation.Source, "203.0.113.7", true
	d, refusal = Desire(Facts{Service: aService(tcp(80)), Spec: spec, Network: isolated()})
	require.Nil(t, refusal)
	assert.Equal(t, Desired{
		NetworkID: "net", Address: "203.0.113.7", KeepAddress: true, Ranges: []string{annotation.Anyone},
		Rules: []Rule{{Name: testLB + "-tcp-proxy-80", Protocol: "tcp-proxy", Algorithm: "source", PublicPort: 80, PrivatePort: 30080, CIDRs: []string{annotation.Anyone}}},
	}, d)

	spec = openSpec()
	spec.SourceRanges = []string{}
	d, refusal = Desire(Facts{Service: aService(tcp(80)), Spec: spec, Network: isolated()})
	require.Nil(t, refusal)
	assert.Empty(t, d.Ranges)
	assert.Nil(t, d.Rules[0].CIDRs, "an empty list on a rule would let everybody in")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	with := func(change func(*Network)) *Network { n := isolated(); change(n); return n }
	for _, tc := range []struct {
		name    string
		ports   []Port
		members []Member
		network *Network
		reason  Reason
		says    string
	}{
		{"UDP", []Port{{Protocol: "UDP", Port: 53, NodePort: 30053}}, nil, isolated(), ReasonUnsupportedProto, "TCP only"},
		{"SCTP", []Port{{Protocol: "SCTP", Port: 53, NodePort: 30053}}, nil, isolated(), ReasonUnsupportedProto, "SCTP"},
		{"TCP and UDP on one port", []Port{{Protocol: "UDP", Port: 53, NodePort: 30053}, tcp(53)}, nil, isolated(), ReasonMixedProtocols, "TCP and UDP"},
		{"no ports", nil, nil, isolated(), ReasonInvalidPort, "no ports"},
		{"port 0", []Port{{Protocol: "TCP", NodePort: 30000}}, nil, isolated(), ReasonInvalidPort, "outside 1-65535"},
		{"port 70000", []Port{{Protocol: "TCP", Port: 70000, NodePort: 30000}}, nil, isolated(), ReasonInvalidPort, "70000"},
		{"no node port", []Port{{Protocol: "TCP", Port: 80}}, nil, isolated(), ReasonNoNodePort, "allocateLoadBalancerNodePorts"},
		{"the router's statistics", []Port{tcp(8081)}, nil, isolated(), ReasonReservedPort, "8081"},
		{"VPC tier", []Port{tcp(80)}, nil, with(func(n *Network) { n.VPCID = "vpc" }), ReasonUnsupportedNetwork, "not supported yet"},
		{"shared network", []Port{tcp(80)}, nil, with(func(n *Network) { n.LoadBalancer, n.Type = false, "Shared" }), ReasonUnsupportedNetwork, "service Lb"},
		{"no firewall", []Port{tcp(80)}, nil, with(func(n *Network) { n.Firewall = false }), ReasonUnsupportedNetwork, "Firewall"},
		{"two networks", []Port{tcp(80)}, []Member{{"a", "vm1", "n1", "blue"}, {"b", "vm2", "n2", "green"}}, nil, ReasonSeveralNetworks, "blue (a); green (b)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, refusal := Desire(Facts{Service: aService(tc.ports...), Spec: openSpec(), Members: tc.members, Network: tc.network})
			require.NotNil(t, refusal)
			assert.Equal(t, tc.reason, refusal.Reason)
			assert.Contains(t, refusal.Error(), tc.says)
			assert.NotEmpty(t, refusal.Remedy)
		})
	}
	_, refusal := Desire(Facts{Service: aService(tcp(8081)), Spec: openSpec(), Network: with(func(n *Network) { n.Provider = "Netscaler" })})
	assert.Nil(t, refusal, "other providers have no such port")
}

func TestFits(t *testing.T) {
	t.Parallel()
	at := func(change func(*Address)) Actual {
		a := Address{ID: "ip", IP: "203.0.113.7", NetworkID: "net", Known: true, Owner: Unknown}
		change(&a)
		return Actual{Addresses: []Address{a}}
	}
	wanted := func(port int) Desired { return desired([]int{port}, func(d *Desired) { d.Address = "203.0.113.7" }) }
	for _, tc := range []struct {
		name   string
		d      Desired
		a      Actual
		reason Reason
	}{
		{"ours", wanted(80), at(func(*Address) {}), ""},
		{"not there yet: it is acquired", wanted(80), Actual{}, ""},
		{"static NAT", wanted(80), at(func(a *Address) { a.StaticNAT = true }), ReasonAddressUnavailable},
		{"another network", wanted(80), at(func(a *Address) { a.NetworkID = "other" }), ReasonAddressUnavailable},
		{"a VPC", wanted(80), at(func(a *Address) { a.VPCID = "vpc" }), ReasonAddressUnavailable},
		{"another cluster", wanted(80), at(func(a *Address) { a.ForeignCluster = true }), ReasonAddressUnavailable},
		{"port taken", wanted(80), at(func(a *Address) {
			a.Rules = []ActualRule{{Rule: Rule{Name: "x", PublicPort: 80}, ID: "r", Owner: Foreign}}
		}), ReasonPortTaken},
		{"other port taken", wanted(81), at(func(a *Address) {
			a.Rules = []ActualRule{{Rule: Rule{Name: "x", PublicPort: 80}, ID: "r", Owner: Foreign}}
		}), ""},
		{"DNS on source NAT", wanted(53), at(func(a *Address) { a.SourceNAT = true }), ReasonReservedPort},
		{"DNS elsewhere", wanted(53), at(func(*Address) {}), ""},
		{"no nodes and no address", desired([]int{80}, func(d *Desired) { d.NetworkID = "" }), Actual{}, ReasonNoNodes},
		{"nothing wanted", Desired{Absent: true}, at(func(a *Address) { a.StaticNAT = true }), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			refusal := Fits(tc.d, tc.a, isolated())
			if tc.reason == "" {
				assert.Nil(t, refusal)
				return
			}
			require.NotNil(t, refusal)
			assert.Equal(t, tc.reason, refusal.Reason)
			assert.NotEmpty(t, refusal.Remedy)
		})
	}
}

func TestTagOwner(t *testing.T) {
	t.Parallel()
	svc := aService()
	assert.Equal(t, Mine, tagOwner(Tags("c1", svc), "c1", svc))
	assert.Equal(t, Foreign, tagOwner(Tags("c2", svc), "c1", svc), "a copy of the cluster has the same UIDs")
	other := svc
	other.UID = "other"
	assert.Equal(t, Foreign, tagOwner(Tags("c1", other), "c1", svc))
	assert.Equal(t, Unknown, tagOwner(map[string]string{"colour": "blue"}, "c1", svc))
	assert.Equal(t, Unknown, tagOwner(nil, "c1", svc))
}
