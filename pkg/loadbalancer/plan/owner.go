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
)

// An address belongs to the namespace whose Service had it first, for as long as a Service uses it or it is kept.
// Services of other namespaces are guests: they get ports while a Service of the owner's namespace shares the address
// with theirs, and keep the ports that they have.

// Holder is a Service of the cluster that has or shares addresses.
type Holder struct {
	UID, Namespace, Name string
	// ShareWith are the namespaces whose Services may use its addresses besides its own; "*" is all of them.
	ShareWith []string
	// Acquired is when the cluster acquired an address for the Service, by its record; empty if it did not.
	Acquired evidence.Instant
	// GuestOf is the namespace to which an address belongs, by the record of a Service of another namespace.
	GuestOf string
	// Proven means that more than a record says that the Service has an address: its status, or a reservation of this
	// process.
	Proven bool
	// Leaving means that the Service no longer wants a load balancer: it has its addresses until it is cleaned up, and
	// keeps none of them from being released.
	Leaving bool
}

// Admits reports whether Services of a namespace may use the holder's addresses.
func (h *Holder) Admits(namespace string) bool {
	return h.Namespace == namespace || slices.Contains(h.ShareWith, namespace) || slices.Contains(h.ShareWith, "*")
}

// Claim is what is known of whose an address is.
type Claim struct {
	// Tagged is the namespace that the address's tags name as the owner, and TaggedUID the Service of it that has the
	// address.
	Tagged, TaggedUID string
	// Acquired is when the account acquired it, if CloudStack shows it.
	Acquired evidence.Instant
	// Holders are the Services that have the address, by the address book: the one that had it first comes first.
	Holders []Holder
	// Reserved is how long the address is reserved for the namespace ReservedFor, whose Service had it last. The
	// namespace is empty where it is not known any more.
	Reserved    time.Duration
	ReservedFor string
}

// Owner returns the namespace to which the address belongs, empty for none, and the Service of it that decides who
// shares the address, nil where none has it.
func (c *Claim) Owner() (namespace string, decides *Holder) {
	namespace = c.Tagged
	tagged := slices.IndexFunc(c.Holders, func(h Holder) bool { return h.UID == c.TaggedUID })
	first := slices.IndexFunc(c.Holders, func(h Holder) bool { return h.GuestOf == "" })
	switch {
	case namespace != "":
	case tagged >= 0:
		namespace = c.Holders[tagged].Namespace
	case first >= 0:
		namespace = c.Holders[first].Namespace
	case len(c.Holders) > 0:
		namespace = c.Holders[0].GuestOf
	default:
		namespace = c.ReservedFor
	}

	for i := range c.Holders {
		h := &c.Holders[i]
		if h.Namespace == namespace && (decides == nil || h.UID == c.TaggedUID) {
			decides = h
		}
	}
	return namespace, decides
}

// Users reports whether a Service has the address, and whether others have it that do not leave it.
func (c *Claim) Users(uid string) (own, others bool) {
	for i := range c.Holders {
		h := &c.Holders[i]
		own = own || h.UID == uid
		others = others || h.UID != uid && !h.Leaving
	}
	return own, others
}

// Refuses returns why a Service of a namespace may not get ports on an address; nil if it may. It names nobody: whoever
// may write the Service reads it.
func (c *Claim) Refuses(address, namespace string) *RefusalError {
	const another = "choose another address, or have its Service annotated with " + annotation.ShareWith +
		" and this Service's namespace"
	owner, decides := c.Owner()
	refuse := func(message, remedy string) *RefusalError {
		return Refuse(ReasonNotAllowed, "address "+address+message, remedy)
	}
	switch {
	case decides != nil && decides.Admits(namespace), decides == nil && owner != "" && owner == namespace:
		return nil
	case decides != nil:
		return refuse(" belongs to a Service of another namespace, which does not share it", another)
	case c.Tagged == "" && len(c.Holders) == 0 && c.Reserved > 0:
		refusal := refuse(" is reserved for some minutes for the namespace that had it last "+
			"(tenancy.addressReservation)",
			"choose another address, or wait: the Service is tried again at the end")
		refusal.After = c.Reserved
		return refusal
	case owner != "":
		return refuse(" is kept for another namespace, whose Service had it first",
			"choose another address, or ask whoever operates the cluster to release it in CloudStack or to hand it "+
				"over (csccm adopt)")
	}

	return nil
}

// Book is the address book: which Services the cluster has, and which addresses they have. It is the cluster's own
// knowledge, whatever rules are in CloudStack at the moment. Methods return nil where there is none.
type Book interface {
	// Claim is what the book knows of an address, by its Key, for the Service of that UID.
	Claim(address, uid string) Claim
	ByUID(uid string) *Holder
	// Find returns the Service that is meant; of two the one that still exists.
	Find(meant func(*Holder) bool) *Holder
	// Reserve notes that a Service is about to have what it wishes, unless it may not. It may keep the ports that it
	// has.
	Reserve(uid string, w Wish) error
}

// Wish is what a Service is about to have.
type Wish struct {
	// Address is the key of an address; empty as long as that is not known.
	Address string
	// Tags are what the tags of the address say.
	Tags Claim
	// Ports is how many ports the Service will have.
	Ports int
	// Kept is how many addresses are kept for the namespace, whose limits Grants has.
	Kept   int
	Grants Grants
}

// Key identifies the address in the address book.
func (a *Address) Key() string {
	if a.Internal {
		return a.ID
	}
	return a.IP
}

// Claimed is what the tags of the address say of whose it is. A tag without the UID of a Service was left when its
// Service went before the guests: it counts while somebody uses the address.
func (a *Address) Claimed(holders int) (c Claim) {
	c.Acquired = a.Acquired
	if a.ForeignCluster || a.Keeper == "" && a.TaggedUID == "" && holders == 0 {
		return c
	}
	c.TaggedUID = a.TaggedUID
	c.Tagged, _, _ = strings.Cut(cmp.Or(a.Keeper, a.TaggedService), "/")
	return c
}

// Consult brings what the address book says of the addresses up to date.
func (a *Actual) Consult(book Book, svc Service) {
	for i := range a.Addresses {
		x := &a.Addresses[i]
		claim := book.Claim(x.Key(), svc.UID)
		x.Claim = x.Claimed(len(claim.Holders))
		claim.Tagged, claim.TaggedUID = x.Claim.Tagged, x.Claim.TaggedUID

		_, x.Shared = claim.Users(svc.UID)
		x.Has = false
		x.Known = claim.ReservedFor == svc.Namespace
		for j := range claim.Holders {
			h := &claim.Holders[j]
			x.Has = x.Has || h.UID == svc.UID && h.Proven
			x.Known = x.Known || h.Proven
			// Where the role may not tag, the record of the first Service is the proof, and those that share the
			// address have it, too.
			x.Allocated = x.Allocated || x.Owner == Unknown && h.Acquired != "" && h.Acquired == x.Acquired
		}

		x.Holder, x.GuestOf, x.Refusal = "", "", nil
		if x.ForeignCluster || x.Owner == Owned {
			continue
		}
		x.Refusal = claim.Refuses(x.IP, svc.Namespace)
		owner, decides := claim.Owner()
		if owner != svc.Namespace {
			x.GuestOf = owner
		}
		switch {
		case decides != nil && decides.UID != svc.UID:
			x.Holder = decides.Namespace + "/" + decides.Name
		case decides == nil && x.TaggedUID != "":
			x.Holder = x.TaggedService // it is gone
		}
	}
}

// tagged reports whether the tags of the address are to name the Service: it has the address first. An address that has
// the tags of another one, or something of others on it, gets none.
func (a *Address) tagged() bool {
	first := a.Holder == "" && a.GuestOf == "" && a.Keeper == "" && !a.ForeignCluster && !a.Internal && !a.Lost
	alone := a.Allocated || a.ForwardsKnown && !a.SourceNAT && !a.StaticNAT && !a.carries(ofNobodyHere)
	return first && alone && (a.Owner == Owned || a.TaggedUID == "")
}

func ofOthers(i Item) bool { return i.Owner != Owned }

// ofNobodyHere reports whether no Service of the cluster is known to have an item.
func ofNobodyHere(i Item) bool { return ofOthers(i) && i.By == "" }

// carries reports whether there is such a load balancer rule or port forwarding on the address.
func (a *Address) carries(item func(Item) bool) bool {
	return slices.ContainsFunc(a.Rules, item) || slices.ContainsFunc(a.Forwards, item)
}
