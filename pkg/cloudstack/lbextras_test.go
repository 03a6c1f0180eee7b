// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadsOfLoadBalancerExtras(t *testing.T) {
	t.Parallel()
	none, err := goldenAPI(t, "listLBStickinessPolicies.empty").client(t).ListStickinessPolicies(t.Context(), "r")
	require.NoError(t, err)
	require.Empty(t, none)

	f := goldenAPI(t, "listNetworkACLs.by-aclid")
	items, err := f.client(t).ListNetworkACLs(t.Context(), NetworkACLQuery{ListID: "l", ProjectID: "p"})
	require.NoError(t, err)
	require.Equal(t, "l", f.recorded()[0].Form.Get("aclid"))
	require.Len(t, items, 8)
	require.Equal(t, NetworkACL{
		ID: "d0d2b28b-08de-4f15-a7bd-54a2c38374b8", ListID: "0d3e71ea-e13d-46e7-a2f4-649da239e748", ListName: "acl-b", Number: 12, Protocol: "tcp", StartPort: 88, EndPort: 88,
		CIDRs: []string{"10.0.0.0/8", "172.16.0.0/12"}, Ingress: true, Allow: true, State: "Active",
	}, items[0])
	require.Equal(t, "k8s service default/x", items[3].Reason)
	require.False(t, items[4].Allow)
	require.Zero(t, items[1].StartPort, "all ports")

	f = goldenAPI(t, "listLoadBalancers.by-id-before-assign")
	internal, err := f.client(t).ListInternalLoadBalancers(t.Context(), InternalLoadBalancerQuery{ID: "i"})
	require.NoError(t, err)
	require.Equal(t, "i", f.recorded()[0].Form.Get("id"))
	require.Equal(t, []InternalLoadBalancer{{
		ID: "c7394bc2-d327-49e7-b493-e0f902da024e", Name: "ilb-web", Algorithm: "roundrobin", NetworkID: "8ef5c6cc-2c99-418b-9e69-cef056a52fb7", Address: "10.2.9.192",
		Port: 80, InstancePort: 30080, State: "Add",
	}}, internal)

	f = goldenAPI(t, "listPortForwardingRules.by-ip")
	forwards, err := f.client(t).ListPortForwardings(t.Context(), PortForwardingQuery{PublicIPID: "ip"})
	require.NoError(t, err)
	require.NotEmpty(t, forwards)
	require.NotZero(t, forwards[0].StartPort)
	require.GreaterOrEqual(t, forwards[0].EndPort, forwards[0].StartPort)
	require.NotEmpty(t, forwards[0].VMID)
	require.Equal(t, "ip", f.recorded()[0].Form.Get("ipaddressid"))

	f = goldenAPI(t, "listLoadBalancerRules.by-virtualmachineid")
	_, err = f.client(t).ListLoadBalancerRules(t.Context(), LoadBalancerRuleQuery{VMID: "vm"})
	require.NoError(t, err)
	require.Equal(t, "vm", f.recorded()[0].Form.Get("virtualmachineid"))
}
