// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"maps"
	"slices"
)

// needed are the commands of the CloudStack API without which the controller cannot work.
var needed = []string{
	"listVirtualMachines", "listNetworks", "listPublicIpAddresses", "associateIpAddress", "disassociateIpAddress",
	"listLoadBalancerRules", "createLoadBalancerRule", "updateLoadBalancerRule", "deleteLoadBalancerRule",
	"assignToLoadBalancerRule", "removeFromLoadBalancerRule", "listLoadBalancerRuleInstances", "listFirewallRules",
	"createFirewallRule", "deleteFirewallRule", "queryAsyncJobResult",
}

const withoutForwards = "ports cannot be forwarded: no UDP through a virtual router, no mode direct"

// Losses maps each optional command to what the controller cannot do without it.
var Losses = map[string]string{
	"listZones":        "the zone of the cloud-config is not checked at start",
	"listProjects":     "project-id in the cloud-config must be an id, not a name",
	"listCapabilities": "rate-limit = auto learns of API throttling when a call is refused",
	"listNetworkACLs":  "network ACL lists of VPC tiers are left alone",
	"createNetworkACL": "network ACL lists of VPC tiers must be left alone (--manage-network-acls=false)",
	"deleteNetworkACL": "network ACL lists of VPC tiers must be left alone (--manage-network-acls=false)",
	"listPortForwardingRules": "port forwardings do not keep an address from being released, and ports cannot " +
		"be forwarded",
	"createPortForwardingRule": withoutForwards,
	"updatePortForwardingRule": withoutForwards,
	"deletePortForwardingRule": withoutForwards,
	"listLoadBalancers":        "there are no internal load balancers",
	"createLoadBalancer":       "there are no internal load balancers",
	"deleteLoadBalancer":       "there are no internal load balancers",
	"listLBStickinessPolicies": "there are no stickiness policies",
	"createLBStickinessPolicy": "there are no stickiness policies",
	"deleteLBStickinessPolicy": "there are no stickiness policies",
	"listSslCerts":             "TLS cannot be terminated at the router",
	"assignCertToLoadBalancer": "TLS cannot be terminated at the router",
	"createTags":               "names and the Service's annotations alone prove ownership",
	"listTags":                 "the tags of deleted rules stay in CloudStack",
	"deleteTags":               "names and the Service's annotations alone prove ownership",
	"listApis": "whether the role may forward ports shows only when a port is forwarded, and rules " +
		"are changed as on CloudStack before 4.22",
	"listAsyncJobs": "each job is polled on its own",
}

var (
	// OptionalCommands are the names of the commands that the controller can do without.
	OptionalCommands = slices.Sorted(maps.Keys(Losses))
	// RequiredCommands are the names of all commands that the controller may call, which are those of the minimal role.
	// The default User role allows every one of them.
	RequiredCommands = slices.Sorted(slices.Values(slices.Concat(needed, OptionalCommands)))
)
