// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

// TestSDK: the official Go SDK signs, sends and decodes as it does with a real server.
func TestSDK(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Clock: clock.RealClock{}})
	key, secret, _ := h.sim.Keys(owner)
	cs := cloudstack.NewClient(h.url, key, secret, false)
	_, n, err := cs.Zone.GetZoneID("zone-1")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	nets, err := cs.Network.ListNetworks(cs.Network.NewListNetworksParams())
	require.NoError(t, err)
	p := cs.Address.NewAssociateIpAddressParams()
	p.SetNetworkid(nets.Networks[0].Id)
	ip, err := cs.Address.AssociateIpAddress(p)
	require.NoError(t, err)
	job, err := cs.Asyncjob.QueryAsyncJobResult(cs.Asyncjob.NewQueryAsyncJobResultParams(ip.JobID))
	require.NoError(t, err)
	require.Equal(t, 1, job.Jobstatus)
	rule := cs.LoadBalancer.NewCreateLoadBalancerRuleParams("roundrobin", "lb (1) [a]:,/%&=+'!", 30080, 80)
	rule.SetPublicipid(ip.Id)
	rule.SetCidrlist([]string{"10.0.0.0/8", "192.168.0.0/16"})
	r, err := cs.LoadBalancer.CreateLoadBalancerRule(rule)
	require.NoError(t, err)
	got, _, err := cs.LoadBalancer.GetLoadBalancerRuleByID(r.Id)
	require.NoError(t, err)
	require.Equal(t, "lb (1) [a]:,/%&=+'!", got.Name)

	// The SDK escapes ~ and * unlike the server, so the call fails with 401, as with a real server.
	list := cs.LoadBalancer.NewListLoadBalancerRulesParams()
	list.SetKeyword("a~b")
	_, err = cs.LoadBalancer.ListLoadBalancerRules(list)
	require.ErrorContains(t, err, "401")
}
