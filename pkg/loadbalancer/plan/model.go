// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a Service needs in CloudStack and which steps create it. It makes no calls and keeps no
// state: its results depend only on its arguments.
//
//	Desire   Service, Spec, network, members -> Desired or a RefusalError
//	Plan     Desired, Actual -> the steps, and the address to serve from
//	Fits     Desired, that address -> a RefusalError if the address cannot be used
package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

// Service is the identity and the ports of a Kubernetes Service, as far as the planner needs them.
type Service struct {
	UID, Namespace, Name string
	// LB is the name of the load balancer. The names of its rules begin with it.
	LB    string
	Ports []Port
	// StatusIPs are the addresses in the Service's status.
	StatusIPs []string
	// Seen reports whether the Service's status shows that this controller has worked on it before.
	Seen bool
	// IPv6Only reports whether the Service has no IPv4 address.
	IPv6Only bool
}

// Key returns namespace/name.
func (s Service) Key() string { return s.Namespace + "/" + s.Name }

// HasPort reports whether the Service has a port with these numbers: public is the port, private the node port. An
// empty protocol matches any.
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

// Member is the VM of a Node, with its NICs.
type Member struct {
	Node, VMID string
	NICs       []NIC // the default NIC first
	// Addresses are the internal addresses in the Node's status, if there are any.
	Addresses []string
}

// NIC connects the VM of a Member to a guest network.
type NIC struct {
	NetworkID, NetworkName string
	IP                     string
	Secondary              []string
}

// Network is the guest network of the members, as far as the planner needs it.
type Network struct {
	ID, Name, VPCID string
	// Type is Isolated, Shared or L2.
	Type string
	// LoadBalancer, Firewall and DNS report whether the network offers that service.
	LoadBalancer, Firewall, DNS bool
	// Providers are the providers of the service Lb. A virtual router balances with HAProxy, which has restrictions.
	Providers []string
	// Unfiltered means that the source ranges of a public load balancer may not be enforced: the load balancer is not
	// HAProxy, and its provider has no firewall in this network.
	Unfiltered bool
	// Forwards reports whether a virtual router forwards ports of public addresses.
	Forwards bool
	// Public and Internal report which schemes the service Lb offers. Protocols are those that its provider says it
	// supports. TLS reports whether it can terminate TLS.
	Public, Internal, TLS bool
	Protocols             []string
	// CIDR is the IPv4 range of the network; empty if CloudStack does not report it.
	CIDR string
	// ACLID and ACLName identify the network ACL list of a VPC tier.
	ACLID, ACLName string
	// Conserve reports whether the offering is in conserve mode: one address may have both load balancer rules and port
	// forwardings.
	Conserve bool

	anywhere bool // placeholder for any network, see CheckService
}

// IsVirtualRouter reports whether a provider is a virtual router.
func IsVirtualRouter(provider string) bool {
	return provider == virtualRouter || provider == vpcVirtualRouter
}

// proxied reports whether HAProxy on a virtual router does the balancing.
func (n *Network) proxied() bool {
	return len(n.Providers) == 0 || slices.ContainsFunc(n.Providers, IsVirtualRouter)
}

// ownACL reports whether the tier has a network ACL list that can be changed. The two default lists cannot.
func (n *Network) ownACL() bool {
	return n.ACLID != "" && n.ACLName != defaultAllow && n.ACLName != defaultDeny
}

// Desired is what should be in CloudStack for one Service.
type Desired struct {
	// Absent means that nothing of the Service should remain in CloudStack.
	Absent    bool   `json:"absent,omitempty"`
	NetworkID string `json:"networkID,omitempty"`
	// VPCID is set when the network is a tier of a VPC.
	VPCID string `json:"vpcID,omitempty"`
	// Internal asks for an address of the tier instead of a public one.
	Internal bool `json:"internal,omitempty"`
	// Address is the requested address; empty for any.
	Address string `json:"address,omitempty"`
	// KeepAddress means not to release an acquired address that is no longer needed.
	KeepAddress bool     `json:"keepAddress,omitempty"`
	Rules       []Rule   `json:"rules,omitempty"`   // sorted by port
	Ranges      []string `json:"ranges,omitempty"`  // source ranges of the firewall and the ACL list; none if empty
	Members     []string `json:"members,omitempty"` // see MemberName; sorted
	// Firewall means that the network has a firewall, in which the controller opens the ports to Ranges only.
	Firewall bool `json:"firewall,omitempty"`
	// ACLID is the network ACL list in which the controller opens the ports to Ranges only; empty for none.
	ACLID string `json:"aclID,omitempty"`
	// CIDRsDecide means that the network has no firewall, so that the source ranges of the rules are the only filter of
	// public traffic.
	CIDRsDecide bool `json:"cidrsDecide,omitempty"`

	// OnePurpose means that an address cannot have both load balancer rules and port forwardings.
	OnePurpose bool `json:"onePurpose,omitempty"`
	// Forwards are the ports that are forwarded to one node each, without a load balancer; sorted.
	Forwards []ForwardPort `json:"forwards,omitempty"`
	// Serving are the Members to which ports may be forwarded. UID spreads different Services over different members.
	Serving []string `json:"serving,omitempty"`
	UID     string   `json:"uid,omitempty"`
	// Buckets is the number of parts that the source addresses are split into, each with its own port forwarding. It is
	// 0 if port forwardings cannot have source ranges.
	Buckets int `json:"buckets,omitempty"`
}

// Ports returns the numbers of the public ports, sorted.
func (d Desired) Ports() []int {
	var ports []int
	for _, some := range d.Opened() {
		ports = append(ports, some...)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Opened returns the public ports by transport protocol.
func (d Desired) Opened() annotation.PortSet { return d.ports(d.Rules, ForwardPort.public) }

// Forwarded returns the public ports that are forwarded.
func (d Desired) Forwarded() annotation.PortSet { return d.ports(nil, ForwardPort.public) }

// Targets returns the node ports to which public ports are forwarded.
func (d Desired) Targets() annotation.PortSet { return d.ports(nil, ForwardPort.private) }

// aclPorts returns the ports that the tier's network ACL list has to allow. Forwarded traffic passes the list with the
// node port. A public load balancer needs no item, because the router itself connects to the nodes.
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
	// CIDRs are the source ranges of the rule; nil if the rule does not filter.
	CIDRs []string `json:"cidrs,omitempty"`
	// Stickiness is nil for none.
	Stickiness *annotation.Stickiness `json:"stickiness,omitempty"`
	// Certificate is the id of the TLS certificate; only for the protocol ssl.
	Certificate string `json:"certificate,omitempty"`
}

// transport returns the protocol that a firewall rule for a load balancer rule has.
func transport(protocol string) string {
	if protocol == ProtocolUDP {
		return ProtocolUDP
	}
	return ProtocolTCP
}

// Providers of the service Lb that run HAProxy on a virtual router.
const (
	virtualRouter    = "VirtualRouter"
	vpcVirtualRouter = "VpcVirtualRouter"
)

// The default network ACL lists. CloudStack does not let anybody change them.
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

// Facts are the input of Desire.
type Facts struct {
	Service Service
	Spec    annotation.Spec
	// Members are the nodes that serve now. Reach, if set, are all nodes that may serve. Leaving are nodes that are
	// about to be deleted and to which ports may still be forwarded; they do not influence the choice of the network.
	Members, Reach, Leaving []Member
	// Ineligible are the nodes to which no port may be forwarded now, by name. They remain members of load balancer
	// rules.
	Ineligible map[string]Problem
	// Network is the network of the nodes; nil if there are no nodes and the network is not known.
	Network *Network
	// LeaveACLs means that network ACL lists are not to be changed.
	LeaveACLs bool
	// NoForwards is a port forwarding command that the role may not call; empty if it may call all of them.
	NoForwards string
}

// Nodes returns all known nodes.
func (f Facts) Nodes() []Member { return slices.Concat(f.Members, f.Reach, f.Leaving) }

// Subject is the Service that a sync works on. Observing, planning and applying share it.
type Subject struct {
	Facts
	Desired Desired
	// Actual is the state of CloudStack as last read, with the changes made since; nil if it is not known.
	Actual *Actual
	// Records are the records kept on the Service. The sync changes them.
	Records annotation.Records
	Book    Book
	// Project is the id of the CloudStack project to work in. OwnProject is the same if the Service or its records name
	// a project, and empty otherwise; it is the project in new records.
	Project, OwnProject string
	// Clusters are the ids that this cluster has or had in tags, the current one first.
	Clusters []string
	// Notices are collected for Events.
	Notices []Notice
	// Denied reports whether the role is known to forbid a command in the project.
	Denied func(command string) bool
}

// Notify adds a notice.
func (s *Subject) Notify(n Notice) { s.Notices = append(s.Notices, n) }

// Abilities of the server other than commands. Package cloudstack caches them.
const (
	AbilityInPlace = "updateLoadBalancerRule cidrlist" // see Limits.InPlace
	// AbilityCIDRs means that the server respects source ranges of rules. It is known once a rule with source ranges
	// was read.
	AbilityCIDRs = "source ranges of rules"
)

// Limits are what the server cannot do or the role may not do.
type Limits struct {
	// NoTags means that the role may not create tags.
	NoTags bool
	// InPlace means that updateLoadBalancerRule has the parameter cidrlist (CloudStack 4.22 or newer). Such a server
	// also sends a changed protocol to the router.
	InPlace bool
}
