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

// Ownership says who owns an observed item.
type Ownership string

// The values of Ownership. Items that are not Owned are never changed.
const (
	Owned   Ownership = "mine"
	Foreign Ownership = "foreign"
	Unknown Ownership = "unknown"
	// OtherCluster means that the tags have the Service's UID and the id of another cluster: the cluster id was
	// changed, or one of the two clusters is a copy of the other.
	OtherCluster Ownership = "other-cluster"
)

// Actual is the observed state of CloudStack that concerns one Service.
type Actual struct {
	Addresses []Address `json:"addresses,omitempty"`
	// ACLs are the network ACL list of the tier, and those that have items of the Service.
	ACLs []ACL `json:"acls,omitempty"`
	// Unread is the first error of a read without which the sync can still work on the rest. What could not be read is
	// not changed: see the fields whose names end in Unread.
	Unread     error `json:"-"`
	ACLsUnread bool  `json:"aclsUnread,omitempty"`
	// OtherCluster is the id of another cluster that was found in tags together with the Service's UID; empty if there
	// is none.
	OtherCluster string `json:"otherCluster,omitempty"`
}

// States of an address, and of rules and forwardings on it. An address stays in Releasing, and a rule in Deleting, if
// its removal failed; an address stays in Allocating if its acquisition failed.
const (
	StateFree       = "Free"
	StateAllocated  = "Allocated"
	StateAllocating = "Allocating"
	StateReserved   = "Reserved" // the account has reserved the address
	StateReleasing  = "Releasing"
	StateDeleting   = "Deleting"
	StateActive     = "Active" // the router has the rule
	StateAdd        = "Add"    // a rule without members, or a port forwarding that the router does not have yet
)

// Address is a public address with everything on it, or an address of a VPC tier.
type Address struct {
	ID        string `json:"id"`
	IP        string `json:"ip"`
	NetworkID string `json:"networkID,omitempty"`
	VPCID     string `json:"vpcID,omitempty"`
	// Internal means an address of a VPC tier, whose rules are internal load balancers.
	Internal  bool `json:"internal,omitempty"`
	SourceNAT bool `json:"sourceNAT,omitempty"`
	StaticNAT bool `json:"staticNAT,omitempty"`
	// Forwards are the port forwardings on the address. They are read only when needed; ForwardsKnown is set once they
	// were.
	Forwards      []Item `json:"forwards,omitempty"`
	ForwardsKnown bool   `json:"forwardsKnown,omitempty"`
	// Owner is derived from the tags of the address. Foreign means that it belongs to another cluster or Service.
	Owner Ownership `json:"owner"`
	// ForeignCluster means that the tags name another cluster. Then nothing on the address is ours.
	ForeignCluster bool `json:"foreignCluster,omitempty"`
	// Keeper is the Service, as namespace/name, that has given up the address but keeps it by the annotation keep-ip.
	Keeper string `json:"keeper,omitempty"`
	// TaggedUID and TaggedService identify the Service that the tags name.
	TaggedUID     string `json:"-"`
	TaggedService string `json:"-"`
	// Holder is the Service of this cluster, as namespace/name, that decides who uses the address; empty if it is this
	// Service. GuestOf is the namespace that owns the address; empty if it is the Service's own. These two fields and
	// the next four come from the address book, see Consult.
	Holder  string `json:"holder,omitempty"`
	GuestOf string `json:"guestOf,omitempty"`
	// Refusal is why the Service may not get more ports on the address; nil if it may.
	Refusal *RefusalError `json:"refusal,omitempty"`
	// Shared means that other Services of the cluster use the address. Has means that the Service itself has it,
	// according to its status. Known means that some Service has it, or that it is reserved for the Service's
	// namespace, which had it last.
	Shared bool `json:"shared,omitempty"`
	Has    bool `json:"-"`
	Known  bool `json:"-"`
	// Use is what the tags say about the owner of the address.
	Use AddressUse `json:"-"`
	// FormerCluster means that the tags name this cluster by a former id.
	FormerCluster bool `json:"formerCluster,omitempty"`
	// Acquired is when the account acquired the address.
	Acquired evidence.Instant `json:"acquired,omitempty"`
	// Lost means that somebody else has acquired the address since the Service had it. Only what the Service still has
	// on it is removed.
	Lost bool `json:"lost,omitempty"`
	// Allocated means that this controller provably acquired the address. Tagged means that the address carries our
	// tags.
	Allocated bool `json:"allocated,omitempty"`
	Tagged    bool `json:"tagged,omitempty"`
	// Recorded means that the Service has a record of the address.
	Recorded bool `json:"recorded,omitempty"`
	// State is the state in CloudStack. An address stays in Releasing if its release failed.
	State string `json:"state,omitempty"`
	// InStatus means that the Service's status or a record names the address.
	InStatus bool `json:"inStatus,omitempty"`
	// HasStickiness means that rules of the Service on the address may have stickiness policies.
	HasStickiness bool `json:"sticky,omitempty"`
	// RecordedPorts are, according to the record, the ports that the Service may have, and for which firewall rules may
	// be open.
	RecordedPorts annotation.PortSet `json:"opened,omitempty"`
	// ForwardPorts are, according to the record, the ports that the Service may have forwarded, and ForwardTargets the
	// node ports to which they may be forwarded.
	ForwardPorts   annotation.PortSet `json:"forwarded,omitempty"`
	ForwardTargets annotation.PortSet `json:"targets,omitempty"`
	// Settled means that no earlier call could still take effect when the address was read: what the read did not show
	// does not exist.
	Settled bool `json:"quiet,omitempty"`
	// OwnTags are the tag keys of csccm that the address has.
	OwnTags  []string `json:"ownTags,omitempty"`
	Rules    []Item   `json:"rules,omitempty"`
	Firewall []Item   `json:"firewall,omitempty"` // see OwnsFirewall
	// FirewallUnread means that reading Firewall failed.
	FirewallUnread bool `json:"firewallUnread,omitempty"`
}

// Mark says who owns an item on an address or in a network ACL list.
type Mark struct {
	Owner Ownership `json:"owner,omitempty"`
	// Tagged means that the item carries our tags, and Former that they name the cluster by a former id.
	Tagged bool `json:"tagged,omitempty"`
	Former bool `json:"former,omitempty"`
	// By describes the Service of this cluster that has the item, if it is another one. The names of Services in other
	// namespaces are not shown.
	By string `json:"by,omitempty"`
}

// Item is a load balancer rule, a port forwarding or a firewall rule of an address, or an item of a network ACL list.
// The embedded Rule has its ports on the address, the protocol and the source ranges. The owner of a firewall rule
// without tags is Unknown: see OwnsFirewall.
type Item struct {
	access.Rule
	State string `json:"state,omitempty"`
	Mark
	// PrivatePort is the port on the members, of a load balancer rule or of the Service's own port forwarding.
	PrivatePort int `json:"privatePort,omitempty"`

	// The following fields are for load balancer rules. Adopted means that another provider made the Service's rule.
	// Members, sorted, are known for the Service's own rules only, see MemberName. PolicyID is the id of the stickiness
	// policy.
	Name        string                 `json:"name,omitempty"`
	Algorithm   string                 `json:"algorithm,omitempty"`
	Adopted     bool                   `json:"adopted,omitempty"`
	Members     []string               `json:"members,omitempty"`
	Stickiness  *annotation.Stickiness `json:"stickiness,omitempty"`
	PolicyID    string                 `json:"policyID,omitempty"`
	Certificate string                 `json:"certificate,omitempty"`

	// MembersUnread means that reading the Members of an own rule failed, and ExtrasUnread that reading its stickiness
	// or certificate failed.
	MembersUnread bool `json:"membersUnread,omitempty"`
	ExtrasUnread  bool `json:"extrasUnread,omitempty"`

	// Member is the target of the Service's own port forwarding, see MemberName. VM is the name of the target VM of any
	// port forwarding.
	Member string `json:"member,omitempty"`
	VM     string `json:"vm,omitempty"`

	// The following fields are for ACL items. CloudStack evaluates items by number, the lowest first. Sibling means
	// that the item belongs to another Service of the same namespace.
	Number  int  `json:"number,omitempty"`
	Ingress bool `json:"ingress,omitempty"`
	Allow   bool `json:"allow,omitempty"`
	Sibling bool `json:"-"`
}

// on reports whether the item covers a port.
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

// LostAnswerGrace is how long after its submission a call may still take effect if its answer was lost: a server
// continues to work on a call after the client has disconnected.
const LostAnswerGrace = 2 * time.Minute

// ClockSkew is the largest assumed difference between the clocks of the management server and of the controller. It
// includes the time that an acquisition waits for other acquisitions.
const ClockSkew = 10 * time.Minute

// Ours reports whether the address belongs to the Service or carries rules or port forwardings of the Service.
func (a *Address) Ours() bool {
	return a.Recorded || a.Allocated || a.Owner == Owned || len(a.OwnRules()) > 0 || len(a.OwnForwards()) > 0
}

// OwnRules returns the Service's own load balancer rules on the address, sorted.
func (a *Address) OwnRules() []Item { return owned(a.Rules) }

// OwnForwards returns the Service's own port forwardings on the address, sorted.
func (a *Address) OwnForwards() []Item { return owned(a.Forwards) }

// foreign describes what on the address does not belong to the Service, as the reason for not releasing it; empty if
// there is nothing.
func (a *Address) foreign() string {
	releasing := a.State == StateReleasing // CloudStack already removes what was on it, but not what was added since
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

// proven reports whether the address itself is ours, not only rules on it. Then whatever is on the ports named by the
// record is ours as well.
func (a *Address) proven() bool { return !a.ForeignCluster && a.Allocated }

// Find returns the address with an id, or for an empty id the address acquired last; nil if there is none.
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

// Rule returns the rule with an id, or for an empty id the Service's own rule of a port; nil if there is none.
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

// MemberName returns the name of a member: the id of the VM if traffic goes to the primary address of its NIC,
// otherwise the id and the secondary address.
func MemberName(vm, secondary string) string {
	if secondary == "" {
		return vm
	}
	return vm + "@" + secondary
}

// SplitMember is the inverse of MemberName.
func SplitMember(name string) (vm, secondary string) {
	vm, secondary, _ = strings.Cut(name, "@")
	return vm, secondary
}

// Record returns the record of the address for the Service. An address of a VPC without rules does not belong to a tier
// yet; its record names the network that it is meant for.
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

// Recall sets the fields of the address that come from the Service's record.
func (a *Address) Recall(rec *annotation.AddressRecord) {
	a.Recorded, a.Allocated, a.HasStickiness = true, rec.Allocated, rec.Sticky
	a.RecordedPorts = annotation.ParsePorts(rec.Opened)
	a.ForwardPorts, a.ForwardTargets = annotation.ParsePorts(rec.Forwarded), annotation.ParsePorts(rec.Targets)
}

// InternalID returns the id of a tier's address for records. CloudStack has no id for such an address.
func InternalID(networkID, ip string) string { return "internal/" + networkID + "/" + ip }

// ParseInternalID returns the network in the id of a tier's address; ok is false for the id of a public address.
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

// ACL returns the list with an id, and adds an empty one if there is none.
func (a *Actual) ACL(id string) *ACL {
	at := slices.IndexFunc(a.ACLs, func(l ACL) bool { return l.ListID == id })
	if at < 0 {
		a.ACLs, at = append(a.ACLs, ACL{ListID: id}), len(a.ACLs)
	}
	return &a.ACLs[at]
}

// OwnsFirewall reports whether a firewall rule belongs to the Service. It does if its tags say so, or if it has no tags
// and covers only ports that the Service has on the address, because nobody else can use these ports. A rule that
// covers more ports is left alone.
//
// The ports in the Service's record count as well if the address is the Service's own, or if the status shows the
// address and its port forwardings are known: a rule may remain there although the answer to its creation was lost, and
// a port without members has no port forwarding.
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

// ownPort reports whether the Service has a port and nobody else can use it.
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

// forwards reports whether the Service has a port forwarding on a port.
func (a *Address) forwards(protocol string, port int) bool {
	return slices.ContainsFunc(a.Forwards,
		func(f Item) bool { return f.Owner == Owned && f.Protocol == protocol && f.StartPort == port })
}

// firewall returns the Service's own firewall rules on the address, or those that are not its own.
func (a *Address) firewall(own bool) []Item {
	return slices.DeleteFunc(slices.Clone(a.Firewall), func(f Item) bool { return a.OwnsFirewall(f) != own })
}

// rulesOf converts items to the rules that package access works with.
func rulesOf(list []Item) (out []access.Rule) {
	for i := range list {
		out = append(out, list[i].Rule)
	}
	return out
}

// untagged returns the ids of own port forwardings without tags. They go into the record, because nothing else proves
// that they are ours.
func (a *Address) untagged() string {
	var ids []string
	for _, f := range a.OwnForwards() {
		if !f.Tagged {
			ids = append(ids, f.ID)
		}
	}
	return strings.Join(ids, " ")
}
