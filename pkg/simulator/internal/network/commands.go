// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network implements the commands for zones, networks, VPCs, ACLs, public addresses, firewall rules and port
// forwarding.
package network

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listZones", Refs: map[string]store.RefKind{"id": store.RefZone, "ids": store.RefZone}, Run: listZones},

	{Name: "listNetworks", Refs: map[string]store.RefKind{"id": store.RefNetwork}, Run: listNetworks},
	{
		Name: "createNetwork", Write: true, Run: createNetwork, Event: wire.Records("NETWORK.CREATE", "creating network", "Network", ""),
		Without: "physicalnetworkid associatednetworkid isolatedpvlan isolatedpvlantype ip6gateway ip6cidr startipv6 endipv6 cidrsize dns1 dns2 ip6dns1 ip6dns2 " +
			"externalid networkdomain displaynetwork bypassvlanoverlapcheck routerip routeripv6 hideipaddressusage sourcenatipaddress",
	},
	{
		Name: "deleteNetwork", Refs: map[string]store.RefKind{"id": store.RefNetwork}, Submit: deleteNetwork, Class: "user.network.DeleteNetworkCmd",
		Event: wire.Records("NETWORK.DELETE", "deleting network", "Network", "id"),
	},

	{Name: "listVPCs", Refs: map[string]store.RefKind{"id": store.RefVPC}, Run: listVPCs},
	{
		Name: "createVPC", Without: "networkdomain dns1 dns2 ip6dns1 ip6dns2 fordisplay sourcenatipaddress cidrsize publicmtu start", Submit: createVPC, Class: "user.vpc.CreateVPCCmd", Order: []string{"zoneid", "name", "displaytext", "cidr", "vpcofferingid"},
		ByAdmin: true, Event: wire.Records("VPC.CREATE", "creating vpc", "Vpc", ""),
	},
	{Name: "deleteVPC", Refs: map[string]store.RefKind{"id": store.RefVPC}, Submit: deleteVPC, Class: "user.vpc.DeleteVPCCmd", Event: wire.Records("VPC.DELETE", "deleting vpc", "Vpc", "id")},
	{Name: "listVPCOfferings", Refs: map[string]store.RefKind{"id": store.RefVPCOffering}, Run: listVPCOfferings},

	{Name: "listNetworkACLs", Refs: map[string]store.RefKind{"id": store.RefACLItem}, Run: listNetworkACLs},
	{Name: "listNetworkACLLists", Refs: map[string]store.RefKind{"id": store.RefACLList}, Run: listNetworkACLLists},
	{
		Name: "createNetworkACL", Submit: createNetworkACL, Class: "user.network.CreateNetworkACLCmd",
		Order: []string{"protocol", "startport", "endport", "cidrlist", "icmptype", "icmpcode", "networkid", "aclid", "traffictype", "number", "action"},
		Event: wire.Records("NETWORK.ACL.ITEM.CREATE", "creating network acl item", "NetworkAclItem", ""),
	},
	{
		Name: "deleteNetworkACL", Refs: map[string]store.RefKind{"id": store.RefACLItem}, Submit: deleteNetworkACL, Class: "user.network.DeleteNetworkACLCmd",
		Event: wire.Records("NETWORK.ACL.ITEM.DELETE", "Deleting Network ACL Item", "NetworkAclItem", "id"),
	},
	{
		Name: "createNetworkACLList", Submit: createNetworkACLList, Class: "user.network.CreateNetworkACLListCmd",
		Event: wire.Records("NETWORK.ACL.CREATE", "creating network acl list", "NetworkAcl", ""),
	},
	{
		Name: "deleteNetworkACLList", Refs: map[string]store.RefKind{"id": store.RefACLList}, Submit: deleteNetworkACLList, Class: "user.network.DeleteNetworkACLListCmd",
		Event: wire.Records("NETWORK.ACL.DELETE", "Deleting Network ACL List", "NetworkAcl", "id"),
	},
	{
		Name: "replaceNetworkACLList", Submit: replaceNetworkACLList, Class: "user.network.ReplaceNetworkACLListCmd",
		Event: wire.Records("NETWORK.ACL.REPLACE", "Replacing network ACL", "NetworkAcl", "aclid"),
	},

	{Name: "listPublicIpAddresses", Refs: map[string]store.RefKind{"id": store.RefIP, "networkid": store.RefPublicNet}, Run: listPublicIPAddresses},
	{
		Name: "associateIpAddress", Submit: associateIPAddress, Class: "user.address.AssociateIPAddrCmd",
		Lock:    func(c *wire.Call) string { return "account/" + addressOwnerKey(c) },
		ByAdmin: true, Event: wire.Records("NET.IPASSIGN", "allocating Ip", "IpAddress", ""),
	},
	{
		Name: "disassociateIpAddress", Refs: map[string]store.RefKind{"id": store.RefIP}, Submit: disassociateIPAddress, Class: "user.address.DisassociateIPAddrCmd",
		ByAdmin: true, Event: wire.Records("NET.IPRELEASE", "disassociating Ip", "IpAddress", "id"),
	},

	{Name: "listFirewallRules", Refs: map[string]store.RefKind{"id": store.RefRule}, Run: listFirewallRules},
	{
		Name: "createFirewallRule", Submit: createFirewallRule, Class: "user.firewall.CreateFirewallRuleCmd", Lock: wire.LockIP("ipaddressid"), Busy: applying,
		Order: []string{"ipaddressid", "protocol", "startport", "endport", "cidrlist", "icmptype", "icmpcode"},
		Event: wire.Records("FIREWALL.OPEN", "creating firewall rule", "FirewallRule", ""),
	},
	{
		Name: "deleteFirewallRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: deleteFirewallRule, Class: "user.firewall.DeleteFirewallRuleCmd",
		Event: wire.Records("FIREWALL.CLOSE", "revoking firewall rule", "FirewallRule", "id"),
	},

	{Name: "listPortForwardingRules", Refs: map[string]store.RefKind{"id": store.RefPFRule}, Run: listPortForwardingRules},
	{
		Name: "createPortForwardingRule", Submit: createPortForwardingRule, Class: "user.firewall.CreatePortForwardingRuleCmd", Lock: wire.LockIP("ipaddressid"),
		Order: []string{"ipaddressid", "privateport", "protocol", "privateendport", "publicport", "publicendport", "virtualmachineid"},
		Event: wire.Records("NET.RULEADD", "creating forwarding rule", "FirewallRule", ""),
	},
	{
		Name: "updatePortForwardingRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: updatePortForwardingRule, Class: "user.firewall.UpdatePortForwardingRuleCmd",
		Event: wire.Records("NET.RULEMODIFY", "updating forwarding rule", "FirewallRule", "id"),
	},
	{
		Name: "deletePortForwardingRule", Refs: map[string]store.RefKind{"id": store.RefRule}, Submit: deletePortForwardingRule, Class: "user.firewall.DeletePortForwardingRuleCmd",
		Event: wire.Records("NET.RULEDELETE", "revoking forwarding rule", "FirewallRule", "id"),
	},
	{Name: "enableStaticNat", Write: true, Run: enableStaticNAT, Event: wire.Records("STATICNAT.ENABLE", "enabling static nat", "IpAddress", "ipaddressid")},
}
