// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import "github.com/csccm/csccm/pkg/loadbalancer/plan"

// OnServices are the reasons of Events on Services: addresses, refusals, then what is noticed while working.
var OnServices = []Row{
	{
		Reason: plan.ReasonAddressAllocated, When: "an address was acquired for the Service",
		Means: "The address is tagged with the Service and costs what CloudStack charges for one. It is released with the Service.", Remedy: noRemedy,
	},
	{
		Reason: plan.ReasonAddressReleased, When: "the address was released with the Service, or because another is used now",
		Means: "Others may get the address.", Remedy: "none needed; an address that must survive its Service needs [keep-ip](annotations.md#keep-ip) beforehand",
	},
	{
		Reason: plan.ReasonAddressKept, When: "the address stays in the account; the message says why",
		Means:  "The controller releases an address only with a proof that it acquired the address for this Service, and while nobody else has something on it.",
		See:    []string{"csccm doctor --only LB-003"},
		Remedy: "release it in CloudStack if nobody needs it",
	},
	{
		Reason: plan.ReasonAddressLost, Warning: true, When: "somebody else released the address; a new one is acquired",
		Means:  "Clients that know the old address reach nobody, or somebody else.",
		See:    []string{"kubectl get service -n NAMESPACE NAME"},
		Remedy: "update DNS records that name the old address; CloudStack's events name who released it",
	},
	{
		Reason: plan.ReasonAddressLimit, Warning: true, When: "the account may not acquire more addresses",
		Means:  "The Service stays without an address. It is tried again after 2 minutes, then each 8 to 10 minutes, and at once when this controller releases an address.",
		See:    []string{PlanService},
		Remedy: "raise the account's or project's limit of public addresses, delete a Service, or share an address: [address](annotations.md#address)",
	},
	{
		Reason: plan.ReasonNoFreeAddress, Warning: true, When: "CloudStack has no free address",
		Means:  "The Service stays without an address. It is tried again after 2 minutes, then each 8 to 10 minutes.",
		See:    []string{PlanService},
		Remedy: "add addresses to the zone's public range, or share one: [address](annotations.md#address)",
	},
	{
		Reason: plan.ReasonAddressUnavailable, Warning: true, Condition: true, When: "the requested address cannot be used", Means: nothingChanged,
		Remedy: "request an address that is free, or one of the nodes' network: [address](annotations.md#address)",
	},
	{
		Reason: plan.ReasonPortTaken, Warning: true, Condition: true, When: "a rule of somebody else uses a port of the address",
		Means:  "The named port is not served; a load balancer rule or port forwarding that is not of this Service has it.",
		See:    []string{"csccm migrate-rules --dry-run"},
		Remedy: "choose another port or address, or delete the rule in CloudStack; `csccm migrate-rules --dry-run` names its owner, and `csccm migrate-rules` takes over one with an old name of this Service",
	},
	{
		Reason: plan.ReasonInvalidAnnotation, Warning: true, Condition: true, When: "an annotation does not parse; nothing was changed", Means: nothingChanged,
		Remedy: "correct the annotation: the message names the allowed values ([annotations](annotations.md))",
	},
	{
		Reason: plan.ReasonNotAllowed, Warning: true, Condition: true,
		When:   "the operator's policy (chart value `tenancy`) does not allow what the Service asks for",
		Means:  nothingChanged + " With `keep-ip` and too many kept addresses, the address is released with its Service.",
		See:    []string{"helm -n kube-system get values cloudstack-ccm"},
		Remedy: "ask the operator, who adds the namespace to the rule that the message names ([a Service is not allowed](troubleshooting.md#a-service-is-not-allowed)), or remove the annotation",
	},
	{
		Reason: plan.ReasonUnsupportedProto, Warning: true, Condition: true, When: "a port's protocol is not supported", Means: nothingChanged + " A virtual router balances TCP over IPv4 only; UDP is forwarded to a node in [mode](annotations.md#mode) auto or direct.",
		Remedy: "use TCP, set the mode to auto where the network's router forwards ports, or expose the port by a Service of type NodePort",
	},
	{
		Reason: plan.ReasonMixedProtocols, Warning: true, Condition: true, When: "one port is used with two protocols",
		Means: nothingChanged + " CloudStack gives a port of an address to one load balancer rule.", Remedy: "use two ports, or two Services, or the [mode](annotations.md#mode) auto where the network's router forwards ports",
	},
	{
		Reason: plan.ReasonInvalidPort, Warning: true, Condition: true, When: "a port is out of range, or there is none", Means: nothingChanged,
		Remedy: "give the Service at least one port, from 1 to 65535",
	},
	{
		Reason: plan.ReasonReservedPort, Warning: true, Condition: true, When: "the virtual router uses the port itself",
		Means:  nothingChanged + " [Reserved ports](loadbalancers.md#reserved-ports) says which.",
		Remedy: "use another `port`; the Pods may keep theirs (`targetPort`)",
	},
	{
		Reason: plan.ReasonNoNodePort, Warning: true, Condition: true, When: "a port has no node port",
		Means: nothingChanged + " The router reaches Pods through node ports only.", Remedy: "allow node ports: `allocateLoadBalancerNodePorts: true`",
	},
	{
		Reason: plan.ReasonNoNodes, Warning: true, Condition: true, When: "no node is eligible, so the network is not known",
		Means:  "The Service gets no address before the cluster has a node that may serve: not about to be deleted, and without the label `node.kubernetes.io/exclude-from-external-load-balancers`.",
		See:    []string{"csccm doctor --only NODE", "kubectl get nodes -L node.kubernetes.io/exclude-from-external-load-balancers"},
		Remedy: "add a node, or remove the label from one; a node that waits for its initialisation: [a node stays uninitialized](troubleshooting.md#a-node-stays-uninitialized). The Service follows by itself",
	},
	{
		Reason: plan.ReasonSeveralNetworks, Warning: true, Condition: true, When: "the nodes are in several networks",
		Means:  nothingChanged + " A load balancer rule has members of one network.",
		See:    []string{"csccm doctor --only CS-005"},
		Remedy: "name one network: [network](annotations.md#network), or give every node a NIC in one network",
	},
	{
		Reason: plan.ReasonUnsupportedNetwork, Warning: true, Condition: true, When: "the nodes' network cannot give the Service what it asks for; the message says what",
		Means:  nothingChanged,
		See:    []string{"csccm doctor --only CS-005"},
		Remedy: "choose another network ([CS-005](checks.md#cs-005) lists those of the nodes), or remove the annotation that the message names",
	},
	{
		Reason: plan.ReasonUnsupportedMode, Warning: true, Condition: true, When: "a port is to be forwarded, and asks for what only a load balancer does, or the role may not forward ports",
		Means:  nothingChanged + " [Modes](loadbalancers.md#modes) says what each can do.",
		Remedy: "choose another [mode](annotations.md#mode), or remove the annotation that the message names; allow the role the command that it names",
	},
	{
		Reason: plan.ReasonUnsupportedSetting, Warning: true, Condition: true, When: "the annotation `idle-timeout` or `keep-alive` is set, and the server's load balancer rules have no such parameter",
		Means:  nothingChanged + " No release of CloudStack has these parameters yet ([idle connections](loadbalancers.md#idle-connections-end-after-50-seconds)).",
		Remedy: "remove the annotation that the message names; [what helps in the application](loadbalancers.md#idle-connections-end-after-50-seconds)",
	},
	{
		Reason: plan.ReasonNodesUnfit, Warning: true, Condition: true, When: "no node can serve the forwarded ports; they stay where they are",
		Means:  "Clients of forwarded ports may reach nobody until a node is ready again. Ports of load balancer rules are not concerned.",
		See:    []string{"kubectl get nodes", "kubectl get endpointslices -A"},
		Remedy: "make a node Ready; with `externalTrafficPolicy: Local`, one with a ready Pod",
	},
	{
		Reason: plan.ReasonPortMoved, When: "forwarded ports were moved to another node; the message says why",
		Means: "New clients reach the other node. TCP connections to the old one go on while it lives; a UDP client that never pauses stays with it ([when a node is lost](loadbalancers.md#when-a-node-is-lost)).", Remedy: noRemedy,
	},
	{
		Reason: plan.ReasonNoBackends, Warning: true, Condition: true, When: "no node serves the Service",
		Means:  "The rules have no members and clients are refused; or, where no node has a VM at all, the load balancer stays as it is. The message says which.",
		See:    []string{"kubectl get endpointslices -n NAMESPACE -l kubernetes.io/service-name=NAME", "csccm doctor --only NODE-002,NODE-009"},
		Remedy: "remove what the message names: no ready Pod with `externalTrafficPolicy: Local`, a [node-selector](annotations.md#node-selector) or [zone](annotations.md#zone) without nodes, nodes without VM",
	},
	{
		Reason: plan.ReasonRuleReplaced, When: "a rule was deleted and recreated, with a brief interruption",
		Means: "New connections were refused for about a second, as [changes without a gap](loadbalancers.md#changes-without-a-gap) says.", Remedy: noRemedy,
	},
	{
		Reason: plan.ReasonDriftRepaired, Warning: true, When: "somebody else changed the load balancer in CloudStack; the change was reverted",
		Means:  "Between the change and its repair, 5 minutes at most by default, clients were not served as the Service says. Again and again means that two writers work on one rule.",
		See:    []string{"csccm doctor --only CCM-002,CCM-003"},
		Remedy: "find out who changes the rules: CloudStack's events name the user; another controller is named by [CCM-003](checks.md#ccm-003)",
	},
	{
		Reason: plan.ReasonForeignFirewall, Warning: true, When: "a firewall rule of somebody else allows more sources than the Service",
		Means: "The Service answers to clients outside of its source ranges.", Remedy: "delete the firewall rule that the message names, in CloudStack, if it is not meant",
	},
	{
		Reason: plan.ReasonTaggingForbidden, Warning: true, When: "the role may not tag; names and annotations prove ownership",
		Means:  "Services are served. Orphans are not found, and an address without a signed record stays when its Service goes.",
		See:    []string{"csccm doctor --only CS-003"},
		Remedy: "allow `createTags` to the role",
	},
	{
		Reason: plan.ReasonTaggingFailed, Warning: true, When: "tags could not be set in two syncs in a row; the Service is served, and each drift round tries again",
		Means: "Until the tags are set, the Service's annotations prove what is its own.", Remedy: "none needed if CloudStack is busy; else see the message",
	},
	{
		Reason: NodeWithoutVM, Warning: true, When: "nodes have no VM and do not serve",
		Means:  "The other nodes serve. The message names the first of those without a VM.",
		See:    []string{"csccm doctor --only NODE-002,NODE-003"},
		Remedy: "find the VM of each named node: [finding the VM](nodes.md#finding-the-vm)",
	},
	{
		Reason: AmbiguousNode, Warning: true, When: "nodes match several VMs and do not serve", Means: "The other nodes serve.",
		See:    []string{"csccm doctor --only NODE-002"},
		Remedy: "rename one of the VMs, or set `zone` in the cloud-config: [finding the VM](nodes.md#finding-the-vm)",
	},
	{
		Reason: plan.ReasonBriefInterruption, When: "a change needed new connections to be refused for a moment",
		Means: "CloudStack takes two overlapping rules for a conflict, so one was deleted before the other was created. Connections that were open went on.", Remedy: noRemedy,
	},
	{
		Reason: plan.ReasonDefaultACL, Warning: true, Condition: true, When: "the network ACL list of the VPC tier cannot be changed, or cannot be read",
		Means:  "With `default_deny` clients may not get through; an internal load balancer serves nobody of other tiers.",
		See:    []string{PlanService},
		Remedy: "give the tier an ACL list of its own: [network ACL](troubleshooting.md#the-network-acl-lets-nobody-in-or-cannot-be-changed)",
	},
	{
		Reason: plan.ReasonSourceRanges, Warning: true, Condition: true, When: "the source ranges cannot be enforced; the Service is not served",
		Means:  "An internal load balancer has no filter but the tier's network ACL list, and that one cannot be changed.",
		Remedy: "give the tier an ACL list of its own, or remove the ranges: [network ACL](troubleshooting.md#the-network-acl-lets-nobody-in-or-cannot-be-changed)",
	},
	{
		Reason: plan.ReasonRangesNotServed, Warning: true, When: "CloudStack cannot restrict the sources, so all sources are denied",
		Means:  "The rules have no members: nobody is served rather than everybody. CloudStack before 4.18 in a VPC.",
		See:    []string{"csccm doctor --only CS-001 -v"},
		Remedy: "upgrade CloudStack, or remove the ranges: [network ACL](troubleshooting.md#the-network-acl-lets-nobody-in-or-cannot-be-changed)",
	},
	{
		Reason: plan.ReasonNoSuchNetwork, Warning: true, Condition: true, When: "the network that the Service names is not one of the nodes'", Means: nothingChanged,
		See: []string{"csccm doctor --only CS-005"}, Remedy: "correct [network](annotations.md#network): the message lists the nodes' networks",
	},
	{
		Reason: plan.ReasonProjectChanged, Warning: true, Condition: true, When: "a Service with an address cannot move to another project",
		Means: nothingChanged, Remedy: "set the annotation [project](annotations.md#project) back, or delete and recreate the Service, which gets another address",
	},
	{
		Reason: plan.ReasonNoSuchProject, Warning: true, Condition: true,
		When:   "the project that the Service names does not exist, or the controller's user is no member of it",
		Means:  nothingChanged,
		See:    []string{"csccm doctor --only CS-004"},
		Remedy: "correct [project](annotations.md#project), or add the user to the project",
	},
	{
		Reason: plan.ReasonNoSuchCertificate, Warning: true, Condition: true,
		When:   "the certificate that the Service names does not exist for the controller's account or the project",
		Means:  "The port with TLS is not served until there is a certificate.",
		Remedy: "correct [ssl-certificate](annotations.md#ssl-certificate), or upload the certificate to the account or project",
	},
	{
		Reason: plan.ReasonNodeOutside, Warning: true, When: "nodes have no NIC in the Service's network and do not serve", Means: "The other nodes serve.",
		See: []string{"csccm doctor --only CS-005"}, Remedy: "add a NIC to the VM, or correct [network](annotations.md#network)",
	},
	{
		Reason: plan.ReasonUnverifiedRule, Warning: true, When: "a rule has a name of the Service, but there is no proof that the Service owns it; it is left unchanged",
		Means:  "A port of the Service that this rule has is not served by the Service.",
		See:    []string{"csccm adopt --dry-run", "csccm doctor --only LB-002,LB-004"},
		Remedy: "`csccm adopt NAMESPACE/NAME` tags the address as the Service's, which proves the rule; or delete the rule in CloudStack",
	},
	{
		Reason: plan.ReasonUnverifiedRecord, Warning: true, When: "records in the annotations of the Service are not signed by this controller; they are ignored",
		Means:  "Somebody wrote the annotation, or the CloudStack keys were changed while no controller ran. What tags prove is not affected.",
		See:    []string{"csccm adopt --dry-run"},
		Remedy: "none needed where tags prove ownership; else `csccm adopt`",
	},
	{
		Reason: DryRun, When: "the policy dry-run prevents a change", Means: "The message lists what the controller would do. Nothing is changed in CloudStack.",
		See: []string{PlanService}, Remedy: "set the chart value `loadBalancers.policy` to `apply` (`--load-balancer-policy=apply`)",
	},
	{
		Reason: Orphan, Warning: true, When: "an object in CloudStack was created for a Service that does not exist any more",
		Means:  "It holds an address or a port and may cost money. Nobody is served by it.",
		See:    []string{"csccm doctor --only LB-003"},
		Remedy: "delete it in CloudStack, or set the chart value `loadBalancers.cleanOrphans`; a cluster whose id is `kubernetes` needs a name of its own first ([what is left behind](loadbalancers.md#what-is-left-behind))",
	},
	{
		Reason: IgnoredSetting, Warning: true, When: "a setting of the Service has no effect", Means: "The Service is served as if it did not have the setting.",
		Remedy: "remove the setting: the message says why",
	},
}
