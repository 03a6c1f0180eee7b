// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotation defines the annotations of Services of type LoadBalancer: a table that describes them, and a
// function that reads a Service into a typed Spec. It is pure: no clients, no clock.
//
// docs/annotations.md and two of the chart's ValidatingAdmissionPolicies are generated
// from the table.
package annotation

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

//go:generate go test . -run FilesAreFresh -update

// Prefix is the prefix of all annotations of this provider. It is the one of apache/cloudstack-kubernetes-provider, so
// that Services need no change when csccm replaces it.
const Prefix = "service.beta.kubernetes.io/cloudstack-load-balancer-"

// Annotations that users set.
const (
	ProxyProtocol     = Prefix + "proxy-protocol"
	Hostname          = Prefix + "hostname"
	SourceCIDRs       = Prefix + "source-cidrs"
	Address           = Prefix + "address"
	KeepIP            = Prefix + "keep-ip"
	Algorithm         = Prefix + "algorithm"
	Mode              = Prefix + "mode"
	DirectSpread      = Prefix + "direct-spread"
	Internal          = Prefix + "internal"
	Network           = Prefix + "network"
	Project           = Prefix + "project"
	Zone              = Prefix + "zone"
	NodeSelector      = Prefix + "node-selector"
	SSLCertificate    = Prefix + "ssl-certificate"
	SSLPorts          = Prefix + "ssl-ports"
	StickinessMethod  = Prefix + "stickiness"
	StickinessOptions = Prefix + "stickiness-options"
	ShareWith         = Prefix + "share-with"

	// SourceRangesBeta is Kubernetes' own annotation for source ranges, older
	// than spec.loadBalancerSourceRanges.
	SourceRangesBeta = "service.beta.kubernetes.io/load-balancer-source-ranges"
)

// Annotations that the controller writes.
const (
	Addresses  = Prefix + "addresses"
	Allocation = Prefix + "allocation"
)

// Annotations that other providers wrote; read at takeover, never written.
const (
	// AssociatedByController is how apache/cloudstack-kubernetes-provider v1.2
	// records that it acquired the address itself.
	AssociatedByController = Prefix + "ip-associated-by-controller"
	// LeasewebID and LeasewebNetworkID are Leaseweb's records of address and network.
	LeasewebID        = Prefix + "id"
	LeasewebNetworkID = Prefix + "network-id"
)

// Impact is what a change of an annotation does to a running load balancer.
type Impact string

// Impacts, from harmless to harmful.
const (
	ImpactNone              Impact = "none"
	ImpactBriefInterruption Impact = "brief interruption"
	ImpactNewAddress        Impact = "new address"
)

// Writer is who sets an annotation.
type Writer int

// Writers. ByOthers are other providers.
const (
	ByUser Writer = iota
	ByController
	ByOthers
)

// Definition describes one annotation: a row of the table.
type Definition struct {
	Name    string
	Aliases []string // other names for the same, also spec fields
	Writer  Writer
	Type    string // description of the values, for docs
	Allowed string // allowed values, as an error message names them
	Default string
	Impact  Impact // of a change on a live Service
	Doc     string
	Example string
	// CEL is the part of the check that the API server can make: an expression
	// over the string "v", written for the chart's ValidatingAdmissionPolicy.
	// Never stricter than Parse. Empty: not checked there.
	CEL string
	// CELField is the expression for a spec field among the aliases, if it differs from CEL.
	CELField string
	// Needs is another annotation that must be set together with this one.
	Needs string
	// Excludes is a value of this annotation that cannot be combined with other annotations.
	Excludes *Exclusion
}

// Exclusion is a value, in lower case, and the annotations that are refused together with it. Each annotation has a CEL
// expression over v for its values that are still allowed; an empty expression allows none.
type Exclusion struct {
	Value string
	Names map[string]string
}

// requestOf returns what the user of a Service asks for: our annotations, and the spec without fields that have no
// effect here and may be large.
func requestOf(svc *corev1.Service) *corev1.Service {
	asked := &corev1.Service{Spec: svc.Spec}
	asked.Spec.Selector, asked.Spec.ExternalIPs = nil, nil
	asked.Annotations = map[string]string{}
	for name, value := range svc.Annotations {
		if !WrittenByController(name) && (strings.HasPrefix(name, Prefix) || name == SourceRangesBeta) {
			asked.Annotations[name] = value
		}
	}
	asked.DeletionTimestamp = svc.DeletionTimestamp
	return asked
}

// Fingerprint returns a hash of what the user of a Service asks for. Whether the records are unreadable is part of it,
// because then somebody other than the controller has written them.
func Fingerprint(svc *corev1.Service) string {
	_, unreadable := ParseRecords(svc.Annotations)
	sum := sha256.Sum256([]byte(listJSON([]any{requestOf(svc), unreadable != nil})))
	return hex.EncodeToString(sum[:])
}
