// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// Reason is a short CamelCase word for an Event.
type Reason string

// Reasons why a Service is refused before anything is written.
const (
	ReasonInvalidAnnotation  Reason = "InvalidAnnotation"
	ReasonUnsupportedProto   Reason = "UnsupportedProtocol"
	ReasonMixedProtocols     Reason = "MixedProtocols"
	ReasonInvalidPort        Reason = "InvalidPort"
	ReasonReservedPort       Reason = "ReservedPort"
	ReasonNoNodePort         Reason = "NoNodePort"
	ReasonNoNodes            Reason = "NoNodes"
	ReasonSeveralNetworks    Reason = "NodesInSeveralNetworks"
	ReasonUnsupportedNetwork Reason = "UnsupportedNetwork"
	ReasonAddressUnavailable Reason = "AddressUnavailable"
	ReasonPortTaken          Reason = "PortTaken"
	ReasonSourceRanges       Reason = "SourceRangesNotEnforceable"
	ReasonNoSuchNetwork      Reason = "NoSuchNetwork"
	ReasonProjectChanged     Reason = "ProjectChanged"
	ReasonNoSuchProject      Reason = "NoSuchProject"
	ReasonNoSuchCertificate  Reason = "NoSuchCertificate"
	ReasonNotAllowed         Reason = "NotAllowed"
	ReasonUnsupportedMode    Reason = "UnsupportedMode"
	ReasonOtherClusterID     Reason = "OtherClusterID"
)

// Reasons of notices while working.
const (
	ReasonAddressAllocated  Reason = "AddressAllocated"
	ReasonAddressReleased   Reason = "AddressReleased"
	ReasonAddressKept       Reason = "AddressKept"
	ReasonAddressLost       Reason = "AddressLost"
	ReasonAddressLimit      Reason = "AddressLimit"
	ReasonNoFreeAddress     Reason = "NoFreeAddress"
	ReasonTaggingForbidden  Reason = "TaggingForbidden"
	ReasonTaggingFailed     Reason = "TaggingFailed"
	ReasonDriftRepaired     Reason = "DriftRepaired"
	ReasonForeignFirewall   Reason = "ForeignFirewallRule"
	ReasonRuleReplaced      Reason = "RuleReplaced"
	ReasonRuleReapplied     Reason = "RuleReapplied"
	ReasonNoBackends        Reason = "NoBackends"
	ReasonDefaultACL        Reason = "DefaultNetworkACL"
	ReasonBriefInterruption Reason = "BriefInterruption"
	ReasonNodeOutside       Reason = "NodeOutsideNetwork"
	ReasonUnverifiedRule    Reason = "UnverifiedRule"
	ReasonRangesNotServed   Reason = "SourceRangesNotServed"
	ReasonPortMoved         Reason = "PortMoved"
	ReasonNodesUnfit        Reason = "NoNodeFit"
)

// RefusalError is why a Service cannot be served as it stands.
type RefusalError struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`          // what is wrong
	Remedy  string `json:"remedy,omitempty"` // what would be right
	Port    int    `json:"port,omitempty"`   // the port that is the reason; 0 when none is in particular
}

func (r *RefusalError) Error() string {
	if r.Remedy == "" {
		return r.Message
	}
	return r.Message + "; " + r.Remedy
}

// Refuse returns a refusal.
func Refuse(reason Reason, message, remedy string) *RefusalError {
	return &RefusalError{Reason: reason, Message: message, Remedy: remedy}
}

// Notice is something worth an Event.
type Notice struct {
	Warning bool   `json:"warning,omitempty"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// EventRow documents one Reason. Links in its texts start at the folder docs.
type EventRow struct {
	Reason  Reason
	Warning bool
	// Condition is set if the condition of the Service has the reason, too: the Service is refused, or no node serves it.
	Condition bool
	When      string
	// Means describes the consequences for clients, Pods and CloudStack.
	Means string
	// See are command lines besides those that list each Event of the kind.
	See    []string
	Remedy string
}

// WaitError asks for another try later: nothing failed, but something is not known yet.
type WaitError struct {
	Message string
	After   time.Duration
}

func (e *WaitError) Error() string { return e.Message }
