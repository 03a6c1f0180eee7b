// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Reasons of Events on Services that are found out here; the others come from
// the load balancer (see ServiceEvents).
const (
	ReasonAmbiguousNode  plan.Reason = "AmbiguousNode"
	ReasonIgnoredSetting plan.Reason = "IgnoredSetting"
	ReasonDryRun         plan.Reason = "DryRun"
	ReasonOrphan         plan.Reason = "OrphanedInCloudStack"
	reasonNodeWithoutVM  plan.Reason = "NodeWithoutVM"
)

// ServiceEvent documents one reason of Events on Services.
type ServiceEvent struct {
	Reason  plan.Reason
	Warning bool
	Means   string
}

// ServiceEvents are all reasons of the controller's own Events on Services.
var ServiceEvents = []ServiceEvent{
	{plan.ReasonAddressAllocated, false, "an address was acquired for the Service"},
	{plan.ReasonAddressReleased, false, "the address was released with the Service, or because another is used now"},
	{plan.ReasonAddressKept, false, "the address stays in the account, and why"},
	{plan.ReasonAddressLost, true, "the address was released by somebody else; a new one is acquired"},
	{plan.ReasonAddressLimit, true, "the account may not acquire more addresses"},
	{plan.ReasonNoFreeAddress, true, "CloudStack has no free address"},
	{plan.ReasonAddressUnavailable, true, "the requested address cannot be used"},
	{plan.ReasonPortTaken, true, "a port of the address is taken by somebody else's rule"},
	{plan.ReasonInvalidAnnotation, true, "an annotation does not parse; nothing was changed"},
	{plan.ReasonNotAllowed, true, "the operator's policy (chart value `tenancy`) does not allow what the Service asks for"},
	{plan.ReasonUnsupportedProto, true, "a port's protocol is not supported"},
	{plan.ReasonMixedProtocols, true, "one port is wanted for two protocols"},
	{plan.ReasonInvalidPort, true, "a port is out of range, or there is none"},
	{plan.ReasonReservedPort, true, "a port is taken by the virtual router"},
	{plan.ReasonNoNodePort, true, "a port has no node port"},
	{plan.ReasonNoNodes, true, "no node is eligible, so that the network is not known"},
	{plan.ReasonSeveralNetworks, true, "the nodes are in several networks"},
	{plan.ReasonUnsupportedNetwork, true, "the nodes' network cannot balance load"},
	{plan.ReasonNoBackends, true, "no node serves the Service"},
	{plan.ReasonRuleReplaced, false, "a rule had to be deleted and recreated, with a brief interruption"},
	{plan.ReasonDriftRepaired, true, "others changed the load balancer in CloudStack; it is put right"},
	{plan.ReasonForeignFirewall, true, "a firewall rule of others lets more in than the Service says"},
	{plan.ReasonTaggingForbidden, true, "the role may not tag; names and annotations prove ownership"},
	{plan.ReasonTaggingFailed, true, "tags could not be set in two syncs in a row; the Service is served, and each drift round tries again"},
	{reasonNodeWithoutVM, true, "nodes have no VM and do not serve"},
	{ReasonAmbiguousNode, true, "nodes cannot be told from other VMs and do not serve"},
	{plan.ReasonBriefInterruption, false, "a change needed new connections to be refused for a moment"},
	{plan.ReasonDefaultACL, true, "the network ACL list of the VPC tier cannot be changed"},
	{plan.ReasonSourceRanges, true, "the source ranges cannot be enforced; the Service is not served"},
	{plan.ReasonRangesNotServed, true, "CloudStack cannot restrict the sources; nobody is let in"},
	{plan.ReasonNoSuchNetwork, true, "the network that the Service names is not one of the nodes'"},
	{plan.ReasonProjectChanged, true, "a Service with an address cannot move to another project"},
	{plan.ReasonNoSuchProject, true, "the project that the Service names does not exist, or the controller's user is no member of it"},
	{plan.ReasonNoSuchCertificate, true, "the certificate that the Service names does not exist for the controller's account or the project"},
	{plan.ReasonNodeOutside, true, "nodes have no NIC in the Service's network and do not serve"},
	{plan.ReasonUnverifiedRule, true, "a rule is named like one of the Service, but nothing else says so"},
	{plan.ReasonUnverifiedRecord, true, "records in the annotations of the Service are not signed by this controller; they are ignored"},
	{ReasonDryRun, false, "the policy dry-run keeps a change from being made"},
	{ReasonOrphan, true, "something in CloudStack was made for a Service that is gone"},
	{ReasonIgnoredSetting, true, "a setting of the Service has no effect"},
}

// serviceEvents writes Events on one Service.
type serviceEvents struct {
	recorder record.EventRecorder
	service  *corev1.Service
}

func (e serviceEvents) notice(n plan.Notice) {
	if e.recorder == nil {
		return // what is read again was reported already
	}
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	e.recorder.Event(e.service, kind, string(n.Reason), n.Message)
}

func (e serviceEvents) warn(reason plan.Reason, message string) {
	e.notice(plan.Notice{Warning: true, Reason: reason, Message: message})
}
