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
// Services of other namespaces are guests: they get ports while a Service of the owning namespace shares the address
// with their namespace, and keep the ports that they have.

// Holder is a Service of this cluster that has or shares addresses.
type Holder struct {
	UID, Namespace, Name string
	// ShareWith are the other namespaces whose Services may use its addresses; "*" means all.
	ShareWith []string
	// Acquired is when the cluster acquired an address for the Service, according to its record; empty if it did not.
	Acquired evidence.Instant
	// GuestOf is the namespace that owns the address, according to the record of a Service in another namespace.
	GuestOf string
	// Proven means that the Service's status, or a reservation of this process, shows that it has the address, and not
	// only a record.
	Proven bool
	// Leaving means that the Service no longer wants a load balancer. It has its addresses until it is cleaned up, but
	// does not prevent their release.
	Leaving bool
}

// Admits reports whether Services of a namespace may use the holder's addresses.
func (h *Holder) Admits(namespace string) bool {
	return h.Namespace == namespace || slices.Contains(h.ShareWith, namespace) || slices.Contains(h.ShareWith, "*")
}

// AddressUse is who has an address and for whom it is reserved, according to the address book and the address's tags.
type AddressUse struct {
	// Tagged is the namespace that the tags of the address name as the owner. TaggedUID is the Service of that
	// namespace that has the address.
	Tagged, TaggedUID string
	// Acquired is when the account acquired the address, if CloudStack shows it.
	Acquired evidence.Instant
	// Holders are the Services that have the address, according to the address book. The one that had it first comes
	// first.
	Holders []Holder
	// Reserved is how much longer the address is reserved for the namespace ReservedFor, whose Service had it last. The
	// namespace is empty if it is no longer known.
	Reserved    time.Duration
	ReservedFor string
}

// Owner returns the namespace that owns the address; empty if there is none. decides is the Service of that namespace
// that decides who shares the address; nil if no Service of it has the address.
func (c *AddressUse) Owner() (namespace string, decides *Holder) {
	namespace = c.Tagged
	tagged := slices.IndexFunc(c.Holders, func(h Holder) bool { return h.UID == c.TaggedUID })
	switch {
	case namespace != "":
	case tagged >= 0:
		namespace = c.Holders[tagged].Namespace
	case len(c.Holders) > 0:
		namespace = cmp.Or(c.Holders[0].GuestOf, c.Holders[0].Namespace) // guests come last
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

// Users reports whether a Service has the address, and whether others have it that are not leaving.
func (c *AddressUse) Users(uid string) (own, others bool) {
	for _, h := range c.Holders {
		own = own || h.UID == uid
		others = others || h.UID != uid && !h.Leaving
	}
	return own, others
}

// Refuses returns why a Service of a namespace may not get ports on an address; nil if it may. The message names no
// other Service or namespace, because everyone who can edit the Service can read it.
func (c *AddressUse) Refuses(address, namespace string) *RefusalError {
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

// Book is the address book: which Services the cluster has, and which addresses they have. It contains what the cluster
// itself knows, independent of the rules that exist in CloudStack. Methods that return a pointer return nil if there is
// no such Service.
type Book interface {
	// Use returns the use of an address, given by its Key, since it was acquired at a time: Services whose records are
	// of another acquisition have lost it. acquired may be empty for any. uid is the Service that asks; empty for none.
	Use(address string, acquired evidence.Instant, uid string) AddressUse
	ByUID(uid string) *Holder
	// Find returns the Service that meant selects. If it selects several, one that still exists takes precedence.
	Find(meant func(*Holder) bool) *Holder
	// Reserve records what a Service is about to have, or returns why it may not have that. Ports that the Service has
	// already are always allowed.
	Reserve(uid string, w Wish) error
}

// Wish is what a Service is about to have.
type Wish struct {
	// Address is the key of an address; empty while the address is not known.
	Address string
	// Tags is what the tags of the address say.
	Tags AddressUse
	// Ports is how many ports the Service will have.
	Ports int
	// KeepIP is the number of addresses that are kept for the namespace. Grants has its limits.
	KeepIP int
	Grants Grants
}

// Key identifies the address in the address book.
func (a *Address) Key() string {
	if a.Internal {
		return a.ID
	}
	return a.IP
}

// TaggedUse returns what the tags of the address say about its owner. A tag without the UID of a Service was left by a
// Service that was deleted before the guests on the address. It counts only while some Service uses the address.
func (a *Address) TaggedUse(holders int) (c AddressUse) {
	c.Acquired = a.Acquired
	if a.ForeignCluster || a.Keeper == "" && a.TaggedUID == "" && holders == 0 {
		return c
	}
	c.TaggedUID = a.TaggedUID
	c.Tagged, _, _ = strings.Cut(cmp.Or(a.Keeper, a.TaggedService), "/")
	return c
}

// Consult updates the fields of all addresses that come from the address book.
func (a *Actual) Consult(book Book, svc Service) {
	for i := range a.Addresses {
		x := &a.Addresses[i]
		use := book.Use(x.Key(), x.Acquired, svc.UID)
		x.Use = x.TaggedUse(len(use.Holders))
		use.Tagged, use.TaggedUID = x.Use.Tagged, x.Use.TaggedUID

		_, x.Shared = use.Users(svc.UID)
		x.Has = false
		x.Known = use.ReservedFor == svc.Namespace
		for _, h := range use.Holders {
			x.Has = x.Has || h.UID == svc.UID && h.Proven
			x.Known = x.Known || h.Proven
			// If the role may not tag, the record of the first Service is the proof. It also proves the ownership for
			// the Services that share the address.
			x.Allocated = x.Allocated || x.Owner == Unknown && h.Acquired != ""
		}

		x.Holder, x.GuestOf, x.Refusal = "", "", nil
		if x.ForeignCluster || x.Owner == Owned {
			continue
		}

		x.Refusal = use.Refuses(x.IP, svc.Namespace)
		owner, decides := use.Owner()
		if owner != svc.Namespace {
			x.GuestOf = owner
		}
		switch {
		case decides != nil && decides.UID != svc.UID:
			x.Holder = decides.Namespace + "/" + decides.Name
		case decides == nil && x.TaggedUID != "":
			x.Holder = x.TaggedService // the tagged Service no longer exists
		}
	}
}

// tagged reports whether the address should have tags with the Service's name: the Service must be the first that has
// it. An address with the tags of another Service, or with items of others, gets none.
func (a *Address) tagged() bool {
	first := a.Holder == "" && a.GuestOf == "" && a.Keeper == "" && !a.ForeignCluster && !a.Internal && !a.Lost
	alone := a.Allocated || a.ForwardsKnown && !a.SourceNAT && !a.StaticNAT && !a.carries(ofNobodyHere)
	return first && alone && (a.Owner == Owned || a.TaggedUID == "")
}

// ofOthers reports whether an item does not belong to the Service.
func ofOthers(i Item) bool { return i.Owner != Owned }

// ofNobodyHere reports whether no Service of the cluster is known to own an item.
func ofNobodyHere(i Item) bool { return ofOthers(i) && i.By == "" }

// carries reports whether the address has a load balancer rule or a port forwarding that matches.
func (a *Address) carries(item func(Item) bool) bool {
	return slices.ContainsFunc(a.Rules, item) || slices.ContainsFunc(a.Forwards, item)
}
