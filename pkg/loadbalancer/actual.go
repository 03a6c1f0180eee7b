// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

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
	// ACLs are the network ACL lists that matter: the tier's, and those with items of ours.
	ACLs []ACL `json:"acls,omitempty"`
}

// States that a release or a deletion which failed leaves.
const (
	stateReleasing = "Releasing"
	stateDeleting  = "Deleting"
)

// Address is a public address with everything on it, or an address of a VPC tier.
type Address struct {
	ID        string `json:"id"`
	IP        string `json:"ip"`
	NetworkID string `json:"networkID,omitempty"`
	VPCID     string `json:"vpcID,omitempty"`
	// Internal marks an address of a tier: its rules are internal load balancers.
	Internal  bool `json:"internal,omitempty"`
	SourceNAT bool `json:"sourceNAT,omitempty"`
	StaticNAT bool `json:"staticNAT,omitempty"`
	// Forwards are the port forwardings on it. They are all of others, and are read only where they matter; then
	// ForwardsKnown is set.
	Forwards      []Forward `json:"forwards,omitempty"`
	ForwardsKnown bool      `json:"forwardsKnown,omitempty"`
	// Owner is read from the address's tags: Foreign means another cluster's or Service's.
	Owner Ownership `json:"owner"`
	// ForeignCluster is set when the tags name another cluster: then nothing on it is ours.
	ForeignCluster bool `json:"foreignCluster,omitempty"`
	// Holder is the Service, as namespace/name, that the tags give it to, if that is another one of this cluster; Kept
	// means that it left the address by the annotation keep-ip. Admits reports whether our Service may use it too.
	Holder string `json:"holder,omitempty"`
	Kept   bool   `json:"kept,omitempty"`
	Admits bool   `json:"admits,omitempty"`
	// FormerCluster means that the tags name the cluster as it was called earlier.
	FormerCluster bool `json:"formerCluster,omitempty"`
	// Acquired is when the account acquired it, as CloudStack writes it.
	Acquired string `json:"acquired,omitempty"`
	// Allocated means that we acquired it, with proof.
	Allocated bool `json:"allocated,omitempty"`
	Tagged    bool `json:"tagged,omitempty"`
	// Recorded means that the Service's record says the same.
	Recorded bool `json:"recorded,omitempty"`
	// State is CloudStack's; Releasing is what a release that failed leaves.
	State string `json:"state,omitempty"`
	// InStatus means that the Service's status or record names it.
	InStatus bool `json:"inStatus,omitempty"`
	// Sticky means that rules on it may have stickiness policies of ours.
	Sticky bool `json:"sticky,omitempty"`
	// Opened are the ports that firewall rules of ours may be open for, by the Service's record.
	Opened OpenedPorts `json:"opened,omitempty"`
	// Quiet means that it was read when nothing sent to it could still be on its way: what is not seen is not there.
	Quiet bool `json:"quiet,omitempty"`
	// OwnTags are those of our tag keys that it carries.
	OwnTags  []string         `json:"ownTags,omitempty"`
	Rules    []ActualRule     `json:"rules,omitempty"`
	Firewall []ActualFirewall `json:"firewall,omitempty"`
	// vacant means that the Service for which it was acquired left it to those that use it.
	vacant bool
	// Known is false when the address's own properties were not read (its rules were).
	Known bool `json:"known,omitempty"`
}

// Forward is a port forwarding of others.
type Forward struct {
	ID        string `json:"id"`
	Protocol  string `json:"protocol"`
	StartPort int    `json:"startPort"`
	EndPort   int    `json:"endPort"`
	VM        string `json:"vm,omitempty"`
}

// has reports whether a public port is forwarded. CloudStack gives a port to a port forwarding or to load balancer
// rules, whatever their protocols.
func (f Forward) has(port int) bool { return f.StartPort <= port && port <= f.EndPort }

// ActualRule is a rule found on an address.
type ActualRule struct {
	Rule
	ID    string    `json:"id"`
	State string    `json:"state,omitempty"`
	Owner Ownership `json:"owner"`
	// Sibling marks a rule of another Service of Kubernetes.
	Sibling bool `json:"sibling,omitempty"`
	// Service is the Service of this cluster, as namespace/name, that a rule belongs to which is not ours. Admits
	// reports whether it lets our Service use its address.
	Service string `json:"service,omitempty"`
	// Near reports whether that Service is of our Service's namespace: the names of others are not told.
	Near   bool `json:"near,omitempty"`
	Admits bool `json:"admits,omitempty"`
	// Adopted marks an own rule that another provider made.
	Adopted bool `json:"adopted,omitempty"`
	// Tagged means that it carries our tags.
	Tagged  bool     `json:"tagged,omitempty"`
	Members []string `json:"members,omitempty"` // see memberName; sorted; of own rules only
	// PolicyID is the id of its stickiness policy.
	PolicyID string `json:"policyID,omitempty"`
}

// ActualFirewall is a firewall rule or ACL item found. Who owns a firewall rule
// is decided by its ports: see ownsFirewall.
type ActualFirewall struct {
	FirewallRange
	ID string `json:"id"`
	// Going marks one whose deletion failed: the router may still know it, but drops it with whatever it is told next.
	Going bool `json:"going,omitempty"`
}

// Clone returns a deep copy.
func (a Actual) Clone() Actual {
	out := Actual{Addresses: slices.Clone(a.Addresses), ACLs: slices.Clone(a.ACLs)}
	for i := range out.Addresses {
		addr := &out.Addresses[i]
		addr.OwnTags = slices.Clone(addr.OwnTags)
		addr.Opened = addr.Opened.union(nil)
		addr.Forwards = slices.Clone(addr.Forwards)
		addr.Rules = slices.Clone(addr.Rules)
		for j := range addr.Rules {
			addr.Rules[j].Members = slices.Clone(addr.Rules[j].Members)
		}
		addr.Firewall = slices.Clone(addr.Firewall)
	}
	for i := range out.ACLs {
		out.ACLs[i].Items = slices.Clone(out.ACLs[i].Items)
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

// exclusive tells whether nothing foreign is on the address, else what is.
func (a *Address) exclusive() (bool, string) {
	if a.State == stateReleasing {
		return true, "" // what was on it is going already
	}
	for _, r := range a.Rules {
		if r.Owner != Mine {
			return false, "load balancer rule " + r.Name + " is not of this Service"
		}
	}
	for _, f := range a.Firewall {
		if !a.ownsFirewall(f, nil) {
			return false, "firewall rule " + f.ID + " reaches beyond the ports of this Service"
		}
	}
	switch {
	case a.SourceNAT:
		return false, "it is the network's source NAT address"
	case a.StaticNAT:
		return false, "it carries static NAT"
	case len(a.Forwards) > 0:
		return false, "it forwards ports"
	}
	return true, ""
}

// proven reports whether the address itself is ours, not only rules on it: then what is on ports that our record names
// is ours as well.
func (a *Address) proven() bool { return !a.ForeignCluster && (a.Owner == Mine || a.Allocated) }

// shared tells whether other Services of Kubernetes use the address.
func (a *Address) shared() bool {
	return slices.ContainsFunc(a.Rules, func(r ActualRule) bool { return r.Sibling })
}

func sortAddresses(in []Address) []Address {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Address) int { return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.ID, b.ID)) })
	return out
}

// memberName is how a member is written: the VM's id where it is reached at the address of its NIC, the id
// and the address where that is a secondary one.
func memberName(vm, secondary string) string {
	if secondary == "" {
		return vm
	}
	return vm + "@" + secondary
}

// splitMember undoes memberName.
func splitMember(name string) (vm, secondary string) {
	vm, secondary, _ = strings.Cut(name, "@")
	return vm, secondary
}

func record(a *Address, project string) annotation.AddressRecord {
	return annotation.AddressRecord{
		ID: a.ID, IP: a.IP, NetworkID: a.NetworkID, VPCID: a.VPCID, ProjectID: project,
		Allocated: a.Allocated, Tagged: a.Tagged, Internal: a.Internal, Sticky: a.Sticky, Opened: a.Opened.String(), Acquired: a.Acquired,
	}
}
