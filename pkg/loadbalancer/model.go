// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer makes CloudStack serve a Service of type LoadBalancer:
//
//	Desire   Service, Spec, network, members -> Desired or a RefusalError; pure
//	observe  CloudStack -> Actual; reads only
//	Plan     Desired, Actual -> []Action; pure
//	apply    []Action -> CloudStack
//
// A Reconciler strings them together and remembers what it read and wrote.
package loadbalancer

import (
	"cmp"
	"slices"
)

// Service is what the planner needs to know of a Service's identity and ports.
type Service struct {
	UID, Namespace, Name string
	// LB is the load balancer's name, the prefix of its rules' names.
	LB    string
	Ports []Port
	// StatusIPs are the addresses in the Service's status.
	StatusIPs []string
}

// Key is namespace/name.
func (s Service) Key() string { return s.Namespace + "/" + s.Name }

// Port is one port of a Service.
type Port struct {
	Name     string
	Protocol string // TCP, UDP, SCTP
	Port     int
	NodePort int
}

// Member is a Node's VM.
type Member struct {
	Node, VMID             string
	NetworkID, NetworkName string // of the default NIC
}

// Network is what the planner needs to know of the members' network.
type Network struct {
	ID, Name, VPCID string
	// Type is Isolated, Shared or L2.
	Type string
	// LoadBalancer, Firewall and DNS tell whether the network offers the service.
	LoadBalancer, Firewall, DNS bool
	// Provider serves Lb; VirtualRouter is HAProxy with its restrictions.
	Provider string
}

// Desired is what should be in CloudStack for one Service.
type Desired struct {
	// Absent asks for nothing: the plan towards it deletes.
	Absent    bool   `json:"absent,omitempty"`
	NetworkID string `json:"networkID,omitempty"`
	// Address is the requested public address; empty for any.
	Address string `json:"address,omitempty"`
	// KeepAddress keeps an acquired address that is no longer needed.
	KeepAddress bool     `json:"keepAddress,omitempty"`
	Rules       []Rule   `json:"rules,omitempty"`   // sorted by port
	Ranges      []string `json:"ranges,omitempty"`  // source ranges of the firewall; empty: closed
	Members     []string `json:"members,omitempty"` // VM ids, sorted
}

// Ports are the public ports, sorted.
func (d Desired) Ports() []int {
	ports := make([]int, 0, len(d.Rules))
	for _, r := range d.Rules {
		ports = append(ports, r.PublicPort)
	}
	slices.Sort(ports)
	return ports
}

// Equal compares two desired states.
func (d Desired) Equal(o Desired) bool {
	return d.Absent == o.Absent && d.NetworkID == o.NetworkID && d.Address == o.Address && d.KeepAddress == o.KeepAddress &&
		slices.EqualFunc(d.Rules, o.Rules, Rule.equal) && slices.Equal(d.Ranges, o.Ranges) && slices.Equal(d.Members, o.Members)
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
}

func (r Rule) equal(o Rule) bool {
	return r.Name == o.Name && r.Protocol == o.Protocol && r.Algorithm == o.Algorithm &&
		r.PublicPort == o.PublicPort && r.PrivatePort == o.PrivatePort && slices.Equal(r.CIDRs, o.CIDRs)
}

// FirewallRange opens ports of an address to source ranges.
type FirewallRange struct {
	Protocol  string   `json:"protocol"`
	StartPort int      `json:"startPort"`
	EndPort   int      `json:"endPort"`
	CIDRs     []string `json:"cidrs"`
}

func (f FirewallRange) overlaps(o FirewallRange) bool {
	return f.StartPort <= o.EndPort && o.StartPort <= f.EndPort
}

// Ownership says whose an observed item is.
type Ownership string

// Ownerships. What is not Mine is never changed.
const (
	Mine    Ownership = "mine"
	Foreign Ownership = "foreign"
	Unknown Ownership = "unknown"
)

// Actual is what was found in CloudStack that concerns one Service.
type Actual struct {
	Addresses []Address `json:"addresses,omitempty"`
}

const stateReleasing = "Releasing"

// Address is a public address with everything on it.
type Address struct {
	ID        string `json:"id"`
	IP        string `json:"ip"`
	NetworkID string `json:"networkID,omitempty"`
	VPCID     string `json:"vpcID,omitempty"`
	SourceNAT bool   `json:"sourceNAT,omitempty"`
	StaticNAT bool   `json:"staticNAT,omitempty"`
	// Owner is read from the address's tags: Foreign means another cluster's or Service's.
	Owner Ownership `json:"owner"`
	// ForeignCluster is set when the tags name another cluster: then nothing on it is ours.
	ForeignCluster bool `json:"foreignCluster,omitempty"`
	// Allocated means that we acquired it, with proof.
	Allocated bool `json:"allocated,omitempty"`
	Tagged    bool `json:"tagged,omitempty"`
	// Recorded means that the Service's record says the same.
	Recorded bool `json:"recorded,omitempty"`
	// State is CloudStack's; Releasing is what a release that failed leaves.
	State string `json:"state,omitempty"`
	// InStatus means that the Service's status or record names it.
	InStatus bool `json:"inStatus,omitempty"`
	// OwnTags are those of our tag keys that it carries.
	OwnTags  []string         `json:"ownTags,omitempty"`
	Rules    []ActualRule     `json:"rules,omitempty"`
	Firewall []ActualFirewall `json:"firewall,omitempty"`
	// Known is false when the address's own properties were not read (its rules were).
	Known bool `json:"known,omitempty"`
}

// ActualRule is a rule found on an address.
type ActualRule struct {
	Rule
	ID      string    `json:"id"`
	State   string    `json:"state,omitempty"`
	Owner   Ownership `json:"owner"`
	Members []string  `json:"members,omitempty"` // VM ids, sorted; of own rules only
}

// ActualFirewall is a firewall rule found on an address. Its owner is decided
// by ports: see ownsFirewall.
type ActualFirewall struct {
	FirewallRange
	ID string `json:"id"`
}

// Clone returns a deep copy.
func (a Actual) Clone() Actual {
	out := Actual{Addresses: slices.Clone(a.Addresses)}
	for i := range out.Addresses {
		addr := &out.Addresses[i]
		addr.OwnTags = slices.Clone(addr.OwnTags)
		addr.Rules = slices.Clone(addr.Rules)
		for j := range addr.Rules {
			addr.Rules[j].Members = slices.Clone(addr.Rules[j].Members)
		}
		addr.Firewall = slices.Clone(addr.Firewall)
	}
	return out
}

// ours tells whether anything of the Service's is on the address or the address is its own.
func (a *Address) ours() bool {
	return a.Recorded || a.Allocated || a.Owner == Mine || len(a.ownRules()) > 0
}

func (a *Address) ownRules() []ActualRule {
	var out []ActualRule
	for _, r := range a.Rules {
		if r.Owner == Mine {
			out = append(out, r)
		}
	}
	return out
}

// ownsFirewall tells whether a firewall rule governs nothing but ports of ours:
// those of the Service's rules on the address and those it wants there. Such a
// rule is ours whoever made it, since no one else can use these ports; a rule
// that reaches further is left alone.
func (a *Address) ownsFirewall(f ActualFirewall, wanted []int) bool {
	if a.ForeignCluster || f.Protocol != ProtocolTCP || f.StartPort < 1 || f.EndPort < f.StartPort {
		return false
	}
	own := map[int]bool{}
	for _, r := range a.Rules {
		if r.Owner == Mine {
			own[r.PublicPort] = true
		}
	}
	for _, p := range wanted {
		own[p] = true
	}
	for _, r := range a.Rules {
		if r.Owner != Mine {
			delete(own, r.PublicPort)
		}
	}
	if f.EndPort-f.StartPort >= len(own) {
		return false
	}
	for p := f.StartPort; p <= f.EndPort; p++ {
		if !own[p] {
			return false
		}
	}
	return true
}

// exclusive tells whether nothing foreign is on the address.
func (a *Address) exclusive(wanted []int) (bool, string) {
	if a.State == stateReleasing {
		return true, "" // what was on it is going already
	}
	for _, r := range a.Rules {
		if r.Owner != Mine {
			return false, "load balancer rule " + r.Name + " is not of this Service"
		}
	}
	for _, f := range a.Firewall {
		if !a.ownsFirewall(f, wanted) {
			return false, "firewall rule " + f.ID + " reaches beyond the ports of this Service"
		}
	}
	switch {
	case a.SourceNAT:
		return false, "it is the network's source NAT address"
	case a.StaticNAT:
		return false, "it carries static NAT"
	}
	return true, ""
}

func sortAddresses(in []Address) []Address {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Address) int { return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.ID, b.ID)) })
	return out
}
