// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a Service needs in CloudStack and how to get there. It is pure: values in, values out.
//
//	Desire   Service, Spec, network, members -> Desired or a RefusalError
//	Plan     Desired, Actual -> the address that serves, and the steps
//	Fits     Desired, that address -> a RefusalError where it cannot serve
package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

// Service is what the planner needs to know of a Service's identity and ports.
type Service struct {
	UID, Namespace, Name string
	// LB is the load balancer's name, the prefix of its rules' names.
	LB    string
	Ports []Port
	// StatusIPs are the addresses in the Service's status.
	StatusIPs []string
	// Seen is set when this controller has worked on the Service before, by the Service's status.
	Seen bool
	// IPv6Only is set when the Service has no IPv4 address.
	IPv6Only bool
}

// Key is namespace/name.
func (s Service) Key() string { return s.Namespace + "/" + s.Name }

// HasPort reports whether the Service has a port with that node port; an empty protocol is any.
func (s Service) HasPort(protocol string, public, private int) bool {
	return slices.ContainsFunc(s.Ports, func(p Port) bool {
		return p.Port == public &&
			p.NodePort == private &&
			(protocol == "" || strings.EqualFold(cmp.Or(p.Protocol, "TCP"), protocol))
	})
}

// Port is one port of a Service.
type Port struct {
	Name     string
	Protocol string // TCP, UDP, SCTP
	Port     int
	NodePort int
}

// Member is a Node's VM with its NICs.
type Member struct {
	Node, VMID string
	NICs       []NIC // the default one first
	// Addresses are the Node's own internal addresses, if it has said them.
	Addresses []string
}

// NIC connects a Member to a guest network.
type NIC struct {
	NetworkID, NetworkName string
	IP                     string
	Secondary              []string
}

// Network is what the planner needs to know of the members' network.
type Network struct {
	ID, Name, VPCID string
	// Type is Isolated, Shared or L2.
	Type string
	// LoadBalancer, Firewall and DNS report whether the network offers the service.
	LoadBalancer, Firewall, DNS bool
	// Providers serve Lb; VirtualRouter is HAProxy with its restrictions.
	Providers []string
	// Unfiltered means that nothing is known to hold source ranges of a public load balancer: neither HAProxy, nor a
	// firewall of the provider that balances.
	Unfiltered bool
	// Forwards reports whether a virtual router forwards ports of public addresses.
	Forwards bool
	// Public and Internal are the schemes that Lb offers; Protocols what its provider says it takes; TLS whether
	// it ends TLS.
	Public, Internal, TLS bool
	Protocols             []string
	// CIDR has the network's IPv4 addresses; empty where CloudStack does not say.
	CIDR string
	// ACLID and ACLName are the network ACL list of a VPC tier.
	ACLID, ACLName string
	// Conserve reports whether an address may serve several purposes.
	Conserve bool

	anywhere bool // stands for all networks: see CheckService
}

// IsVirtualRouter reports whether a provider is a virtual router.
func IsVirtualRouter(provider string) bool {
	return provider == virtualRouter || provider == vpcVirtualRouter
}

// proxied reports whether HAProxy on the virtual router is what balances.
func (n *Network) proxied() bool {
	return len(n.Providers) == 0 || slices.ContainsFunc(n.Providers, IsVirtualRouter)
}

// ownACL reports whether the tier's ACL list can be changed: the two default lists cannot.
func (n *Network) ownACL() bool {
	return n.ACLID != "" && n.ACLName != defaultAllow && n.ACLName != defaultDeny
}

// Desired is what should be in CloudStack for one Service.
type Desired struct {
	// Absent asks for nothing: the plan towards it deletes.
	Absent    bool   `json:"absent,omitempty"`
	NetworkID string `json:"networkID,omitempty"`
	// VPCID is set when the network is a tier of a VPC.
	VPCID string `json:"vpcID,omitempty"`
	// Internal asks for an address of the tier in place of a public one.
	Internal bool `json:"internal,omitempty"`
	// Address is the requested public address; empty for any.
	Address string `json:"address,omitempty"`
	// KeepAddress keeps an acquired address that is no longer needed.
	KeepAddress bool     `json:"keepAddress,omitempty"`
	Rules       []Rule   `json:"rules,omitempty"`   // sorted by port
	Ranges      []string `json:"ranges,omitempty"`  // source ranges of firewall and ACL; empty: closed
	Members     []string `json:"members,omitempty"` // see MemberName; sorted
	// Firewall reports whether the network has a firewall, which then is kept to Ranges.
	Firewall bool `json:"firewall,omitempty"`
	// ACLID is the network ACL list that is kept to Ranges; empty for none.
	ACLID string `json:"aclID,omitempty"`
	// CIDRsDecide is set where the network has no firewall: the rules' own source ranges are the only filter of public
	// traffic.
	CIDRsDecide bool `json:"cidrsDecide,omitempty"`

	// OnePurpose means that an address has either rules or port forwardings.
	OnePurpose bool `json:"onePurpose,omitempty"`
	// Forwards are the ports that are led to one node each, past the load balancer; sorted.
	Forwards []ForwardPort `json:"forwards,omitempty"`
	// Serving are the Members to which they may be led; UID makes Services choose different ones.
	Serving []string `json:"serving,omitempty"`
	UID     string   `json:"uid,omitempty"`
	// Buckets is into how many parts the sources are split; 0 where forwards cannot tell sources apart.
	Buckets int `json:"buckets,omitempty"`
}

// Ports are the public ports, sorted.
func (d Desired) Ports() []int {
	var ports []int
	for _, some := range d.Opened() {
		ports = append(ports, some...)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Opened are the public ports by transport protocol.
func (d Desired) Opened() annotation.PortSet { return d.ports(d.Rules, ForwardPort.public) }

// Forwarded are those of them that are forwarded.
func (d Desired) Forwarded() annotation.PortSet { return d.ports(nil, ForwardPort.public) }

// Targets are the node ports that they are forwarded to.
func (d Desired) Targets() annotation.PortSet { return d.ports(nil, ForwardPort.private) }

// aclPorts are the ports that the tier's network ACL list has to let in. What is forwarded passes it with the node
// port. A public load balancer needs none: the router itself connects to the nodes.
func (d Desired) aclPorts() annotation.PortSet {
	rules := d.Rules
	if !d.Internal {
		rules = nil
	}
	return d.ports(rules, ForwardPort.private)
}

func (d Desired) ports(rules []Rule, port func(ForwardPort) int) annotation.PortSet {
	out := annotation.PortSet{}
	for _, r := range rules {
		p := transport(r.Protocol)
		out[p] = append(out[p], r.PublicPort)
	}
	for _, f := range d.Forwards {
		out[f.Protocol] = append(out[f.Protocol], port(f))
	}
	return out.Union(nil)
}

// HasStickiness reports whether a rule asks for a stickiness policy.
func (d Desired) HasStickiness() bool {
	return slices.ContainsFunc(d.Rules, func(r Rule) bool { return r.Stickiness != nil })
}

// Rule is a load balancer rule: one public port.
type Rule struct {
	Name        string `json:"name"`
	Protocol    string `json:"protocol"`
	Algorithm   string `json:"algorithm"`
	PublicPort  int    `json:"publicPort"`
	PrivatePort int    `json:"privatePort"`
	// CIDRs are the rule's own source ranges; nil when the rule does not filter.
	CIDRs []string `json:"cidrs,omitempty"`
	// Stickiness is nil for none.
	Stickiness *annotation.Stickiness `json:"stickiness,omitempty"`
	// Certificate is the id of the certificate of a rule of protocol ssl.
	Certificate string `json:"certificate,omitempty"`
}

// transport is what the firewall calls a rule's protocol.
func transport(protocol string) string {
	if protocol == ProtocolUDP {
		return ProtocolUDP
	}
	return ProtocolTCP
}

// Providers of Lb that are HAProxy on a virtual router.
const (
	virtualRouter    = "VirtualRouter"
	vpcVirtualRouter = "VpcVirtualRouter"
)

// The default network ACL lists, which nobody can change.
const (
	defaultAllow = "default_allow"
	defaultDeny  = "default_deny"
)

// Protocols of CloudStack's load balancer rules.
const (
	ProtocolTCP      = "tcp"
	ProtocolUDP      = "udp"
	ProtocolTCPProxy = "tcp-proxy" // TCP with a PROXY protocol header towards the backends
	ProtocolSSL      = "ssl"
)

// Facts are what Desire decides from.
type Facts struct {
	Service Service
	Spec    annotation.Spec
	// Members serve; Reach are all nodes that may serve, if Members are only those that do now. Leaving are nodes that
	// are about to be deleted, and to which ports may still be forwarded: they decide nothing about the network.
	Members, Reach, Leaving []Member
	// Ineligible are names of nodes to which no port may be forwarded now, with the reason, such as "not ready". They
	// stay members of load balancer rules.
	Ineligible map[string]string
	// Network is the nodes' network; nil when there are no nodes and it is not known.
	Network *Network
	// LeaveACLs leaves network ACL lists alone.
	LeaveACLs bool
	// NoForwards is a command for port forwarding that the role may not call; empty for none.
	NoForwards string
}

// Nodes are all nodes that are known.
func (f Facts) Nodes() []Member { return slices.Concat(f.Members, f.Reach, f.Leaving) }

// Subject is the Service that is worked on. Observing, planning and applying have it in common.
type Subject struct {
	Facts
	Desired Desired
	// Actual is what was last read and since written; nil when that is not known.
	Actual *Actual
	// Records are those of the Service; they change with the work.
	Records annotation.Records
	Book    Book
	// Project is the one to work in; OwnProject the same if the Service names it, as records have it.
	Project, OwnProject string
	// Clusters are the ids of this cluster in tags, the current one first.
	Clusters []string
	// Notices are what became worth an Event.
	Notices []Notice
	// Lacks reports whether the role is known not to allow a command in the project.
	Lacks func(command string) bool
}

// Notify adds a notice.
func (s *Subject) Notify(n Notice) { s.Notices = append(s.Notices, n) }

// Abilities of the server besides commands, as package cloudstack remembers them.
const (
	AbilityInPlace = "updateLoadBalancerRule cidrlist" // see Limits
	AbilityCIDRs   = "source ranges of rules"          // a rule with some was read: the server does not ignore them
)

// Limits are what the server or the role does not do.
type Limits struct {
	// NoTags: the role may not tag.
	NoTags bool
	// InPlace: updateLoadBalancerRule has cidrlist (4.22 and newer). Such a server also tells the router of a changed
	// protocol.
	InPlace bool
}
