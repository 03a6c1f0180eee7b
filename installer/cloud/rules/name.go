// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules attributes the load balancer rules of CloudStack to Services by their names, whichever provider gave them, and
// moves them to the names that csccm uses, in place: the rule keeps its id, members and traffic.
package rules

import (
	"regexp"
	"strconv"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Family says which provider named a rule.
type Family string

// Families of rule names.
const (
	FamilyLegacy   Family = "legacy"   // LB-PORT, without a protocol: the in-tree provider and its heirs
	FamilyUpstream Family = "upstream" // LB-PROTOCOL-PORT, as csccm names them
	FamilyLeaseweb Family = "leaseweb" // K8s_svc_CLUSTER_NAMESPACE_NAME-PROTOCOL-PORT
	FamilyForeign  Family = "foreign"  // not named by a provider for Kubernetes
)

// Name is a rule's name, taken apart.
type Name struct {
	Family Family
	// LB is the load balancer's name, "a" and 31 hex digits of the Service's UID; empty for
	// FamilyLeaseweb and FamilyForeign.
	LB       string
	Protocol string // empty for FamilyLegacy and FamilyForeign
	Port     int
	// Cluster, Namespace and Service are set for FamilyLeaseweb only.
	Cluster, Namespace, Service string
}

var leasewebName = regexp.MustCompile(`^K8s_svc_(.+)_([a-z0-9-]+)_([a-z0-9.-]+?)-(tcp-proxy|tcp|udp|ssl)-([1-9][0-9]{0,4})$`)

// maxPort is the largest port number.
const maxPort = 65535

// ParseName takes a rule's name apart. What fits no provider's form is FamilyForeign.
func ParseName(s string) Name {
	if lb, protocol, port, legacy, ok := plan.ParseRuleName(s); ok {
		family := FamilyUpstream
		if legacy {
			family = FamilyLegacy
		}
		return Name{Family: family, LB: lb, Protocol: protocol, Port: port}
	}
	if m := leasewebName.FindStringSubmatch(s); m != nil {
		if port, err := strconv.Atoi(m[5]); err == nil && port <= maxPort {
			return Name{Family: FamilyLeaseweb, Cluster: m[1], Namespace: m[2], Service: m[3], Protocol: m[4], Port: port}
		}
	}
	return Name{Family: FamilyForeign}
}
