// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/csccm/csccm/pkg/loadbalancer"
)

// Reasons of Events on Services that are found out here; the others come from
// the load balancer (see ServiceEvents).
const (
	ReasonAmbiguousNode  loadbalancer.Reason = "AmbiguousNode"
	ReasonIgnoredSetting loadbalancer.Reason = "IgnoredSetting"
	ReasonDryRun         loadbalancer.Reason = "DryRun"
	ReasonOrphan         loadbalancer.Reason = "OrphanedInCloudStack"
	reasonNodeWithoutVM  loadbalancer.Reason = "NodeWithoutVM"
)

// ServiceEvent documents one reason of Events on Services.
type ServiceEvent struct {
	Reason  loadbalancer.Reason
	Warning bool
	Means   string
}

// ServiceEvents are all reasons of the controller's own Events on Services.
var ServiceEvents = []ServiceEvent{
	{loadbalancer.ReasonAddressAllocated, false, "an address was acquired for the Service"},
	{loadbalancer.ReasonAddressReleased, false, "the address was released with the Service, or because another is used now"},
	{loadbalancer.ReasonAddressKept, false, "the address stays in the account, and why"},
	{loadbalancer.ReasonAddressLost, true, "the address was released by somebody else; a new one is acquired"},
	{loadbalancer.ReasonAddressLimit, true, "the account may not acquire more addresses"},
	{loadbalancer.ReasonNoFreeAddress, true, "CloudStack has no free address"},
	{loadbalancer.ReasonAddressUnavailable, true, "the requested address cannot be used"},
	{loadbalancer.ReasonPortTaken, true, "a port of the address is taken by somebody else's rule"},
	{loadbalancer.ReasonInvalidAnnotation, true, "an annotation does not parse; nothing was changed"},
	{loadbalancer.ReasonNotAllowed, true, "the operator's policy (chart value `tenancy`) does not allow what the Service asks for"},
	{loadbalancer.ReasonUnsupportedProto, true, "a port's protocol is not supported"},
	{loadbalancer.ReasonMixedProtocols, true, "one port is wanted for two protocols"},
	{loadbalancer.ReasonInvalidPort, true, "a port is out of range, or there is none"},
	{loadbalancer.ReasonReservedPort, true, "a port is taken by the virtual router"},
	{loadbalancer.ReasonNoNodePort, true, "a port has no node port"},
	{loadbalancer.ReasonNoNodes, true, "no node is eligible, so that the network is not known"},
	{loadbalancer.ReasonSeveralNetworks, true, "the nodes are in several networks"},
	{loadbalancer.ReasonUnsupportedNetwork, true, "the nodes' network cannot balance load"},
	{loadbalancer.ReasonNoBackends, true, "no node serves the Service"},
	{loadbalancer.ReasonRuleReplaced, false, "a rule had to be deleted and recreated, with a brief interruption"},
	{loadbalancer.ReasonDriftRepaired, true, "others changed the load balancer in CloudStack; it is put right"},
	{loadbalancer.ReasonForeignFirewall, true, "a firewall rule of others lets more in than the Service says"},
	{loadbalancer.ReasonTaggingForbidden, true, "the role may not tag; names and annotations prove ownership"},
	{loadbalancer.ReasonTaggingFailed, true, "tags could not be set in two syncs in a row; the Service is served, and each drift round tries again"},
	{reasonNodeWithoutVM, true, "nodes have no VM and do not serve"},
	{ReasonAmbiguousNode, true, "nodes cannot be told from other VMs and do not serve"},
	{loadbalancer.ReasonBriefInterruption, false, "a change needed new connections to be refused for a moment"},
	{loadbalancer.ReasonDefaultACL, true, "the network ACL list of the VPC tier cannot be changed"},
	{loadbalancer.ReasonSourceRanges, true, "the source ranges cannot be enforced; the Service is not served"},
	{loadbalancer.ReasonRangesNotServed, true, "CloudStack cannot restrict the sources; nobody is let in"},
	{loadbalancer.ReasonNoSuchNetwork, true, "the network that the Service names is not one of the nodes'"},
	{loadbalancer.ReasonProjectChanged, true, "a Service with an address cannot move to another project"},
	{loadbalancer.ReasonNoSuchProject, true, "the project that the Service names does not exist, or the controller's user is no member of it"},
	{loadbalancer.ReasonNoSuchCertificate, true, "the certificate that the Service names does not exist for the controller's account or the project"},
	{loadbalancer.ReasonNodeOutside, true, "nodes have no NIC in the Service's network and do not serve"},
	{loadbalancer.ReasonUnverifiedRule, true, "a rule is named like one of the Service, but nothing else says so"},
	{loadbalancer.ReasonUnverifiedRecord, true, "records in the annotations of the Service are not signed by this controller; they are ignored"},
	{ReasonDryRun, false, "the policy dry-run keeps a change from being made"},
	{ReasonOrphan, true, "something in CloudStack was made for a Service that is gone"},
	{ReasonIgnoredSetting, true, "a setting of the Service has no effect"},
}

// serviceEvents writes Events on one Service.
type serviceEvents struct {
	recorder record.EventRecorder
	service  *corev1.Service
}

func (e serviceEvents) notice(n loadbalancer.Notice) {
	if e.recorder == nil {
		return // what is read again was reported already
	}
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	e.recorder.Event(e.service, kind, string(n.Reason), n.Message)
}

func (e serviceEvents) warn(reason loadbalancer.Reason, message string) {
	e.notice(loadbalancer.Notice{Warning: true, Reason: reason, Message: message})
}
