// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Ownership says whose an observed item is.
type Ownership string

// Ownerships. What is not Owned is never changed.
const (
	Owned   Ownership = "mine"
	Foreign Ownership = "foreign"
	Unknown Ownership = "unknown"
	// OtherCluster means that the tags have the Service's UID and the id of a cluster that is not this one: the id was
	// changed, or one of the two clusters is a copy of the other.
	OtherCluster Ownership = "other-cluster"
)

// Actual is what was found in CloudStack that concerns one Service.
type Actual struct {
	Addresses []Address `json:"addresses,omitempty"`
	// ACLs are the network ACL lists that matter: the tier's, and those with items of ours.
	ACLs []ACL `json:"acls,omitempty"`
	// Unread is the first failure to read something without which the rest can be worked on. What could not be read is
	// left as it is: see the fields of the same ending.
	Unread     error `json:"-"`
	ACLsUnread bool  `json:"aclsUnread,omitempty"`
	// OtherCluster is the id of another cluster in tags with the Service's UID; empty for none.
	OtherCluster string `json:"otherCluster,omitempty"`
}

// States of an address, and of what is on it. A release or a deletion that failed leaves Releasing or Deleting, an
// acquisition that failed Allocating.
const (
	StateFree       = "Free"
	StateAllocated  = "Allocated"
	StateAllocating = "Allocating"
	StateReserved   = "Reserved" // by the account, for a use to come
	StateReleasing  = "Releasing"
	StateDeleting   = "Deleting"
	StateActive     = "Active" // a rule that the router has
	StateAdd        = "Add"    // a rule without members, or a port forwarding, that the router does not have yet
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
	// Forwards are the port forwardings on it. They are read only where they matter; then ForwardsKnown is set.
	Forwards      []Item `json:"forwards,omitempty"`
	ForwardsKnown bool   `json:"forwardsKnown,omitempty"`
	// Owner is read from the address's tags: Foreign means another cluster's or Service's.
	Owner Ownership `json:"owner"`
	// ForeignCluster is set when the tags name another cluster: then nothing on it is ours.
	ForeignCluster bool `json:"foreignCluster,omitempty"`
	// Keeper is the Service, as namespace/name, that left the address by the annotation keep-ip.
	Keeper string `json:"keeper,omitempty"`
	// TaggedUID and TaggedService are the Service that its tags name.
	TaggedUID     string `json:"-"`
	TaggedService string `json:"-"`
	// Holder is the Service of this cluster, as namespace/name, that decides who uses the address, if that is another
	// one, and GuestOf the namespace to which it belongs, if that is another one. These and the next five are what the
	// address book says, see Consult.
	Holder  string `json:"holder,omitempty"`
	GuestOf string `json:"guestOf,omitempty"`
	// Refusal is why the Service may not get more ports on the address; nil if it may.
	Refusal *RefusalError `json:"refusal,omitempty"`
	// Shared means that other Services of the cluster use the address, Has that the Service has it, by its status, and
	// Known that any Service has it or, of the namespace, lately had it.
	Shared bool `json:"shared,omitempty"`
	Has    bool `json:"-"`
	Known  bool `json:"-"`
	// Claim is what the tags say of whose the address is.
	Claim Claim `json:"-"`
	// FormerCluster means that the tags name the cluster as it was called earlier.
	FormerCluster bool `json:"formerCluster,omitempty"`
	// Acquired is when the account acquired it.
	Acquired evidence.Instant `json:"acquired,omitempty"`
	// Lost means that somebody else acquired it since the Service had it: it is only rid of what the Service has on it.
	Lost bool `json:"lost,omitempty"`
	// Allocated means that we acquired it, with proof; Tagged that it carries our tags.
	Allocated bool `json:"allocated,omitempty"`
	Tagged    bool `json:"tagged,omitempty"`
	// Recorded means that the Service's record says the same.
	Recorded bool `json:"recorded,omitempty"`
	// State is CloudStack's; Releasing is what a release that failed leaves.
	State string `json:"state,omitempty"`
	// InStatus means that the Service's status or record names it.
	InStatus bool `json:"inStatus,omitempty"`
	// HasStickiness means that rules on it may have stickiness policies of ours.
	HasStickiness bool `json:"sticky,omitempty"`
	// RecordedPorts are the ports that the Service may have, and firewall rules of ours may be open for, by its record.
	RecordedPorts annotation.PortSet `json:"opened,omitempty"`
	// ForwardPorts are the ports that port forwardings of ours may have, and ForwardTargets the node ports that they
	// may lead to, by the Service's record.
	ForwardPorts   annotation.PortSet `json:"forwarded,omitempty"`
	ForwardTargets annotation.PortSet `json:"targets,omitempty"`
	// Settled means that it was read when no earlier call could still take effect: what is not seen is not there.
	Settled bool `json:"quiet,omitempty"`
	// OwnTags are those of our tag keys that it carries.
	OwnTags  []string `json:"ownTags,omitempty"`
	Rules    []Item   `json:"rules,omitempty"`
	Firewall []Item   `json:"firewall,omitempty"` // see OwnsFirewall
	// FirewallUnread means that Firewall could not be read.
	FirewallUnread bool `json:"firewallUnread,omitempty"`
}

// Mark says whose an item on an address or in a network ACL list is.
type Mark struct {
	Owner Ownership `json:"owner,omitempty"`
	// Tagged means that it carries our tags, Former that they name the cluster by a former id.
	Tagged bool `json:"tagged,omitempty"`
	Former bool `json:"former,omitempty"`
	// By describes the Service of this cluster that has an item which is not ours: the names of those of other
	// namespaces are not shown.
	By string `json:"by,omitempty"`
}

// Item is a load balancer rule, a port forwarding or a firewall rule of an address, or an item of a network ACL list.
// It has the ports on the address, the protocol and the source ranges. Of a firewall rule without tags the owner is
// Unknown: see OwnsFirewall.
type Item struct {
	access.Rule
	State string `json:"state,omitempty"`
	Mark
	// PrivatePort is that of a load balancer rule or an own port forwarding.
	PrivatePort int `json:"privatePort,omitempty"`

	// These are a load balancer rule's. Adopted marks an own one that another provider made. Members are known of own
	// ones, see MemberName; sorted. PolicyID is the id of its stickiness policy.
	Name        string                 `json:"name,omitempty"`
	Algorithm   string                 `json:"algorithm,omitempty"`
	Adopted     bool                   `json:"adopted,omitempty"`
	Members     []string               `json:"members,omitempty"`
	Stickiness  *annotation.Stickiness `json:"stickiness,omitempty"`
	PolicyID    string                 `json:"policyID,omitempty"`
	Certificate string                 `json:"certificate,omitempty"`

	// MembersUnread means that Members of an own one could not be read, ExtrasUnread the same of stickiness or
	// certificate.
	MembersUnread bool `json:"membersUnread,omitempty"`
	ExtrasUnread  bool `json:"extrasUnread,omitempty"`

	// Member is where an own port forwarding leads, see MemberName, VM the name of the VM of any.
	Member string `json:"member,omitempty"`
	VM     string `json:"vm,omitempty"`

	// These are an ACL item's. Items are looked at by number, the lowest first. Sibling marks one of a Service of the
	// same namespace.
	Number  int  `json:"number,omitempty"`
	Ingress bool `json:"ingress,omitempty"`
	Allow   bool `json:"allow,omitempty"`
	Sibling bool `json:"-"`
}

// on reports whether the item is on a port.
func (i *Item) on(port int) bool { return i.StartPort <= port && port <= i.EndPort }

// owned returns the Service's own items, sorted.
func owned(list []Item) []Item {
	out := slices.DeleteFunc(slices.Clone(list), ofOthers)
	slices.SortFunc(out, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.StartPort, b.StartPort), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.ID, b.ID))
	})
	return out
}

// LostAnswerGrace is how long after its submission a call whose answer was lost
// may still arrive: a server works on a call after the client is gone.
const LostAnswerGrace = 2 * time.Minute

// ClockSkew is how far the clocks of the management server and of the controller may be apart, with the time that an
// acquisition waits for others.
const ClockSkew = 10 * time.Minute

// Ours reports whether anything of the Service's is on the address or the address is its own.
func (a *Address) Ours() bool {
	return a.Recorded || a.Allocated || a.Owner == Owned || len(a.OwnRules()) > 0 || len(a.OwnForwards()) > 0
}

// OwnRules returns the Service's own load balancer rules on the address, sorted.
func (a *Address) OwnRules() []Item { return owned(a.Rules) }

// OwnForwards returns the Service's own port forwardings on the address, sorted.
func (a *Address) OwnForwards() []Item { return owned(a.Forwards) }

// foreign says what foreign there is on the address; empty for nothing.
func (a *Address) foreign() string {
	releasing := a.State == StateReleasing // what was on it is going already, but not what came meanwhile
	others := func(list []Item) bool {
		return slices.ContainsFunc(list, func(i Item) bool { return i.Owner != Owned && (!releasing || !i.Deleting) })
	}
	switch {
	case others(a.Rules):
		return "a load balancer rule on it is not of this Service"
	case others(a.Forwards):
		return "it forwards ports"
	case releasing:
		return ""
	case len(a.firewall(false)) > 0:
		return "a firewall rule reaches beyond the ports of this Service"
	case a.Shared:
		return "other Services use it"
	case a.SourceNAT:
		return "it is the network's source NAT address"
	case a.StaticNAT:
		return "it carries static NAT"
	}

	return ""
}

// proven reports whether the address itself is ours, not only rules on it: then what is on ports that our record names
// is ours as well.
func (a *Address) proven() bool { return !a.ForeignCluster && a.Allocated }

// Find returns the address of an id, or for an empty id the one acquired last; nil when there is none.
func (a *Actual) Find(id string) *Address {
	if id == "" && len(a.Addresses) > 0 {
		return &a.Addresses[len(a.Addresses)-1]
	}
	for i := range a.Addresses {
		if a.Addresses[i].ID == id {
			return &a.Addresses[i]
		}
	}
	return nil
}

// Rule returns the rule of an id, or for an empty id the own one of a port; nil when there is none.
func (a *Address) Rule(id string, port int) *Item {
	for i := range a.Rules {
		if r := &a.Rules[i]; r.ID == id || id == "" && r.Owner == Owned && r.StartPort == port {
			return r
		}
	}
	return nil
}

func sortAddresses(in []Address) []Address {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Address) int { return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.ID, b.ID)) })
	return out
}

// MemberName is how a member is written: the VM's id where it is reached at the address of its NIC, the id
// and the address where that is a secondary one.
func MemberName(vm, secondary string) string {
	if secondary == "" {
		return vm
	}
	return vm + "@" + secondary
}

// SplitMember undoes MemberName.
func SplitMember(name string) (vm, secondary string) {
	vm, secondary, _ = strings.Cut(name, "@")
	return vm, secondary
}

// Record is what the Service's record says of the address. One of a VPC without rules is bound to no tier; the record
// then names the network that it is meant for.
func (a *Address) Record(project, network string) annotation.AddressRecord {
	return annotation.AddressRecord{
		ID: a.ID, IP: a.IP, NetworkID: cmp.Or(a.NetworkID, network), VPCID: a.VPCID, ProjectID: project,
		Allocated: a.Allocated,
		Tagged:    a.Tagged,
		Internal:  a.Internal,
		Sticky:    a.HasStickiness,
		Opened:    a.RecordedPorts.String(),
		Acquired:  string(a.Acquired),
		Forwarded: a.ForwardPorts.String(),
		Targets:   a.ForwardTargets.String(),
		Forwards:  a.untagged(),
		GuestOf:   a.GuestOf,
	}
}

// Recall notes what the Service's record says of the address.
func (a *Address) Recall(rec *annotation.AddressRecord) {
	a.Recorded, a.Allocated, a.HasStickiness = true, rec.Allocated, rec.Sticky
	a.RecordedPorts = annotation.ParsePorts(rec.Opened)
	a.ForwardPorts, a.ForwardTargets = annotation.ParsePorts(rec.Forwarded), annotation.ParsePorts(rec.Targets)
}

// InternalID is the id of an address of a tier in records; CloudStack has none for it.
func InternalID(networkID, ip string) string { return "internal/" + networkID + "/" + ip }

// ParseInternalID returns the network of an address of a tier; ok is false for the id of a public address.
func ParseInternalID(id string) (networkID string, ok bool) {
	rest, ok := strings.CutPrefix(id, "internal/")
	networkID, _, _ = strings.Cut(rest, "/")
	return networkID, ok
}

// ACL is a network ACL list of a VPC.
type ACL struct {
	ListID string `json:"listID"`
	Name   string `json:"name,omitempty"`
	Items  []Item `json:"items,omitempty"`
}

// ACL returns the list of an id, a new one if need be.
func (a *Actual) ACL(id string) *ACL {
	at := slices.IndexFunc(a.ACLs, func(l ACL) bool { return l.ListID == id })
	if at < 0 {
		a.ACLs, at = append(a.ACLs, ACL{ListID: id}), len(a.ACLs)
	}
	return &a.ACLs[at]
}

// OwnsFirewall reports whether a firewall rule is the Service's: its tags say so, or it has none and governs only ports
// that the Service has on the address. Nobody else can use these ports. A rule that reaches further is left alone. On
// an address of the Service's own, and on one that its status shows, the ports that its record names count, too: there
// a rule may be left whose creation got no answer, and a port without members has no port forwarding.
func (a *Address) OwnsFirewall(f Item) bool {
	if a.ForeignCluster || f.Owner == Foreign || f.StartPort < 1 || f.EndPort < f.StartPort {
		return false
	}
	for port := f.StartPort; port <= f.EndPort && f.Owner != Owned; port++ {
		if !a.ownPort(f.Protocol, port) {
			return false
		}
	}
	return true
}

// ownPort reports whether the Service has a port, and nobody else can use it.
func (a *Address) ownPort(protocol string, port int) bool {
	if slices.ContainsFunc(a.Rules, func(r Item) bool { return r.Owner != Owned && r.on(port) }) ||
		slices.ContainsFunc(a.Forwards, func(f Item) bool {
			return f.Owner != Owned && f.on(port) && cmp.Or(f.Protocol, protocol) == protocol
		}) {
		return false
	}
	rule := a.Rule("", port)
	return rule != nil && transport(rule.Protocol) == protocol || a.forwards(protocol, port) ||
		(a.proven() || a.Has && a.ForwardsKnown) && slices.Contains(a.RecordedPorts[protocol], port)
}

// has reports whether the Service has a load balancer rule or a port forwarding on a port.
func (a *Address) has(protocol string, port int) bool {
	return a.Rule("", port) != nil || a.forwards(protocol, port)
}

// forwards reports whether the Service forwards a port.
func (a *Address) forwards(protocol string, port int) bool {
	return slices.ContainsFunc(a.Forwards,
		func(f Item) bool { return f.Owner == Owned && f.Protocol == protocol && f.StartPort == port })
}

// firewall returns the firewall rules of the Service on the address, or the others.
func (a *Address) firewall(own bool) []Item {
	return slices.DeleteFunc(slices.Clone(a.Firewall), func(f Item) bool { return a.OwnsFirewall(f) != own })
}

// rulesOf returns what package access plans with.
func rulesOf(list []Item) []access.Rule {
	out := make([]access.Rule, 0, len(list))
	for i := range list {
		out = append(out, list[i].Rule)
	}
	return out
}

// untagged are the ids of own port forwardings without tags, for the record: nothing else proves them ours.
func (a *Address) untagged() string {
	var ids []string
	for _, f := range a.OwnForwards() {
		if !f.Tagged {
			ids = append(ids, f.ID)
		}
	}
	return strings.Join(ids, " ")
}
