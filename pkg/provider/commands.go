// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import "slices"

// Command is a command of the CloudStack API that the controller may call.
type Command struct {
	Name string
	// Optional commands are made up for when the role refuses them; Without says how.
	Optional bool
	Without  string
}

const withoutForwards = "ports cannot be forwarded: no UDP through a virtual router, no mode direct"

// Commands are all commands that the controller may call. Every one is allowed to the default User role.
var Commands = []Command{
	// nodes
	{Name: "listVirtualMachines"},
	{Name: "listZones", Optional: true, Without: "the zone of the cloud-config is not checked at start"},
	{Name: "listProjects", Optional: true, Without: "project-id in the cloud-config must be an id, not a name"},

	{Name: "listCapabilities", Optional: true, Without: "rate-limit = auto learns of API throttling when a call is refused"},

	// load balancers
	{Name: "listNetworks"},
	{Name: "listPublicIpAddresses"},
	{Name: "associateIpAddress"},
	{Name: "disassociateIpAddress"},
	{Name: "listLoadBalancerRules"},
	{Name: "createLoadBalancerRule"},
	{Name: "updateLoadBalancerRule"},
	{Name: "deleteLoadBalancerRule"},
	{Name: "assignToLoadBalancerRule"},
	{Name: "removeFromLoadBalancerRule"},
	{Name: "listLoadBalancerRuleInstances"},
	{Name: "listFirewallRules"},
	{Name: "createFirewallRule"},
	{Name: "deleteFirewallRule"},
	{Name: "listNetworkACLs", Optional: true, Without: "network ACL lists of VPC tiers are left alone"},
	{Name: "createNetworkACL", Optional: true, Without: "network ACL lists of VPC tiers must be left alone (--manage-network-acls=false)"},
	{Name: "deleteNetworkACL", Optional: true, Without: "network ACL lists of VPC tiers must be left alone (--manage-network-acls=false)"},
	{Name: "listPortForwardingRules", Optional: true, Without: "port forwardings do not keep an address from being released, and ports cannot be forwarded"},
	{Name: "createPortForwardingRule", Optional: true, Without: withoutForwards},
	{Name: "updatePortForwardingRule", Optional: true, Without: withoutForwards},
	{Name: "deletePortForwardingRule", Optional: true, Without: withoutForwards},
	{Name: "listLoadBalancers", Optional: true, Without: "there are no internal load balancers"},
	{Name: "createLoadBalancer", Optional: true, Without: "there are no internal load balancers"},
	{Name: "deleteLoadBalancer", Optional: true, Without: "there are no internal load balancers"},
	{Name: "listLBStickinessPolicies", Optional: true, Without: "there are no stickiness policies"},
	{Name: "createLBStickinessPolicy", Optional: true, Without: "there are no stickiness policies"},
	{Name: "deleteLBStickinessPolicy", Optional: true, Without: "there are no stickiness policies"},
	{Name: "listSslCerts", Optional: true, Without: "TLS cannot be ended at the router"},
	{Name: "assignCertToLoadBalancer", Optional: true, Without: "TLS cannot be ended at the router"},
	{Name: "createTags", Optional: true, Without: "names and the Service's annotations alone prove ownership"},
	{Name: "listTags", Optional: true, Without: "the tags of deleted rules stay in CloudStack"},
	{Name: "deleteTags", Optional: true, Without: "names and the Service's annotations alone prove ownership"},

	{Name: "listApis", Optional: true, Without: "whether the role may forward ports shows only when a port is forwarded; the annotations idle-timeout and keep-alive are refused"},

	// jobs
	{Name: "queryAsyncJobResult"},
	{Name: "listAsyncJobs", Optional: true, Without: "each job is polled on its own"},
}

// RequiredCommands are the names of Commands: what the minimal role allows.
var RequiredCommands = names(func(Command) bool { return true })

// OptionalCommands are the names of those that the controller can do without.
var OptionalCommands = names(func(c Command) bool { return c.Optional })

// Losses are what the controller cannot do without the commands that are optional, by their names.
var Losses = func() map[string]string {
	out := map[string]string{}
	for _, c := range Commands {
		if c.Optional {
			out[c.Name] = c.Without
		}
	}
	return out
}()

func names(want func(Command) bool) []string {
	var out []string
	for _, c := range Commands {
		if want(c) {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}
