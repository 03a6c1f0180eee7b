// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// TestForwardsHoldTheirVM: port forwarding rules keep NICs, addresses and owners of the VMs that they lead to in place.
func TestForwardsHoldTheirVM(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/a"
	ip, vm := h.newIP("net"), h.vmID("n1")
	nic := h.first(h.call(u, "listNics", "virtualmachineid", vm), "nic")
	second := h.done(u, h.call(u, "addIpToNic", "nicid", id(nic), "ipaddress", "10.1.1.200"))["nicsecondaryip"].(map[string]any)
	rule := func(port, guest string) string {
		a := h.call(u, "createPortForwardingRule", "ipaddressid", ip, "protocol", "tcp", "publicport", port, "privateport", port, "virtualmachineid", vm, "vmguestip", guest)
		h.done(u, a)
		return a.str("id")
	}
	first, other := rule("22", nic["ipaddress"].(string)), rule("23", "10.1.1.200")
	h.broken(u, h.call(u, "removeIpFromNic", "id", id(second)), 431, "Removing guest ip from nic failed")
	h.done(u, h.call(u, "deletePortForwardingRule", "id", other))
	h.done(u, h.call(u, "removeIpFromNic", "id", id(second)))

	h.done(u, h.call(u, "stopVirtualMachine", "id", vm))
	h.fails(h.call("admin", "assignVirtualMachine", "virtualmachineid", vm, "account", "b", "domainid", h.ids().dom), 431, wire.CSInvalidValue, "Remove any Port forwarding rules for VM [")
	h.done(u, h.call(u, "updateVmNicIp", "nicid", id(nic), "ipaddress", "10.1.1.77"))
	require.Equal(t, "10.1.1.77", h.first(h.call(u, "listPortForwardingRules", "id", first), "portforwardingrule")["vmguestip"])
}

// TestClusterMeetsItsNetwork: a Kubernetes cluster uses key pairs and respects and makes rules like everybody else.
func TestClusterMeetsItsNetwork(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	const u = "owner"
	h.ok(h.call(u, "createSSHKeyPair", "name", "mine"))
	net := h.network("cks-net")
	implement := h.vm("extra")
	h.done(u, h.call(u, "stopVirtualMachine", "id", implement))
	h.done(u, h.call(u, "startVirtualMachine", "id", implement))
	nat := h.first(h.call(u, "listPublicIpAddresses", "associatednetworkid", net, "issourcenat", "true"), "publicipaddress")
	forward := func(port string) answer {
		return h.call(u, "createPortForwardingRule", "ipaddressid", id(nat), "protocol", "udp", "publicport", port, "privateport", port, "virtualmachineid", implement, "openfirewall", "false")
	}
	blocking := forward("2223")
	h.done(u, blocking)
	h.fails(h.create(u, "networkid", net), 530, wire.CSGeneric, "has conflicting portforwarding rules to provision Kubernetes cluster for node VM SSH access")
	h.done(u, h.call(u, "deletePortForwardingRule", "id", blocking.str("id")))
	h.fails(h.create(u, "keypair", "theirs"), 530, wire.CSGeneric, "was not found for the account owner")

	a := h.create(u, "networkid", net, "keypair", "mine")
	c := clusterIn(h.done(u, a))
	require.Equal(t, "mine", c["keypair"])
	rules := h.call(u, "listPortForwardingRules", "ipaddressid", id(nat)).items("portforwardingrule")
	require.Len(t, rules, 2)
	require.Equal(t, 200, forward("2222").status, "UDP and TCP are apart")
	require.Empty(t, h.call("other", "listPortForwardingRules", "listall", "true").items("portforwardingrule"))
	volume := h.first(h.call(u, "listVolumes", "virtualmachineid", id(c["virtualmachines"].([]any)[0].(map[string]any))), "volume")
	require.EqualValues(t, 8*settings.Gib, volume["size"])
	h.done(u, h.call(u, "deleteKubernetesCluster", "id", a.str("id")))
	require.Len(t, h.call(u, "listPortForwardingRules", "ipaddressid", id(nat)).items("portforwardingrule"), 1, "the other's own")
	require.Empty(t, h.call(u, "listFirewallRules", "ipaddressid", id(nat)).items("firewallrule"))
}

// TestVolumesCount: limits count the volumes that a VM has, with their sizes, and check both.
func TestVolumesCount(t *testing.T) {
	t.Parallel()
	h := rich(t)
	d, acc, _ := h.tenant("one", "mine")
	z := h.zoneParts()
	large := id(h.first(h.root("listDiskOfferings", "name", "Large"), "diskoffering"))
	deploy := func(name string) answer {
		return h.call("one/mine", "deployVirtualMachine", "name", name, "zoneid", z.zone, "templateid", z.template, "serviceofferingid", z.offering, "diskofferingid", large, "rootdisksize", "20")
	}
	h.done("admin", deploy("first"))
	counted := h.first(h.root("listAccounts", "id", acc), "account")
	require.EqualValues(t, 2, counted["volumetotal"])
	require.EqualValues(t, 120, counted["primarystoragetotal"])
	h.fails(deploy("second"), 535, wire.CSGeneric, "Maximum amount of resources of Type = 'primary_storage', tag = 'null' for Account Name = mine in Domain Id = 2 is exceeded")
	h.ok(h.root("updateResourceLimit", "resourcetype", "10", "max", "-1", "account", "mine", "domainid", d))
	h.done("admin", deploy("second"))
}

// TestCustomIDs gives objects another UUID.
func TestCustomIDs(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const custom = "11111111-2222-4333-8444-555555555555"
	vm := h.vmID("n1")
	h.fails(h.call("admin", "updateVirtualMachine", "id", vm, "customid", "x"), 431, wire.CSInvalidValue, "UUID: x doesn't follow the UUID format")
	h.fails(h.call("admin", "updateVirtualMachine", "id", vm, "customid", h.vmID("n2")), 431, wire.CSInvalidValue, "already exists so can't create/update with custom id")
	require.Equal(t, custom, h.obj(h.call("admin", "updateVirtualMachine", "id", vm, "customid", custom), "virtualmachine")["id"])
	net := h.netID("net")
	h.broken("admin", h.call("admin", "updateNetwork", "id", net, "customid", "x"), 431, "UUID: x doesn't follow the UUID format")
	h.done("admin", h.call("admin", "updateNetwork", "id", net, "customid", custom))
	require.Equal(t, "net", h.first(h.call("d/a", "listNetworks", "id", custom), "network")["name"])
	require.NotContains(t, h.done("d/a", h.call("d/a", "updateNetwork", "id", custom, "customid", net))["network"].(map[string]any)["id"], net, "dropped for users")
}
