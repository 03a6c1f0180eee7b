// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotation knows the annotations of Services of type LoadBalancer:
// one table of what there is, and one function that reads a Service into a
// typed Spec. It is pure: no clients, no clock.
//
// docs/annotations.md is generated from the table.
package annotation

//go:generate go run ./internal/gendocs -output ../../docs/annotations.md

// Prefix is the prefix of all annotations of this provider. It is the one of
// apache/cloudstack-kubernetes-provider, so that a swap needs no edit.
const Prefix = "service.beta.kubernetes.io/cloudstack-load-balancer-"

// Annotations that users set.
const (
	ProxyProtocol = Prefix + "proxy-protocol"
	Hostname      = Prefix + "hostname"
	SourceCIDRs   = Prefix + "source-cidrs"
	Address       = Prefix + "address"
	KeepIP        = Prefix + "keep-ip"
	Algorithm     = Prefix + "algorithm"

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

// Impact says what a change of an annotation does to a running load balancer.
type Impact string

// Impacts, from harmless to harmful.
const (
	ImpactNone       Impact = "none"
	ImpactShortGap   Impact = "short gap"
	ImpactNewAddress Impact = "new address"
)

// Writer says who sets an annotation.
type Writer string

// Writers.
const (
	ByUser       Writer = "user"
	ByController Writer = "controller"
	ByOthers     Writer = "other providers"
)

// Definition describes one annotation: a row of the table.
type Definition struct {
	Name    string
	Aliases []string // other names for the same, also spec fields
	Writer  Writer
	Type    string // what a value looks like, for a reader
	Allowed string // allowed values, as an error message names them
	Default string
	Since   string // first release with it
	Impact  Impact // of a change on a live Service
	Doc     string
	Example string
}

// Table is every annotation the provider knows, sorted by name within its writer.
func Table() []Definition {
	return []Definition{
		{
			Name: Address, Aliases: []string{"spec.loadBalancerIP"}, Writer: ByUser,
			Type: "IPv4 address", Allowed: "one IPv4 address", Default: "a new address of the network",
			Since: "v0.1.0", Impact: ImpactNewAddress, Example: "203.0.113.20",
			Doc: "The public address to use. A free one is acquired; one that the account already holds in the nodes' network is used " +
				"as it stands. Refused when it belongs to another account or network, carries static NAT, or when a port of the Service " +
				"is taken there. An address that the controller did not acquire is never released by it.",
		},
		{
			Name: Algorithm, Writer: ByUser,
			Type: "word", Allowed: "roundrobin, leastconn, source",
			Default: "`roundrobin`, or `source` with spec.sessionAffinity ClientIP",
			Since:   "v0.1.0", Impact: ImpactNone, Example: "leastconn",
			Doc: "How connections are spread over the nodes. spec.sessionAffinity ClientIP needs `source` and refuses the others.",
		},
		{
			Name: Hostname, Writer: ByUser,
			Type: "DNS name", Allowed: "a DNS name in lower case", Default: "none",
			Since: "v0.1.0", Impact: ImpactNone, Example: "lb.example.org",
			Doc: "Published as the Service's ingress hostname in place of the address, so that traffic from inside the cluster " +
				"takes the way through the load balancer too.",
		},
		{
			Name: KeepIP, Writer: ByUser,
			Type: "boolean", Allowed: booleans, Default: "`false`",
			Since: "v0.1.0", Impact: ImpactNone, Example: "true",
			Doc: "Keeps the address when the Service goes, although the controller acquired it. Its rules are removed.",
		},
		{
			Name: ProxyProtocol, Writer: ByUser,
			Type: "boolean", Allowed: booleans, Default: "`false`",
			Since: "v0.1.0", Impact: ImpactNone, Example: "true",
			Doc: "Sends the PROXY protocol (version 1) to the nodes on every port. Rules are switched in place. The backends must expect " +
				"it at the same time.",
		},
		{
			Name: SourceCIDRs, Aliases: []string{"spec.loadBalancerSourceRanges", SourceRangesBeta}, Writer: ByUser,
			Type: "list of CIDRs, comma separated", Allowed: "CIDRs like 10.0.0.0/8, comma separated; an empty value denies all",
			Default: "`0.0.0.0/0`",
			Since:   "v0.1.0", Impact: ImpactShortGap, Example: "10.0.0.0/8,192.168.0.0/16",
			Doc: "Who may connect. One list governs the rules and the firewall alike. An **empty** value denies everybody. " +
				"When several of the annotation, Kubernetes' own annotation and the spec field are set, only sources that are in all of them are let in. " +
				"IPv6 ranges have no effect: public addresses are IPv4.",
		},
		{
			Name: Addresses, Writer: ByController,
			Type: "JSON", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
			Example: `[{"id":"…","ip":"203.0.113.20","network":"…","allocated":true,"tagged":true}]`,
			Doc: "The addresses that the Service uses and whether the controller acquired them. Do not edit: it is the proof by which " +
				"an address is released or kept.",
		},
		{
			Name: Allocation, Writer: ByController,
			Type: "JSON", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
			Example: `[{"job":"…","network":"…","since":"2026-11-21T12:00:00Z"}]`,
			Doc: "Acquisitions of an address whose outcome is not known yet; written before the call, so that a crash loses nothing. " +
				"Do not edit.",
		},
		{
			Name: LeasewebID, Writer: ByOthers, Type: "UUID", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
			Doc: "Leaseweb's record of the address. Known, not used.",
		},
		{
			Name: AssociatedByController, Writer: ByOthers, Type: "boolean", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
			Doc: "Record of apache/cloudstack-kubernetes-provider v1.2 that it acquired the address. At takeover it counts as proof that " +
				"the address may be released with the Service.",
		},
		{
			Name: LeasewebNetworkID, Writer: ByOthers, Type: "UUID", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
			Doc: "Leaseweb's record of the network. Known, not used.",
		},
	}
}

// allowed is the text of the table for an error message.
func allowed(name string) string {
	for _, d := range Table() {
		if d.Name == name {
			return d.Allowed
		}
	}
	return ""
}
