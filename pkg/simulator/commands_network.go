// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// networkCommands are the commands of this family.
var networkCommands = []command{
	{name: "listZones", refs: map[string]refKind{"id": refZone, "ids": refZone}, run: listZones},
	{name: "listRegions", run: listRegions},

	{name: "listNetworks", refs: map[string]refKind{"id": refNetwork}, run: listNetworks},
	{name: "createNetwork", write: true, run: createNetwork},
	{name: "updateNetwork", refs: map[string]refKind{"id": refNetwork}, submit: updateNetwork, class: "user.network.UpdateNetworkCmd"},
	{name: "deleteNetwork", refs: map[string]refKind{"id": refNetwork}, submit: deleteNetwork, class: "user.network.DeleteNetworkCmd"},
	{name: "restartNetwork", refs: map[string]refKind{"id": refNetwork}, submit: restartNetwork, class: "user.network.RestartNetworkCmd"},

	{name: "listVPCs", refs: map[string]refKind{"id": refVPC}, run: listVPCs},
	{name: "createVPC", submit: createVPC, class: "user.vpc.CreateVPCCmd", order: []string{"zoneid", "name", "displaytext", "cidr", "vpcofferingid"}},
	{name: "updateVPC", refs: map[string]refKind{"id": refVPC}, submit: updateVPC, class: "user.vpc.UpdateVPCCmd"},
	{name: "deleteVPC", refs: map[string]refKind{"id": refVPC}, submit: deleteVPC, class: "user.vpc.DeleteVPCCmd"},
	{name: "restartVPC", refs: map[string]refKind{"id": refVPC}, submit: restartVPC, class: "user.vpc.RestartVPCCmd"},
	{name: "listVPCOfferings", refs: map[string]refKind{"id": refVPCOffering}, run: listVPCOfferings},

	{name: "listNetworkACLs", refs: map[string]refKind{"id": refACLItem}, run: listNetworkACLs},
	{name: "listNetworkACLLists", refs: map[string]refKind{"id": refACLList}, run: listNetworkACLLists},
	{
		name: "createNetworkACL", submit: createNetworkACL, class: "user.network.CreateNetworkACLCmd",
		order: []string{"protocol", "startport", "endport", "cidrlist", "icmptype", "icmpcode", "networkid", "aclid", "traffictype", "number", "action"},
	},
	{
		name: "updateNetworkACLItem", refs: map[string]refKind{"id": refACLItem}, submit: updateNetworkACLItem, class: "user.network.UpdateNetworkACLItemCmd",
		wrapper: "createnetworkaclresponse",
	},
	{name: "deleteNetworkACL", refs: map[string]refKind{"id": refACLItem}, submit: deleteNetworkACL, class: "user.network.DeleteNetworkACLCmd"},
	{name: "moveNetworkAclItem", submit: moveNetworkACLItem, class: "user.network.MoveNetworkAclItemCmd", wrapper: "moveNetworkAclItemResponse"},
	{name: "createNetworkACLList", submit: createNetworkACLList, class: "user.network.CreateNetworkACLListCmd"},
	{name: "updateNetworkACLList", refs: map[string]refKind{"id": refACLList}, submit: updateNetworkACLList, class: "user.network.UpdateNetworkACLListCmd"},
	{name: "deleteNetworkACLList", refs: map[string]refKind{"id": refACLList}, submit: deleteNetworkACLList, class: "user.network.DeleteNetworkACLListCmd"},
	{name: "replaceNetworkACLList", submit: replaceNetworkACLList, class: "user.network.ReplaceNetworkACLListCmd"},

	{name: "listPublicIpAddresses", refs: map[string]refKind{"id": refIP, "networkid": refPublicNet}, run: listPublicIPAddresses},
	{
		name: "associateIpAddress", submit: associateIPAddress, class: "user.address.AssociateIPAddrCmd",
		lock: func(c *call) string { return "account/" + c.addressOwnerKey() },
	},
	{name: "updateIpAddress", refs: map[string]refKind{"id": refIP}, submit: updateIPAddress, class: "user.address.UpdateIPAddrCmd"},
	{name: "reserveIpAddress", refs: map[string]refKind{"id": refIP}, write: true, run: reserveIPAddress},
	{name: "releaseIpAddress", refs: map[string]refKind{"id": refIP}, write: true, run: releaseIPAddress},
	{name: "disassociateIpAddress", refs: map[string]refKind{"id": refIP}, submit: disassociateIPAddress, class: "user.address.DisassociateIPAddrCmd"},

	{name: "listFirewallRules", refs: map[string]refKind{"id": refRule}, run: listFirewallRules},
	{
		name: "createFirewallRule", submit: createFirewallRule, class: "user.firewall.CreateFirewallRuleCmd", lock: lockIP("ipaddressid"),
		order: []string{"ipaddressid", "protocol", "startport", "endport", "cidrlist", "icmptype", "icmpcode"},
	},
	{name: "deleteFirewallRule", refs: map[string]refKind{"id": refRule}, submit: deleteFirewallRule, class: "user.firewall.DeleteFirewallRuleCmd"},

	{name: "listEgressFirewallRules", refs: map[string]refKind{"id": refEgressRule}, run: listEgressFirewallRules},
	{name: "createEgressFirewallRule", submit: createEgressFirewallRule, class: "user.firewall.CreateEgressFirewallRuleCmd"},
	{name: "deleteEgressFirewallRule", refs: map[string]refKind{"id": refRule}, submit: deleteFirewallRule, class: "user.firewall.DeleteEgressFirewallRuleCmd"},
	{name: "updateEgressFirewallRule", refs: map[string]refKind{"id": refRule}, submit: updateFirewallRule, class: "user.firewall.UpdateEgressFirewallRuleCmd"},
	{name: "updateFirewallRule", refs: map[string]refKind{"id": refRule}, submit: updateFirewallRule, class: "user.firewall.UpdateFirewallRuleCmd"},

	{name: "listPortForwardingRules", refs: map[string]refKind{"id": refPFRule}, run: listPortForwardingRules},
	{
		name: "createPortForwardingRule", submit: createPortForwardingRule, class: "user.firewall.CreatePortForwardingRuleCmd", lock: lockIP("ipaddressid"),
		order: []string{"ipaddressid", "privateport", "protocol", "privateendport", "publicport", "publicendport", "virtualmachineid"},
	},
	{name: "updatePortForwardingRule", refs: map[string]refKind{"id": refRule}, submit: updatePortForwardingRule, class: "user.firewall.UpdatePortForwardingRuleCmd"},
	{name: "deletePortForwardingRule", refs: map[string]refKind{"id": refRule}, submit: deletePortForwardingRule, class: "user.firewall.DeletePortForwardingRuleCmd"},
	{name: "enableStaticNat", write: true, run: enableStaticNAT},
	{name: "disableStaticNat", submit: disableStaticNAT, class: "user.nat.DisableStaticNatCmd"},

	{name: "listPhysicalNetworks", refs: map[string]refKind{"id": refPhysicalNet}, run: listPhysicalNetworks},
	{name: "listNetworkServiceProviders", run: listNetworkServiceProviders},
	{name: "listSupportedNetworkServices", run: listSupportedNetworkServices},
	{name: "listVlanIpRanges", refs: map[string]refKind{"id": refVLAN, "networkid": refAnyNetwork}, run: listVLANIPRanges},
	{name: "listRouters", refs: map[string]refKind{"id": refRouter}, run: listRouters},
}
