// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listZones", Refs: map[string]store.RefKind{"id": store.RefZone, "ids": store.RefZone}, Run: listZones},
	{Name: "listRegions", Run: listRegions},

	{Name: "listNetworks", Refs: map[string]store.RefKind{"id": store.RefNetwork}, Run: listNetworks},
	{Name: "createNetwork", Write: true, Run: createNetwork},
	{Name: "updateNetwork", Refs: map[string]store.RefKind{"id": store.RefNetwork}, Submit: updateNetwork, Class: "user.network.UpdateNetworkCmd"},
	{Name: "deleteNetwork", Refs: map[string]store.RefKind{"id": store.RefNetwork}, Submit: deleteNetwork, Class: "user.network.DeleteNetworkCmd"},
	{Name: "restartNetwork", Refs: map[string]store.RefKind{"id": store.RefNetwork}, Submit: restartNetwork, Class: "user.network.RestartNetworkCmd"},

	{Name: "listVPCs", Refs: map[string]store.RefKind{"id": store.RefVPC}, Run: listVPCs},
	{Name: "createVPC", Submit: createVPC, Class: "user.vpc.CreateVPCCmd", Order: []string{"zoneid", "name", "displaytext", "cidr", "vpcofferingid"}},
	{Name: "updateVPC", Refs: map[string]store.RefKind{"id": store.RefVPC}, Submit: updateVPC, Class: "user.vpc.UpdateVPCCmd"},
	{Name: "deleteVPC", Refs: map[string]store.RefKind{"id": store.RefVPC}, Submit: deleteVPC, Class: "user.vpc.DeleteVPCCmd"},
	{Name: "restartVPC", Refs: map[string]store.RefKind{"id": store.RefVPC}, Submit: restartVPC, Class: "user.vpc.RestartVPCCmd"},
	{Name: "listVPCOfferings", Refs: map[string]store.RefKind{"id": store.RefVPCOffering}, Run: listVPCOfferings},

	{Name: "listNetworkACLs", Refs: map[string]store.RefKind{"id": store.RefACLItem}, Run: listNetworkACLs},
	{Name: "listNetworkACLLists", Refs: map[string]store.RefKind{"id": store.RefACLList}, Run: listNetworkACLLists},
	{
		Name: "createNetworkACL", Submit: createNetworkACL, Class: "user.network.CreateNetworkACLCmd",
		Order: []string{"protocol", "startport", "endport", "cidrlist", "icmptype", "icmpcode", "networkid", "aclid", "traffictype", "number", "action"},
	},
	{
		Name: "updateNetworkACLItem", Refs: map[string]store.RefKind{"id": store.RefACLItem}, Submit: updateNetworkACLItem, Class: "user.network.UpdateNetworkACLItemCmd",
		Wrapper: "createnetworkaclresponse",
	},
	{Name: "deleteNetworkACL", Refs: map[string]store.RefKind{"id": store.RefACLItem}, Submit: deleteNetworkACL, Class: "user.network.DeleteNetworkACLCmd"},
	{Name: "moveNetworkAclItem", Submit: moveNetworkACLItem, Class: "user.network.MoveNetworkAclItemCmd", Wrapper: "moveNetworkAclItemResponse"},
	{Name: "createNetworkACLList", Submit: createNetworkACLList, Class: "user.network.CreateNetworkACLListCmd"},
	{Name: "updateNetworkACLList", Refs: map[string]store.RefKind{"id": store.RefACLList}, Submit: updateNetworkACLList, Class: "user.network.UpdateNetworkACLListCmd"},
	{Name: "deleteNetworkACLList", Refs: map[string]store.RefKind{"id": store.RefACLList}, Submit: deleteNetworkACLList, Class: "user.network.DeleteNetworkACLListCmd"},
	{Name: "replaceNetworkACLList", Submit: replaceNetworkACLList, Class: "user.network.ReplaceNetworkACLListCmd"},

	{Name: "listPublicIpAddresses", Refs: map[string]store.RefKind{"id": store.RefIP, "networkid": store.RefPublicNet}, Run: listPublicIPAddresses},
	{
		Name: "associateIpAddress", Submit: associateIPAddress, Class: "user.address.AssociateIPAddrCmd",
		Lock: func(c *wire.Call) string { return "account/" + addressOwnerKey(c) },
	},
	{Name: "updateIpAddress", Refs: map[string]store.RefKind{"id": store.RefIP}, Submit: updateIPAddress, Class: "user.address.UpdateIPAddrCmd"},
	{Name: "reserveIpAddress", Refs: map[string]store.RefKind{"id": store.RefIP}, Write: true, Run: reserveIPAddress},
	{Name: "releaseIpAddress", Refs: map[string]store.RefKind{"id": store.RefIP}, Write: true, Run: releaseIPAddress},
	{Name: "disassociateIpAddress", Refs: map[string]store.RefKind{"id": store.RefIP}, Submit: disassociateIPAddress, Class: "user.address.DisassociateIPAddrCmd"},

	{Name: "listFirewallRules", Refs: map[string]store.RefKind{"id": store.RefRule}, Run: listFirewallRules},
	{
		Name: "createFirewallRule", Submit: createFirewallRule, Class: "user.firewall.CreateFirewallRuleCmd", Lock: wire.LockIP("ipaddressid"),
		Order: []string{"ipaddressid", "protocol", "startport", "endport", "cidrlist", "icmptype", "icmpcode"},
	},
	{Name: "deleteFirewallRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: deleteFirewallRule, Class: "user.firewall.DeleteFirewallRuleCmd"},

	{Name: "listEgressFirewallRules", Refs: map[string]store.RefKind{"id": store.RefEgressRule}, Run: listEgressFirewallRules},
	{Name: "createEgressFirewallRule", Submit: createEgressFirewallRule, Class: "user.firewall.CreateEgressFirewallRuleCmd"},
	{Name: "deleteEgressFirewallRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: deleteFirewallRule, Class: "user.firewall.DeleteEgressFirewallRuleCmd"},
	{Name: "updateEgressFirewallRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: updateFirewallRule, Class: "user.firewall.UpdateEgressFirewallRuleCmd"},
	{Name: "updateFirewallRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: updateFirewallRule, Class: "user.firewall.UpdateFirewallRuleCmd"},

	{Name: "listPortForwardingRules", Refs: map[string]store.RefKind{"id": store.RefPFRule}, Run: listPortForwardingRules},
	{
		Name: "createPortForwardingRule", Submit: createPortForwardingRule, Class: "user.firewall.CreatePortForwardingRuleCmd", Lock: wire.LockIP("ipaddressid"),
		Order: []string{"ipaddressid", "privateport", "protocol", "privateendport", "publicport", "publicendport", "virtualmachineid"},
	},
	{Name: "updatePortForwardingRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: updatePortForwardingRule, Class: "user.firewall.UpdatePortForwardingRuleCmd"},
	{Name: "deletePortForwardingRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: deletePortForwardingRule, Class: "user.firewall.DeletePortForwardingRuleCmd"},
	{Name: "enableStaticNat", Write: true, Run: enableStaticNAT},
	{Name: "disableStaticNat", Submit: disableStaticNAT, Class: "user.nat.DisableStaticNatCmd"},

	{Name: "listPhysicalNetworks", Refs: map[string]store.RefKind{"id": store.RefPhysicalNet}, Run: listPhysicalNetworks},
	{Name: "listNetworkServiceProviders", Run: listNetworkServiceProviders},
	{Name: "listSupportedNetworkServices", Run: listSupportedNetworkServices},
	{Name: "listVlanIpRanges", Refs: map[string]store.RefKind{"id": store.RefVLAN, "networkid": store.RefAnyNetwork}, Run: listVLANIPRanges},
	{Name: "listRouters", Refs: map[string]store.RefKind{"id": store.RefRouter}, Run: listRouters},
}
