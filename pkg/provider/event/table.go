// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package event holds the table of the controller's Events, and writes Events on Services and Nodes.
package event

import "github.com/csccm/csccm/pkg/loadbalancer/plan"

//go:generate go test . -run Docs -update-docs

// Reasons of Events besides those of package loadbalancer.
const (
	AmbiguousNode       plan.Reason = "AmbiguousNode"
	IgnoredSetting      plan.Reason = "IgnoredSetting"
	DryRun              plan.Reason = "DryRun"
	Orphan              plan.Reason = "OrphanedInCloudStack"
	NodeWithoutVM       plan.Reason = "NodeWithoutVM"
	AmbiguousVM         plan.Reason = "AmbiguousVM"
	InvalidProviderID   plan.Reason = "InvalidProviderID"
	NodeDeletionRefused plan.Reason = "NodeDeletionRefused"
	NodeIPNotOnVM       plan.Reason = "NodeIPNotOnVM"
	InvalidAnnotation   plan.Reason = "InvalidAnnotation"
	NodeAdopted         plan.Reason = "NodeAdopted"
	NodeNotAdopted      plan.Reason = "NodeNotAdopted"
)

// Row documents one reason of Events. A Service that is refused has the reason in its condition, too.
type Row struct {
	Reason  plan.Reason
	Warning bool
	When    string
	Remedy  string
}

const noRemedy = "none needed"

// OnServices are the reasons of Events on Services.
var OnServices = []Row{
	{plan.ReasonAddressAllocated, false, "an address was acquired for the Service", noRemedy},
	{plan.ReasonAddressReleased, false, "the address was released with the Service, or because another is used now", noRemedy},
	{plan.ReasonAddressKept, false, "the address stays in the account; the message says why", "release it by hand if nobody needs it"},
	{plan.ReasonAddressLost, true, "somebody else released the address; a new one is acquired", "update DNS records that name the old address"},
	{plan.ReasonAddressLimit, true, "the account may not acquire more addresses", "raise the limit, or share an address: [address](annotations.md#address)"},
	{plan.ReasonNoFreeAddress, true, "CloudStack has no free address", "add addresses to the zone, or share one: [address](annotations.md#address)"},
	{plan.ReasonAddressUnavailable, true, "the requested address cannot be used", "request a free address, or one of the nodes' network"},
	{plan.ReasonPortTaken, true, "a rule of somebody else uses a port of the address", "`csccm migrate-rules --dry-run` names the owner"},
	{plan.ReasonInvalidAnnotation, true, "an annotation does not parse; nothing was changed", "correct it: the message names the allowed values"},
	{plan.ReasonNotAllowed, true, "the operator's policy (chart value `tenancy`) does not allow what the Service asks for", "ask the operator"},
	{plan.ReasonUnsupportedProto, true, "a port's protocol is not supported", "use TCP"},
	{plan.ReasonMixedProtocols, true, "one port is used with two protocols", "use two ports, or two Services"},
	{plan.ReasonInvalidPort, true, "a port is out of range, or there is none", "correct the ports"},
	{plan.ReasonReservedPort, true, "the virtual router uses the port itself", "use another port"},
	{plan.ReasonNoNodePort, true, "a port has no node port", "allow node ports: `allocateLoadBalancerNodePorts: true`"},
	{plan.ReasonNoNodes, true, "no node is eligible, so the network is not known", "see [A Service stays pending](#a-service-stays-pending)"},
	{plan.ReasonSeveralNetworks, true, "the nodes are in several networks", "name one: [network](annotations.md#network)"},
	{plan.ReasonUnsupportedNetwork, true, "the nodes' network has no load balancer", "[CS-005](checks.md#cs-005)"},
	{plan.ReasonNoBackends, true, "no node serves the Service", "the message says which nodes were left out, and why"},
	{plan.ReasonRuleReplaced, false, "a rule was deleted and recreated, with a brief interruption", noRemedy},
	{plan.ReasonDriftRepaired, true, "somebody else changed the load balancer in CloudStack; the change was reverted", "find out who changes the rules"},
	{plan.ReasonForeignFirewall, true, "a firewall rule of somebody else allows more sources than the Service", "remove that rule"},
	{plan.ReasonTaggingForbidden, true, "the role may not tag; names and annotations prove ownership", "allow `createTags` to the role"},
	{plan.ReasonTaggingFailed, true, "tags could not be set in two syncs in a row; the Service is served, and each drift round tries again", "none needed if CloudStack is busy; else see the message"},
	{NodeWithoutVM, true, "nodes have no VM and do not serve", "[nodes.md](nodes.md#finding-the-vm)"},
	{AmbiguousNode, true, "nodes match several VMs and do not serve", "[nodes.md](nodes.md#finding-the-vm)"},
	{plan.ReasonBriefInterruption, false, "a change needed new connections to be refused for a moment", noRemedy},
	{plan.ReasonDefaultACL, true, "the network ACL list of the VPC tier cannot be changed", "see [network ACL](#the-network-acl-lets-nobody-in-or-cannot-be-changed)"},
	{plan.ReasonSourceRanges, true, "the source ranges cannot be enforced; the Service is not served", "see [network ACL](#the-network-acl-lets-nobody-in-or-cannot-be-changed)"},
	{plan.ReasonRangesNotServed, true, "CloudStack cannot restrict the sources, so all sources are denied", "see [network ACL](#the-network-acl-lets-nobody-in-or-cannot-be-changed)"},
	{plan.ReasonNoSuchNetwork, true, "the network that the Service names is not one of the nodes'", "correct [network](annotations.md#network)"},
	{plan.ReasonProjectChanged, true, "a Service with an address cannot move to another project", "delete and recreate the Service"},
	{plan.ReasonNoSuchProject, true, "the project that the Service names does not exist, or the controller's user is no member of it", "correct [project](annotations.md#project), or add the user to the project"},
	{plan.ReasonNoSuchCertificate, true, "the certificate that the Service names does not exist for the controller's account or the project", "correct [ssl-certificate](annotations.md#ssl-certificate), or upload the certificate"},
	{plan.ReasonNodeOutside, true, "nodes have no NIC in the Service's network and do not serve", "add a NIC to the VM, or correct [network](annotations.md#network)"},
	{plan.ReasonUnverifiedRule, true, "a rule has a name of the Service, but there is no proof that the Service owns it; it is left unchanged", "`csccm adopt`, or delete the rule"},
	{plan.ReasonUnverifiedRecord, true, "records in the annotations of the Service are not signed by this controller; they are ignored", "none needed where tags prove ownership; else `csccm adopt`"},
	{DryRun, false, "the policy dry-run prevents a change", "`--load-balancer-policy=apply`"},
	{Orphan, true, "an object in CloudStack was created for a Service that does not exist any more", "delete it, or set `loadBalancers.cleanOrphans`"},
	{IgnoredSetting, true, "a setting of the Service has no effect", "remove it: the message says why"},
}

// OnNodes are the reasons of Events on Nodes.
var OnNodes = []Row{
	{NodeWithoutVM, true, "no VM has the provider ID or one of the names; the message says where the controller looked and what it saw. On a Ready node whose VM is gone it comes once, within 5 minutes", "give the VM the node's host name, or correct `project-id` or `zone`"},
	{AmbiguousVM, true, "several VMs have the name, or several Nodes would get one VM (`web.a` and `web.b`)", "rename, set `zone`, or start the kubelet with `--provider-id`"},
	{InvalidProviderID, true, "the provider ID has CloudStack's scheme, or none, and no ID of a VM", "recreate the Node with the right ID"},
	{NodeIPNotOnVM, true, "the kubelet's `--node-ip` is on no NIC of the VM; Kubernetes then takes over no address and says so nowhere else", "correct `--node-ip`, the NICs or the lists below"},
	{InvalidAnnotation, true, "an annotation of the Node cannot be parsed; it is ignored", "correct it"},
	{NodeAdopted, false, "the node joined without the taint of external cloud providers; the controller set it (chart value `adoptNodes`), and initialises the node", noRemedy},
	{NodeNotAdopted, true, "the node joined without that taint, and a gate of [`csccm taint`](migrate.md) does not hold: its addresses or labels would change, or its VM does not run", "the message says which; then the node is adopted within 5 minutes"},
	{NodeDeletionRefused, true, "too many Nodes have lost their VMs at once, see below", "check the credentials and the project"},
}
