// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// TestServiceLife makes and removes what a Service of type LoadBalancer needs, on the shipped example.
func TestServiceLife(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	const u = "k8s-owner"
	require.Equal(t, "zone-1", h.first(h.call(u, "listZones"), "zone")["name"])
	vms := h.ok(h.call(u, "listVirtualMachines")).items("virtualmachine")
	require.Len(t, vms, 3)
	require.Equal(t, "10.1.1.11", vms[0]["ipaddress"])
	net := h.first(h.call(u, "listNetworks"), "network")
	require.Equal(t, "k8s-net", net["name"])

	a := h.ok(h.call(u, "associateIpAddress", "networkid", id(net)))
	ip := a.str("id")
	require.Equal(t, store.IPAllocating, h.done(u, a)["ipaddress"].(map[string]any)["state"])
	got := h.first(h.call(u, "listPublicIpAddresses", "id", ip), "publicipaddress")
	require.Equal(t, store.IPAllocated, got["state"])
	require.Equal(t, "203.0.113.11", got["ipaddress"])

	r := h.ok(h.post(u, "createLoadBalancerRule", "publicipid", ip, "name", "lb-tcp-80", "algorithm", "roundrobin", "publicport", "80",
		"privateport", "30080", "protocol", "tcp", "openfirewall", "false", "cidrlist", "10.0.0.0/8,192.168.0.0/16"))
	lb := h.done(u, r)["loadbalancer"].(map[string]any)
	require.Equal(t, store.RuleAdd, lb["state"])
	require.Equal(t, "10.0.0.0/8 192.168.0.0/16", lb["cidrlist"])
	require.Equal(t, "80", lb["publicport"])
	h.done(u, h.call(u, "assignToLoadBalancerRule", "id", id(lb), "virtualmachineids", id(vms[1])+","+id(vms[2])))
	require.Equal(t, store.RuleActive, h.first(h.call(u, "listLoadBalancerRules", "publicipid", ip), "loadbalancerrule")["state"])
	require.Len(t, h.call(u, "listLoadBalancerRuleInstances", "id", id(lb)).items("loadbalancerruleinstance"), 2)
	h.broken(u, h.call(u, "assignToLoadBalancerRule", "id", id(lb), "virtualmachineids", id(vms[1])), 530, "Failed to assign load balancer rule")

	fw := h.done(u, h.call(u, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "80", "cidrlist", "10.0.0.0/8"))["firewallrule"].(map[string]any)
	require.EqualValues(t, 80, fw["endport"])
	h.done(u, h.call(u, "createTags", "resourceids", ip, "resourcetype", "PublicIpAddress", "tags[0].key", "cluster", "tags[0].value", "c1"))
	require.Equal(t, ip, id(h.first(h.call(u, "listPublicIpAddresses", "tags[0].key", "cluster", "tags[0].value", "c1"), "publicipaddress")))

	h.done(u, h.call(u, "disassociateIpAddress", "id", ip))
	h.fails(h.call(u, "listLoadBalancerRules", "id", id(lb)), 431, wire.CSGeneric, "entity does not exist")
	require.Empty(t, h.ok(h.call(u, "listTags")).items("tag"))
	h.fails(h.call(u, "disassociateIpAddress", "id", ip), 530, wire.CSRuntime, wire.InternalErrorText)
	require.Equal(t, 2, h.sim.Ledger().Count("disassociateIpAddress"))
}
