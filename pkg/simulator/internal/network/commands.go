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
	{Name: "listZones", ID: store.RefZone, Run: listZones, Without: "networktype"},

	{
		Name: "listNetworks", ID: store.RefNetwork, Run: listNetworks,
		Without: "networkofferingid issystem restartrequired specifyipranges canusefordeploy physicalnetworkid vlan " +
			"displaynetwork",
	},
	{
		Name:  "createNetwork",
		Write: true,
		Run:   createNetwork,
		Event: wire.Records("NETWORK.CREATE", "creating network", "Network", ""),
		Without: "physicalnetworkid associatednetworkid isolatedpvlan isolatedpvlantype ip6gateway ip6cidr startipv6 " +
			"endipv6 cidrsize dns1 dns2 ip6dns1 " +
			"ip6dns2 externalid networkdomain displaynetwork bypassvlanoverlapcheck routerip routeripv6 " +
			"hideipaddressusage sourcenatipaddress",
	},
	{
		Name: "deleteNetwork", Submit: deleteNetwork, Class: "user.network",
		Event: wire.Records("NETWORK.DELETE", "deleting network", "Network", "id"),
	},

	{
		Name:    "restartNetwork",
		ID:      store.RefNetwork,
		Submit:  restartNetwork,
		Class:   "user.network",
		Without: "makeredundant livepatch",
	},

	{Name: "listVPCs", ID: store.RefVPC, Run: listVPCs},
	{
		Name:    "createVPC",
		Submit:  createVPC,
		Class:   "user.vpc",
		ByAdmin: true,
		Order:   "zoneid name displaytext cidr vpcofferingid",
		Without: "networkdomain dns1 dns2 ip6dns1 ip6dns2 fordisplay sourcenatipaddress cidrsize publicmtu start",
		Event:   wire.Records("VPC.CREATE", "creating vpc", "Vpc", ""),
	},
	{
		Name:   "deleteVPC",
		Submit: deleteVPC,
		Class:  "user.vpc",
		Event:  wire.Records("VPC.DELETE", "deleting vpc", "Vpc", "id"),
	},
	{Name: "listVPCOfferings", ID: store.RefVPCOffering, Run: listVPCOfferings},

	{Name: "listNetworkACLs", ID: store.RefACLItem, Run: listNetworkACLs},
	{Name: "listNetworkACLLists", ID: store.RefACLList, Run: listNetworkACLLists},
	{
		Name: "createNetworkACL", Submit: createNetworkACL, Class: "user.network",
		Order: "protocol startport endport cidrlist icmptype icmpcode networkid aclid traffictype number action",
		Event: wire.Records("NETWORK.ACL.ITEM.CREATE", "creating network acl item", "NetworkAclItem", ""),
	},
	{
		Name: "deleteNetworkACL", Submit: deleteNetworkACL, Class: "user.network",
		Event: wire.Records("NETWORK.ACL.ITEM.DELETE", "Deleting Network ACL Item", "NetworkAclItem", "id"),
	},
	{
		Name: "createNetworkACLList", Submit: createNetworkACLList, Class: "user.network",
		Event: wire.Records("NETWORK.ACL.CREATE", "creating network acl list", "NetworkAcl", ""),
	},
	{
		Name: "deleteNetworkACLList", Submit: deleteNetworkACLList, Class: "user.network",
		Event: wire.Records("NETWORK.ACL.DELETE", "Deleting Network ACL List", "NetworkAcl", "id"),
	},
	{
		Name: "replaceNetworkACLList", Submit: replaceNetworkACLList, Class: "user.network", Without: "gatewayid",
		Event: wire.Records("NETWORK.ACL.REPLACE", "Replacing network ACL", "NetworkAcl", "aclid"),
	},

	{
		Name: "listPublicIpAddresses", ID: store.RefIP, Refs: map[string]store.RefKind{"networkid": store.RefPublicNet},
		Run:     listPublicIPAddresses,
		Without: "forprovider vlanid physicalnetworkid",
	},
	{
		Name: "associateIpAddress", Submit: associateIPAddress, Class: "user.address.AssociateIPAddrCmd", ByAdmin: true,
		Lock:  func(c *wire.Call) string { return "account/" + addressOwnerKey(c) },
		Event: wire.Records("NET.IPASSIGN", "allocating Ip", "IpAddress", ""),
	},
	{
		Name:    "disassociateIpAddress",
		Submit:  disassociateIPAddress,
		Class:   "user.address.DisassociateIPAddrCmd",
		ByAdmin: true,
		Event:   wire.Records("NET.IPRELEASE", "disassociating Ip", "IpAddress", "id"),
	},
	{
		Name:    "reserveIpAddress",
		ID:      store.RefIP,
		Write:   true,
		Run:     reserveIPAddress,
		Without: "account domainid projectid fordisplay",
	},
	{Name: "releaseIpAddress", ID: store.RefIP, Write: true, Run: releaseIPAddress},

	{Name: "listFirewallRules", ID: store.RefRule, Run: listFirewallRules},
	{
		Name:   "createFirewallRule",
		Submit: createFirewallRule,
		Class:  "user.firewall",
		Lock:   wire.LockIP("ipaddressid"),
		Busy:   applying,
		Order:  "ipaddressid protocol startport endport cidrlist icmptype icmpcode",
		Event:  wire.Records("FIREWALL.OPEN", "creating firewall rule", "FirewallRule", ""),
	},
	{
		Name: "deleteFirewallRule", Submit: deleteFirewallRule, Class: "user.firewall",
		Event: wire.Records("FIREWALL.CLOSE", "revoking firewall rule", "FirewallRule", "id"),
	},

	{Name: "listPortForwardingRules", ID: store.RefPFRule, Run: listPortForwardingRules},
	{
		Name:   "createPortForwardingRule",
		Submit: createPortForwardingRule,
		Class:  "user.firewall",
		Lock:   wire.LockIP("ipaddressid"),
		Order:  "ipaddressid privateport protocol privateendport publicport publicendport virtualmachineid",
		Event:  wire.Records("NET.RULEADD", "creating forwarding rule", "FirewallRule", ""),
	},
	{
		Name: "updatePortForwardingRule", Submit: updatePortForwardingRule, Class: "user.firewall",
		Event: wire.Records("NET.RULEMODIFY", "updating forwarding rule", "FirewallRule", "id"),
	},
	{
		Name: "deletePortForwardingRule", Submit: deletePortForwardingRule, Class: "user.firewall",
		Event: wire.Records("NET.RULEDELETE", "revoking forwarding rule", "FirewallRule", "id"),
	},
	{
		Name:  "enableStaticNat",
		Write: true,
		Run:   enableStaticNAT,
		Event: wire.Records("STATICNAT.ENABLE", "enabling static nat", "IpAddress", "ipaddressid"),
	},
}
