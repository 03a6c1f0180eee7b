// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
)

// Grants are what the operator's policy allows the Service to use beyond the addresses of its own namespace.
type Grants struct {
	// SourceNAT is the source NAT address of an isolated network.
	SourceNAT bool
	// ForeignAddress is an address that carries rules or port forwardings which no Service of the cluster made.
	ForeignAddress bool
	// MaxAddresses and MaxKept limit the addresses that Services of the namespace have or share, and those kept for it
	// when Services were deleted. MaxPorts limits the rules and port forwardings of a Service, MaxAllPorts the ports of all
	// Services of the namespace. Negative for no limit.
	MaxAddresses, MaxKept, MaxPorts, MaxAllPorts int
}

// AllGrants has everything and no limit.
func AllGrants() Grants {
	return Grants{SourceNAT: true, ForeignAddress: true, MaxAddresses: -1, MaxKept: -1, MaxPorts: -1, MaxAllPorts: -1}
}

// CheckPorts refuses a Service that would have more rules and port forwardings in CloudStack than it may.
func CheckPorts(d Desired, grants Grants) *RefusalError {
	n := len(d.Rules) + len(d.Forwards)*max(1, len(d.bucketsOf()))
	if grants.MaxPorts < 0 || n <= grants.MaxPorts {
		return nil
	}
	return Refuse(ReasonNotAllowed, fmt.Sprintf("the Service would have %d rules and port forwardings in CloudStack, and %d are allowed (tenancy.limits.maxPortsPerService)", n, grants.MaxPorts),
		"use fewer ports or a smaller "+annotation.DirectSpread+", or ask your cluster's operator, who can raise the limit")
}

// CheckCluster refuses to work on a Service whose objects in CloudStack name another cluster: the id of this one was
// changed, or one of the two is a copy of the other, whose objects must not be touched.
func CheckCluster(a Actual, clusters []string) *RefusalError {
	if a.OtherCluster == "" {
		return nil
	}
	return Refuse(ReasonOtherClusterID, fmt.Sprintf("objects in CloudStack carry the UID of this Service and the id of cluster %q, and this cluster's id is %q; nothing is changed", a.OtherCluster, clusters[0]),
		fmt.Sprintf("if the id of this cluster was changed, add %q to former-cluster-ids in the cloud-config; if the cluster is a copy of the other one, delete the Service here and remove its finalizer", a.OtherCluster))
}

// Fits returns why the address chosen by Plan cannot serve, nil when it can.
func Fits(d Desired, target *Address, network *Network, grants Grants) *RefusalError {
	if d.Absent {
		return nil
	}
	known := d.NetworkID != ""
	// An address of a VPC is bound to a tier by its first rule, so that the tier must be known.
	unbound := target != nil && target.VPCID != "" && target.NetworkID == "" && target.joining(d)
	if !known && (target == nil || unbound) {
		return Refuse(ReasonNoNodes, "no node is eligible, so that the network of the address is not known",
			"add a node that may serve; the Service is tried again")
	}
	if target == nil {
		return nil
	}
	where := "address " + target.IP
	unusable := func(message, remedy string) *RefusalError {
		return Refuse(ReasonAddressUnavailable, where+message, remedy)
	}
	switch {
	case target.ForeignCluster:
		return unusable(" belongs to another cluster (by its tags)", "choose another address")
	case target.StaticNAT:
		return unusable(" carries static NAT and so cannot balance load", "disable its static NAT or choose another address")
	case known && target.VPCID != d.VPCID && target.VPCID != "":
		return unusable(" belongs to a VPC that is not the nodes'", "choose an address of the nodes' network")
	case known && !target.Internal && target.VPCID != d.VPCID:
		return unusable(" does not belong to the nodes' VPC", "choose an address of the VPC")
	case target.VPCID != "" && target.SourceNAT:
		return unusable(" is the source NAT address of the VPC, which a load balancer would take from it for good", "choose another address")
	case known && target.NetworkID != "" && target.NetworkID != d.NetworkID:
		return unusable(" serves another network than the nodes'", "choose an address of the nodes' network")
	case target.SourceNAT && network != nil && !network.Conserve:
		return unusable(" is the source NAT address of a network whose offering is not in conserve mode, and so cannot balance load", "choose another address")
	}
	ports := d.Ports()
	if target.SourceNAT && network != nil && network.DNS && slices.Contains(ports, DNSPort) {
		return &RefusalError{ReasonReservedPort, fmt.Sprintf("port %d on %s is taken by the virtual router for DNS: it is the network's source NAT address", DNSPort, where), "choose another address", DNSPort}
	}
	if target.joining(d) {
		// Whose the address is comes first: what is on it is nobody else's business.
		if refusal := target.refusesNamespace(); refusal != nil {
			return refusal
		}
	}
	for _, r := range target.Rules {
		if r.Owner != Owned && slices.Contains(ports, r.StartPort) {
			return r.taken(r.StartPort, where, "a load balancer rule", "delete that rule")
		}
	}
	if !target.joining(d) {
		return nil // what is served already is served on
	}
	// CloudStack gives a number to load balancer rules or to port forwardings, whatever their protocols.
	for i := range target.Forwards {
		f := &target.Forwards[i]
		for _, port := range ports {
			balanced := slices.ContainsFunc(d.Rules, func(r Rule) bool { return r.PublicPort == port })
			if f.Owner != Owned && f.on(port) && (balanced || slices.Contains(d.Forwarded()[f.Protocol], port)) {
				return f.taken(port, where, "a port forwarding", "delete that port forwarding")
			}
		}
	}
	return target.refuses(grants)
}

// taken refuses a port on which an item of others is; what says what kind of item. It names the Service that has it to those of
// its namespace, and nobody else's names and ids to anybody: who may write the Service reads the Event.
func (m *Mark) taken(port int, where, what, remedy string) *RefusalError {
	by := what + ", which is not of this Service"
	if m.By != "" {
		by, remedy = m.By, "have that Service give up the port"
	}
	return &RefusalError{ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by %s", port, where, by), remedy + ", or choose another port or address", port}
}

// joining reports whether a rule or port forwarding has to be made on the address where there is neither of ours.
func (a *Address) joining(d Desired) bool {
	if a.ID == "" {
		return false
	}
	own := a.OwnForwards()
	forwards := func(port int) bool { return slices.ContainsFunc(own, func(f Item) bool { return f.StartPort == port }) }
	return slices.ContainsFunc(d.Rules, func(r Rule) bool { return a.Rule("", r.PublicPort) == nil && !forwards(r.PublicPort) }) ||
		slices.ContainsFunc(d.Forwards, func(f ForwardPort) bool { return !a.has(f.Protocol, f.PublicPort) })
}

func (a *Address) notAllowed(message, remedy string) *RefusalError {
	return Refuse(ReasonNotAllowed, "address "+a.IP+message, remedy)
}

// refusesNamespace says why the Service may not use the address: Services of another namespace have it and do not share
// it. Their names are not shown.
func (a *Address) refusesNamespace() *RefusalError {
	const remedy = "choose another address, or have its Service annotated with " + annotation.ShareWith + " and this Service's namespace"
	switch {
	case a.Holder != "" && !a.Admits:
		return a.notAllowed(" belongs to a Service of another namespace, which does not share it", remedy)
	case a.Holder == "" && a.Keeper != "" && !a.Admits:
		return a.notAllowed(" is kept for another namespace", "choose another address, or ask whoever operates the cluster to release it in CloudStack")
	}
	return nil
}

// refuses says why the Service may not use the address without the operator's grant: its network or others use it.
func (a *Address) refuses(grants Grants) *RefusalError {
	refuse := a.notAllowed
	switch {
	case a.Internal: // CloudStack keeps internal load balancers of one address apart by their ports alone
		return nil
	case a.SourceNAT && !grants.SourceNAT:
		return refuse(" is the source NAT address of the network, by which all its VMs reach the outside",
			"choose another address, or have the namespace added to the chart's value tenancy.sourceNATAddress.allow")
	case a.proven() || a.Holder != "":
		return nil // what others made there, they made on an address of ours, or its holder lives with it
	}
	foreign := func(i Item) bool { return i.Owner != Owned && i.By == "" && !grants.ForeignAddress }
	switch {
	case slices.ContainsFunc(a.Rules, foreign):
		return refuse(" carries a load balancer rule that no Service of this cluster has", foreignRemedy)
	case slices.ContainsFunc(a.Forwards, foreign):
		return refuse(" carries a port forwarding that no Service of this cluster made", foreignRemedy)
	}
	return nil
}

const foreignRemedy = "choose another address, or have the namespace added to the chart's value tenancy.foreignAddress.allow"

// NeedsDetails reports whether a rule is about to be made on an address of which it is not known which of its ports are
// forwarded, and that matters. On an address of the Service's own that matters only where a firewall rule without tags
// is on such a port: whoever made it may forward the port.
func NeedsDetails(d Desired, target *Address) bool {
	if target == nil || target.Internal || !target.joining(d) || target.ForwardsKnown {
		return false
	}
	return !target.proven() || slices.ContainsFunc(target.Firewall, func(f Item) bool {
		return f.Owner == Unknown && slices.ContainsFunc(d.Opened()[f.Protocol], func(port int) bool {
			return f.on(port) && !target.has(f.Protocol, port)
		})
	})
}

// Holder is a Service of the cluster that has or shares addresses.
type Holder struct {
	UID, Namespace, Name string
	// ShareWith are the namespaces whose Services may use its addresses besides its own; "*" is all of them.
	ShareWith []string
	// Acquired is when the cluster acquired an address for the Service, by its record; empty if it did not.
	Acquired evidence.Instant
	// Leaving means that the Service no longer wants a load balancer: it has its addresses until it is cleaned up, and keeps
	// none of them from being released.
	Leaving bool
}

// Admits reports whether Services of a namespace may use the holder's addresses.
func (h *Holder) Admits(namespace string) bool {
	return h.Namespace == namespace || slices.Contains(h.ShareWith, namespace) || slices.Contains(h.ShareWith, "*")
}

// Book is the address book: which Services the cluster has, and which addresses they have. It is the cluster's own
// knowledge, whatever rules are in CloudStack at the moment. Methods return nil where there is none.
type Book interface {
	// Holders are the Services that have an address, by its Key: the one that owns it first.
	Holders(address string) []Holder
	ByUID(uid string) *Holder
	// ByLoadBalancer finds a Service by the name of its load balancer, see LBName.
	ByLoadBalancer(name string) *Holder
	ByName(namespace, name string) *Holder
	// Reserve notes that a Service is about to use an address, which has an empty key as long as it is not known. It fails
	// while a Service of another namespace has the address and does not share it, and where the Services of the namespace
	// would have or share more than limit addresses (negative for no limit); held is how many they have.
	Reserve(uid, address string, limit int) (held int, err error)
	// ReservePorts notes that a Service is about to have n ports, unless the Services of its namespace would have more than limit:
	// then held is how many the others have. Ports that the Service has already it may keep.
	ReservePorts(uid string, n, limit int) (held int, ok bool)
}

// Key identifies the address in the address book.
func (a *Address) Key() string {
	if a.Internal {
		return a.ID
	}
	return a.IP
}

// Consult brings what the address book says of the addresses up to date.
func (a *Actual) Consult(book Book, svc Service) {
	for i := range a.Addresses {
		x := &a.Addresses[i]
		x.Holder, x.Admits, x.Shared = "", true, false
		holders := book.Holders(x.Key())
		owner := (*Holder)(nil)
		for j := range holders {
			h := &holders[j]
			x.Shared = x.Shared || h.UID != svc.UID && !h.Leaving
			// Where the role may not tag, the record of the first Service is the proof, and those that share the address have it, too.
			x.Allocated = x.Allocated || x.Owner == Unknown && h.Acquired != "" && h.Acquired == x.Acquired
			if owner == nil || h.UID == x.TaggedUID {
				owner = h
			}
		}
		switch namespace, name, tagged := strings.Cut(x.TaggedService, "/"); {
		case x.ForeignCluster, x.Owner == Owned:
			owner = nil
		case x.TaggedUID == "" || owner != nil && owner.UID == x.TaggedUID:
		case book.ByUID(x.TaggedUID) != nil:
			owner = book.ByUID(x.TaggedUID)
		case owner == nil && tagged:
			owner = &Holder{UID: x.TaggedUID, Namespace: namespace, Name: name} // it is gone
		}
		switch {
		case owner != nil && owner.UID != svc.UID:
			x.Holder, x.Admits = owner.Namespace+"/"+owner.Name, owner.Admits(svc.Namespace)
		case x.Owner != Owned && x.Keeper != "":
			namespace, _, _ := strings.Cut(x.Keeper, "/")
			x.Admits = namespace == svc.Namespace
		}
	}
}
