// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/compute"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// twoNets is the world's network and a second one of the same owner.
func twoNets(t *testing.T) (b vmBed, second *store.Network) {
	t.Helper()
	b = newVMBed(t, 0)
	st := b.sim.st
	n, _ := st.Networks.Get(b.network)
	second = st.Networks.Add(&store.Network{
		Name: "second", Zone: n.Zone, Offering: n.Offering, Owner: n.Owner, Domain: n.Domain, Typ: store.TypeIsolated, State: store.NetAllocated,
		CIDR: n.CIDR, Gateway: n.Gateway, VLAN: 4000,
	})
	return b, second
}

func TestNICsOfVMs(t *testing.T) {
	t.Parallel()
	b, second := twoNets(t)
	v := b.made(owner, "name", "multi", "networkids", b.network)
	add := func(pairs ...string) answer {
		return b.call(owner, "addNicToVirtualMachine", append([]string{"virtualmachineid", id(v), "networkid", second.UUID}, pairs...)...)
	}
	b.broken(owner, add("ipaddress", "192.0.2.1"), 530, "Insufficient capacity when adding NIC to VM instance {")
	b.broken(owner, add("ipaddress", "nonsense"), 431, "Invalid format for IP address parameter: nonsense")
	b.fails(b.call(owner, "addNicToVirtualMachine", "virtualmachineid", id(v)), 431, wire.CSGeneric, "missing parameter networkid")
	two := b.done(owner, add("ipaddress", "10.1.1.50"))["virtualmachine"].(map[string]any)
	nics := two["nic"].([]any)
	require.Len(t, nics, 2)
	first, other := nics[0].(map[string]any), nics[1].(map[string]any)
	require.Equal(t, "1", other["deviceid"])
	require.Equal(t, "10.1.1.50", other["ipaddress"])
	require.Equal(t, store.NetImplemented, second.State)
	b.broken(owner, add(), 530, "A NIC already exists for VM:")
	b.broken(owner, b.call(owner, "removeNicFromVirtualMachine", "virtualmachineid", id(v), "nicid", id(first)), 431, "nic is default.")
	b.broken(owner, b.call(owner, "updateDefaultNicForVirtualMachine", "virtualmachineid", id(v), "nicid", id(first)), 530, "chosen nic is already the default")
	b.done(owner, b.call(owner, "updateDefaultNicForVirtualMachine", "virtualmachineid", id(v), "nicid", id(other)))
	require.Equal(t, "10.1.1.50", b.vm(owner, "id", id(v))["ipaddress"], "the default NIC becomes device 0")
	b.done(owner, b.call(owner, "removeNicFromVirtualMachine", "virtualmachineid", id(v), "nicid", id(first)))
	require.Len(t, b.call(owner, "listNics", "virtualmachineid", id(v)).items("nic"), 1)
	b.broken(owner, b.call(owner, "removeNicFromVirtualMachine", "virtualmachineid", id(v), "nicid", id(first)), 431, "Unable to find a nic with id")
	b.fails(b.call(owner, "listNics"), 431, wire.CSGeneric, "missing parameter virtualmachineid")
}

func TestSecondaryAddresses(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	v := b.made(owner, "name", "many", "networkids", b.network)
	n := v["nic"].([]any)[0].(map[string]any)
	require.NotContains(t, b.first(b.call(owner, "listNics", "virtualmachineid", id(v)), "nic"), "secondaryip")
	got := b.done(owner, b.call(owner, "addIpToNic", "nicid", id(n), "ipaddress", "10.1.1.200"))["nicsecondaryip"].(map[string]any)
	require.Equal(t, "10.1.1.200", got["ipaddress"])
	b.fails(b.call(owner, "addIpToNic", "nicid", id(n), "ipaddress", "10.1.1.200"), 530, wire.CSGeneric, "Failed to assign secondary ip to nic")
	b.fails(b.call(owner, "addIpToNic", "nicid", id(n), "ipaddress", "x"), 431, wire.CSInvalidValue, "Invalid ip address x")
	require.Contains(t, b.first(b.call(owner, "listNics", "virtualmachineid", id(v)), "nic"), "secondaryip")

	rule := id(b.first(b.call(owner, "listLoadBalancerRules"), "loadbalancerrule"))
	assign := func(ip string) answer {
		return b.call(owner, "assignToLoadBalancerRule", "id", rule, "vmidipmap[0].vmid", id(v), "vmidipmap[0].vmip", ip)
	}
	b.broken(owner, assign("10.1.1.201"), 530, "Failed to assign load balancer rule")
	b.done(owner, assign("10.1.1.200"))
	b.broken(owner, b.call(owner, "removeIpFromNic", "id", id(got)), 431, "Removing guest ip from nic failed")
	b.done(owner, b.call(owner, "removeFromLoadBalancerRule", "id", rule, "virtualmachineids", id(v)))
	b.done(owner, b.call(owner, "removeIpFromNic", "id", id(got)))
	b.fails(b.call(owner, "removeIpFromNic", "id", id(got)), 431, wire.CSGeneric, "Invalid parameter id value=")
	for i := range compute.MaxSecondary {
		b.done(owner, b.call(owner, "addIpToNic", "nicid", id(n), "ipaddress", fmt.Sprintf("10.1.1.%d", 210+i)))
	}
	b.fails(b.call(owner, "addIpToNic", "nicid", id(n)), 431, wire.CSInvalidValue, "Maximum Number of Ips per Nic has been crossed.")
}

func TestUpdateVMNicIP(t *testing.T) {
	t.Parallel()
	b := newVMBed(t, 0)
	v := b.made(owner, "name", "moving", "networkids", b.network)
	n := id(v["nic"].([]any)[0].(map[string]any))
	rule := id(b.first(b.call(owner, "listLoadBalancerRules"), "loadbalancerrule"))
	b.done(owner, b.call(owner, "assignToLoadBalancerRule", "id", rule, "virtualmachineids", id(v)))
	b.broken(owner, b.call(owner, "updateVmNicIp", "nicid", n, "ipaddress", "10.1.1.120"), 431, "VM is not Stopped")
	b.done(owner, b.call(owner, "stopVirtualMachine", "id", id(v)))
	b.done(owner, b.call(owner, "updateVmNicIp", "nicid", n, "ipaddress", "10.1.1.120"))
	require.Equal(t, "10.1.1.120", b.vm(owner, "id", id(v))["ipaddress"])
	var ips []any
	for _, m := range b.call(owner, "listLoadBalancerRuleInstances", "id", rule, "lbvmips", "true").items("lbrulevmidip") {
		ips = append(ips, m["lbvmipaddresses"].([]any)...)
	}
	require.Contains(t, ips, "10.1.1.120")
}
