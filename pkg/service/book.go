// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// book is the address book: which Services of type LoadBalancer the cluster has, and which addresses they have or
// share, according to their status and records. It does not depend on the rules that exist in CloudStack.
type book struct {
	mu       sync.Mutex
	services map[types.UID]*entry

	// reservations are the reservations of addresses that Services have given up, by address. They exist only in
	// memory, so they are lost by a restart. After a restart, a Service that was refused an address earlier waits once
	// more instead, see addressUse.
	reservations map[string]reservation
	lasts        time.Duration // how long a reservation lasts; zero disables reservations
	clock        clock.PassiveClock
	began        time.Time
}

// reservation reserves an address for the namespace that had it last.
type reservation struct {
	namespace string
	until     time.Time
}

// acquisitionPause is the wait before checking again whether an address is being acquired for another Service.
const acquisitionPause = 2 * time.Second

// maxReservations is the maximum number of addresses that are reserved for a namespace. Without it, a Service that
// moves from address to address would reserve all of them.
const maxReservations = 16

// Kinds of use of an address, in ascending order of precedence. A reservation is not yet recorded on the Service. A
// record is written before the status. The record of an acquisition makes its Service the owner.
const (
	reserved = "1 reserved"
	recorded = "2 recorded"
	shown    = "3 in the status"
	acquired = "4 acquired"
)

// use is how a Service has an address.
type use struct {
	kind string
	// acquired is when the address was acquired for the Service. guestOf is the namespace that owns the address, if it
	// is another one.
	acquired evidence.Instant
	guestOf  string
}

// entry is one Service in the book.
type entry struct {
	plan.Holder
	*version                // the version that was set last
	uses     map[string]use // by address
	// acquiring is when the Service started to acquire an address that it does not know yet; zero if it is not
	// acquiring one. An earlier process may have started the acquisitions in the records.
	acquiring time.Time
	// reservedPorts is the number of ports that the current sync has reserved before it updates the status.
	reservedPorts int
}

// newBook returns an empty book. Its reservations last for the given time.
func newBook(lasts time.Duration, c clock.PassiveClock) *book {
	return &book{
		services:     map[types.UID]*entry{},
		reservations: map[string]reservation{},
		lasts:        lasts,
		clock:        c,
		began:        c.Now(),
	}
}

// clear removes all Services.
func (b *book) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.services)
}

// set updates the entry of a Service. It returns the namespaces with which the Service now shares its addresses and did
// not before.
func (b *book) set(v *version) (admitted []string) {
	svc, shareWith := v.svc, v.spec.ShareWith
	uses := usesOf(v)
	b.mu.Lock()
	defer b.mu.Unlock()

	e := b.services[svc.UID]
	if e == nil {
		e = &entry{
			version: v,
			Holder:  plan.Holder{UID: string(svc.UID), Namespace: svc.Namespace, Name: svc.Name},
		}
		b.services[svc.UID] = e
	}

	admitted = slices.DeleteFunc(slices.Clone(shareWith),
		func(n string) bool { return slices.Contains(e.ShareWith, n) })
	e.ShareWith, e.Leaving = shareWith, !v.wants
	for address := range uses {
		if e.uses[address].kind == "" {
			e.acquiring = time.Time{} // the address has been acquired, and counts from now on
		}
	}

	for address, u := range e.uses {
		// Keep a reservation until its sync ends. A Service that is being deleted has its addresses until it is cleaned
		// up, even though its status and records are removed before that.
		if u.kind > uses[address].kind && (u.kind == reserved || e.Leaving) {
			uses[address] = u
		}
	}

	if e.statusPorts != v.statusPorts {
		e.reservedPorts = 0
	}
	before := e.uses
	e.version, e.uses = v, uses
	b.reserve(e.Namespace, before, uses)
	return admitted
}

// refusedAt returns when a Service was refused an address, according to its status; the zero time if it was not.
func refusedAt(svc *corev1.Service) time.Time {
	ready := Ready(svc)
	if ready.Status != metav1.ConditionFalse ||
		ready.Reason != string(plan.ReasonNotAllowed) && ready.Reason != string(plan.ReasonAddressUnavailable) {
		return time.Time{}
	}
	return ready.LastTransitionTime.Time
}

// reserve reserves the addresses that a Service had and no longer has, unless another Service of its namespace has
// them.
func (b *book) reserve(namespace string, had, has map[string]use) {
	now := b.clock.Now()
	for address, u := range had {
		if u.kind < shown || has[address].kind != "" || b.lasts == 0 || b.has(namespace, address) {
			continue
		}

		n := 0
		maps.DeleteFunc(b.reservations, func(_ string, r reservation) bool {
			ended := !r.until.After(now)
			if r.namespace == namespace && !ended {
				n++
			}
			return ended
		})
		if n < maxReservations {
			b.reservations[address] = reservation{namespace, now.Add(b.lasts)}
		}
	}
}

// has reports whether a Service of a namespace has an address.
func (b *book) has(namespace, address string) bool {
	for _, e := range b.services {
		if e.Namespace == namespace && e.uses[address].kind != "" {
			return true
		}
	}
	return false
}

// usesOf returns the addresses that a Service has according to its status and records.
func usesOf(v *version) map[string]use {
	uses := map[string]use{}
	internal := map[string]string{} // keys of tier addresses, by IP
	for _, r := range v.spec.Records.Addresses {
		key := r.IP
		if r.Internal {
			key = r.ID
			// A record can be forged: require the status to show the address, or anybody could turn a public address
			// into one of a tier.
			if strings.HasSuffix(r.ID, "/"+r.IP) {
				internal[r.IP] = key
			}
		}
		uses[key] = use{kind: recorded, guestOf: r.GuestOf}
	}

	shows := func(ip string) {
		key := cmp.Or(internal[ip], ip)
		uses[key] = use{kind: shown, guestOf: uses[key].guestOf}
	}
	for _, ip := range v.id.StatusIPs {
		shows(ip)
	}

	c := conditionOf(v.svc, ConditionAddress)
	if c.Status == metav1.ConditionTrue {
		shows(c.Message)
	}

	for _, r := range v.spec.Records.Addresses {
		// A record alone does not make its Service the owner, because a user can write one if no admission policy
		// protects records.
		if r.Allocated && uses[r.IP].kind == shown {
			uses[r.IP] = use{kind: acquired, acquired: evidence.InstantOf(r.Acquired), guestOf: r.GuestOf}
		}
	}

	delete(uses, "")
	return uses
}

// with calls f with the entry of a Service, if the book has one.
func (b *book) with(uid types.UID, f func(*entry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.services[uid]; e != nil {
		f(e)
	}
}

// leave records that a Service no longer exists. It has its addresses until it is cleaned up and removed from the book.
func (b *book) leave(uid types.UID) {
	b.with(uid, func(e *entry) { e.Leaving = true })
}

// remove deletes a Service from the book.
func (b *book) remove(uid types.UID) {
	b.with(uid, func(e *entry) {
		delete(b.services, uid)
		b.reserve(e.Namespace, e.uses, nil)
	})
}

// settle ends the reservations of a Service: its status and records now show what it has.
func (b *book) settle(uid types.UID) {
	b.with(uid, func(e *entry) {
		e.acquiring = time.Time{}
		maps.DeleteFunc(e.uses, func(_ string, u use) bool { return u.kind == reserved })
	})
}

// addressUse returns who has an address and for whom it is reserved, see plan.Book. of is the Service that asks; it may
// be nil. The Services that have the address are ordered: first the one that acquired it, then one that shares it with
// all others, then the oldest. Guests come last.
func (b *book) addressUse(address string, acquired evidence.Instant, of *entry) (c plan.AddressUse) {
	// guest and excluding are 1 for a Service that is a guest, or does not share with all. They are computed once for
	// each Service instead of in each comparison: tenants decide how long their lists are.
	type user struct {
		*entry
		use
		guest, excluding int
	}
	var users []user
	namespaces := sets.New[string]()
	for _, e := range b.services {
		u := e.uses[address]
		// The status of a Service shows an address that it has lost until it gets another one.
		lost := acquired != "" && u.acquired != "" && u.acquired != acquired
		if u.kind != "" && !lost {
			users = append(users, user{entry: e, use: u, guest: min(len(u.guestOf), 1)})
			namespaces.Insert(e.Namespace)
		}
	}

	for i := range users {
		for namespace := range namespaces {
			if !users[i].Admits(namespace) {
				users[i].excluding = 1
			}
		}
	}

	slices.SortFunc(users, func(x, y user) int {
		return cmp.Or(
			cmp.Compare(x.guest, y.guest),
			cmp.Compare(y.kind, x.kind),
			cmp.Compare(x.excluding, y.excluding),
			x.svc.CreationTimestamp.Compare(y.svc.CreationTimestamp.Time),
			cmp.Compare(x.UID, y.UID),
		)
	})
	for _, u := range users {
		h := u.Holder
		h.Acquired, h.GuestOf, h.Proven = u.acquired, u.guestOf, u.kind != recorded
		c.Holders = append(c.Holders, h)
	}

	now := b.clock.Now()
	r := b.reservations[address]
	if of != nil {
		if refused := refusedAt(of.svc); !refused.IsZero() && refused.Before(b.began) {
			r.until = b.began.Add(b.lasts) // an earlier process may have reserved it
		}
	}

	if c.Reserved = max(0, r.until.Sub(now)); c.Reserved > 0 {
		c.ReservedFor = r.namespace
	}
	return c
}

// Use implements plan.Book.
func (b *book) Use(address string, acquired evidence.Instant, uid string) plan.AddressUse {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addressUse(address, acquired, b.services[types.UID(uid)])
}

// Find implements plan.Book.
func (b *book) Find(meant func(*plan.Holder) bool) (found *plan.Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.services {
		if meant(&e.Holder) && (found == nil || found.Leaving) {
			found = new(e.Holder)
		}
	}
	return found
}

// ByUID implements plan.Book.
func (b *book) ByUID(uid string) (found *plan.Holder) {
	b.with(types.UID(uid), func(e *entry) { found = new(e.Holder) })
	return found
}

// Reserve implements plan.Book.
func (b *book) Reserve(uid string, w plan.Wish) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.services[types.UID(uid)]
	if e == nil {
		return nil // the Service is being removed and reserves nothing new
	}
	if e.uses[w.Address].kind == "" {
		if err := b.mayUse(e, w); err != nil {
			return err
		}
	}
	if err := b.mayHavePorts(e, w); err != nil {
		return err
	}

	e.reservedPorts = w.Ports
	switch {
	case w.Address == "":
		e.acquiring = b.clock.Now()
	case e.uses[w.Address].kind == "":
		e.uses[w.Address] = use{kind: reserved}
	}
	return nil
}

// mayUse returns why a Service may not use one more address; nil if it may use one.
func (b *book) mayUse(e *entry, w plan.Wish) error {
	found := b.addressUse(w.Address, w.Tags.Acquired, e)
	found.Tagged, found.TaggedUID = w.Tags.Tagged, w.Tags.TaggedUID
	if refusal := found.Refuses(path.Base(w.Address), e.Namespace); refusal != nil && w.Address != "" {
		return refusal
	}

	if len(found.Holders) == 0 && w.Tags.Tagged == "" && b.mayBeOnItsWay(e, w.Tags.Acquired) {
		return &plan.WaitError{
			Message: "address " + w.Address + " was acquired a moment ago, perhaps for another Service",
			After:   acquisitionPause,
		}
	}

	count, counted := b.countAddresses(e, w.Address)
	if most := w.Grants.MaxAddresses; most >= 0 && !counted && count+w.KeepIP >= most {
		return plan.Refuse(plan.ReasonNotAllowed,
			fmt.Sprintf("namespace %s has %d addresses, and may have %d (tenancy.limits.maxAddressesPerNamespace)",
				e.Namespace, count+w.KeepIP, most),
			"share one of them ("+annotation.Address+"), delete a Service, or have the limit raised")
	}

	return nil
}

// mayHavePorts returns why a Service may not have as many ports as it requests; nil if it may.
func (b *book) mayHavePorts(e *entry, w plan.Wish) error {
	count := 0
	for _, other := range b.services {
		if other != e && other.Namespace == e.Namespace {
			count += other.ports()
		}
	}

	most := w.Grants.MaxAllPorts
	if most < 0 || w.Ports <= e.ports() || count+w.Ports <= most {
		return nil
	}
	return plan.Refuse(plan.ReasonNotAllowed,
		fmt.Sprintf("the other Services of namespace %s have %d ports, this one asks for %d, and %d are allowed in "+
			"all (tenancy.limits.maxPortsPerNamespace)",
			e.Namespace, count, w.Ports, most),
		"use fewer ports, delete a Service, or ask your cluster's operator, who can raise the limit")
}

// mayBeOnItsWay reports whether an address that was acquired at a given time may be the one that is being acquired for
// another Service: the acquisition may have succeeded before its Service has a record of the address.
func (b *book) mayBeOnItsWay(of *entry, acquired evidence.Instant) bool {
	at := acquired.Time()
	near := func(since time.Time) bool { return !at.IsZero() && at.Sub(since).Abs() < plan.ClockSkew }
	for _, e := range b.services {
		pending := slices.ContainsFunc(e.spec.Records.Pending,
			func(p annotation.PendingAllocation) bool { return near(p.Since) })
		if e != of && (pending || near(e.acquiring)) {
			return true
		}
	}
	return false
}

// countAddresses returns the number of addresses that Services of the entry's namespace have, share or are about to
// acquire. counted reports whether the given address is among them.
func (b *book) countAddresses(of *entry, address string) (n int, counted bool) {
	addresses := map[string]bool{}
	for _, e := range b.services {
		if e.Namespace != of.Namespace {
			continue
		}
		unknown := !e.acquiring.IsZero()
		for _, p := range e.spec.Records.Pending {
			if p.IP != "" {
				addresses[p.IP] = true
			}
			unknown = unknown || p.IP == ""
		}

		if unknown && e != of {
			n++
		}
		for a := range e.uses {
			addresses[a] = true
		}
	}

	return n + len(addresses), addresses[address]
}

// ports returns the number of ports that the Service has or is about to have.
func (e *entry) ports() int { return max(e.statusPorts, e.reservedPorts) }
