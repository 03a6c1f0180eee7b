// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy decides what the Services of a namespace may ask of CloudStack. A cluster's operator writes one
// Policy: the chart's value tenancy. The API server enforces it by a ValidatingAdmissionPolicy that the chart renders
// from the same value, and the controller enforces it again. The package is pure: no clients, no clock.
package tenancy

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Everybody matches every namespace in a list of Namespaces.
const Everybody = "*"

// Rules for what no annotation of the Service shows: they are about the address that CloudStack has.
const (
	// SourceNATAddress is the rule for the source NAT address of an isolated network.
	SourceNATAddress = "sourceNATAddress"
	// ForeignAddress is the rule for an address that the account holds but this cluster did not acquire.
	ForeignAddress = "foreignAddress"
)

// Policy is what an operator allows. The zero Policy allows everything.
type Policy struct {
	// TrustedNamespaces are exempt from every rule and limit.
	TrustedNamespaces []Namespaces `json:"trustedNamespaces,omitempty"`
	// Annotations are rules for annotations of Services. A key is the annotation's name without annotation.Prefix.
	Annotations      map[string]Rule `json:"annotations,omitempty"`
	SourceNATAddress Rule            `json:"sourceNATAddress,omitzero"`
	ForeignAddress   Rule            `json:"foreignAddress,omitzero"`
	Limits           Limits          `json:"limits,omitzero"`
}

// Rule says who may use something, and with which values. The zero Rule allows every namespace every value.
type Rule struct {
	// Allow are the namespaces that may use it. Empty means all namespaces, or none with Deny.
	Allow []Namespaces `json:"allow,omitempty"`
	// Values are the only values allowed. Empty means any value.
	Values []string `json:"values,omitempty"`
	// Deny refuses it to all namespaces that Allow does not name.
	Deny bool `json:"deny,omitempty"`
}

// Limits are numbers that a namespace or a Service may not exceed.
type Limits struct {
	// MaxAddressesPerNamespace is the number of public addresses that the Services of a namespace may hold; 0 means no limit.
	MaxAddressesPerNamespace int `json:"maxAddressesPerNamespace,omitempty"`
	// MaxPortsPerService is the number of ports of a Service; 0 means no limit.
	MaxPortsPerService int         `json:"maxPortsPerService,omitempty"`
	KeepIP             KeepIPLimit `json:"keepIP,omitzero"`
}

// KeepIPLimit limits the addresses that stay allocated because of the annotation keep-ip.
type KeepIPLimit struct {
	// MaxPerNamespace counts the addresses of a namespace; nil means no limit, 0 means none.
	MaxPerNamespace *int `json:"maxPerNamespace,omitempty"`
}

// Namespaces matches namespaces: by name, all of them ("*"), or by label selector.
// In JSON it is a string or a label selector.
type Namespaces struct {
	Name     string
	Selector *metav1.LabelSelector

	compiled labels.Selector
}

// Named returns the Namespaces that match one name, or all for "*".
func Named(name string) Namespaces { return Namespaces{Name: name} }

// Namespace is who asks.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// Default returns the policy of a cluster whose operator wrote none. The chart's default values are the same.
func Default() Policy {
	kept := 2
	return Policy{
		TrustedNamespaces: []Namespaces{Named(metav1.NamespaceSystem)},
		Annotations: map[string]Rule{
			"network":         {Deny: true},
			"project":         {Deny: true},
			"zone":            {Deny: true},
			"ssl-certificate": {Deny: true},
		},
		SourceNATAddress: Rule{Deny: true},
		ForeignAddress:   Rule{Deny: true},
		Limits:           Limits{MaxPortsPerService: 100, KeepIP: KeepIPLimit{MaxPerNamespace: &kept}},
	}
}

// Trusts reports whether a namespace is exempt from every rule and limit.
func (p Policy) Trusts(ns Namespace) bool { return anyMatches(p.TrustedNamespaces, ns) }

// NeedsLabels reports whether a decision may depend on the labels of the namespace.
func (p Policy) NeedsLabels() bool {
	selects := func(list []Namespaces) bool {
		return slices.ContainsFunc(list, func(n Namespaces) bool { return n.Selector != nil })
	}
	if selects(p.TrustedNamespaces) || selects(p.SourceNATAddress.Allow) || selects(p.ForeignAddress.Allow) {
		return true
	}
	for _, r := range p.Annotations {
		if selects(r.Allow) {
			return true
		}
	}
	return false
}

// restricted reports whether the rule refuses namespaces that it does not name.
func (r Rule) restricted() bool { return r.Deny || len(r.Allow) > 0 }

func anyMatches(list []Namespaces, ns Namespace) bool {
	return slices.ContainsFunc(list, func(n Namespaces) bool { return n.Matches(ns) })
}

// Matches reports whether the namespace is one of them. A selector that is not valid matches nothing.
func (n Namespaces) Matches(ns Namespace) bool {
	if n.Selector == nil {
		return n.Name == Everybody || n.Name != "" && n.Name == ns.Name
	}
	selector := n.compiled
	if selector == nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(n.Selector); err != nil {
			return false
		}
	}
	return selector.Matches(labels.Set(ns.Labels))
}
