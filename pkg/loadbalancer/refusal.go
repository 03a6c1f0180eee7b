// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

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
)

// Reasons of notices while working.
const (
	ReasonAllocatedAddress Reason = "AllocatedAddress"
	ReasonAddressReleased  Reason = "AddressReleased"
	ReasonAddressKept      Reason = "AddressKept"
	ReasonAddressLost      Reason = "AddressLost"
	ReasonAddressLimit     Reason = "AddressLimit"
	ReasonNoFreeAddress    Reason = "NoFreeAddress"
	ReasonTagsRefused      Reason = "TagsRefused"
	ReasonDriftRepaired    Reason = "DriftRepaired"
	ReasonForeignFirewall  Reason = "ForeignFirewallRule"
	ReasonRuleReplaced     Reason = "RuleReplaced"
	ReasonNoBackends       Reason = "NoBackends"
)

// RefusalError is why a Service cannot be served as it stands.
type RefusalError struct {
	Reason  Reason
	Message string // what is wrong
	Remedy  string // what would be right
}

func (r *RefusalError) Error() string {
	if r.Remedy == "" {
		return r.Message
	}
	return r.Message + "; " + r.Remedy
}

// Notice is something worth an Event.
type Notice struct {
	Warning bool
	Reason  Reason
	Message string
}
