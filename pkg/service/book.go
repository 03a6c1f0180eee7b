// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// book is the address book: which Services of type LoadBalancer the cluster has, and which addresses they have or share, by
// what the Services themselves say. Whether a rule is in CloudStack at the moment decides nothing.
type book struct {
	mu       sync.Mutex
	services map[types.UID]*entry
}

// Kinds of use of an address, the strongest last. Of a reservation nothing is on the Service yet; a record is written
// before the status; a record of an acquisition makes its Service the owner.
const (
	reserved = "1 reserved"
	recorded = "2 recorded"
	shown    = "3 in the status"
	acquired = "4 acquired"
)

// entry is one Service in the book.
type entry struct {
	plan.Holder
	created time.Time
	uses    map[string]string // kinds of use by address
	// acquisitions are when addresses were acquired for the Service.
	acquisitions map[string]string
	// acquiring means that the Service is about to acquire an address that is not known yet; pending are the acquisitions that
	// its records name, which may be those of an earlier process.
	acquiring bool
	pending   []annotation.PendingAllocation
	// shownPorts are those of the status, reservedPorts those of a sync that has not shown them yet.
	shownPorts, reservedPorts int
}

func newBook() *book { return &book{services: map[types.UID]*entry{}} }

// clear forgets all Services.
func (b *book) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.services)
}

// set brings the entry of a Service up to date. It returns the namespaces with which the Service shares its addresses now, and
// did not before.
func (b *book) set(v *version) (admitted []string) {
	svc, shareWith := v.svc, v.shareWith
	uses, acquisitions := usesOf(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.services[svc.UID]
	if e == nil {
		e = &entry{Holder: plan.Holder{UID: string(svc.UID), Namespace: svc.Namespace, Name: svc.Name}, created: svc.CreationTimestamp.Time}
		b.services[svc.UID] = e
	}
	admitted = slices.DeleteFunc(slices.Clone(shareWith), func(n string) bool { return slices.Contains(e.ShareWith, n) })
	e.ShareWith, e.Leaving = shareWith, !wants(svc)
	for address := range uses {
		if _, known := e.uses[address]; !known {
			e.acquiring = false // it has been acquired, and counts as an address from now on
		}
	}
	for address, kind := range e.uses {
		// A reservation lasts until its sync ends. A Service without a finalizer keeps what it has until it is cleaned up.
		if _, still := uses[address]; !still && (kind == reserved || !Handles(svc)) {
			uses[address] = kind
		}
	}
	e.uses, e.acquisitions, e.pending = uses, acquisitions, v.records.Pending
	if e.shownPorts != v.statusPorts {
		e.shownPorts, e.reservedPorts = v.statusPorts, 0
	}
	return admitted
}

// usesOf returns the addresses that a Service has by its status and records, and when those were acquired that it owns.
func usesOf(v *version) (uses, acquisitions map[string]string) {
	uses, acquisitions = map[string]string{}, map[string]string{}
	svc, records := v.svc, v.records
	internal := map[string]string{} // keys of addresses of tiers, by IP
	for i := range records.Addresses {
		r := &records.Addresses[i]
		key := r.IP
		if r.Internal {
			key = r.ID
			if strings.HasSuffix(r.ID, "/"+r.IP) { // or a forged record makes any address the one of a tier
				internal[r.IP] = key
			}
		}
		uses[key] = recorded
	}
	for _, ip := range v.statusIPs {
		uses[cmp.Or(internal[ip], ip)] = shown
	}
	if shows := apimeta.FindStatusCondition(svc.Status.Conditions, ConditionAddress); shows != nil && shows.Status == metav1.ConditionTrue {
		uses[cmp.Or(internal[shows.Message], shows.Message)] = shown
	}
	for i := range records.Addresses {
		// A record alone, which anybody may have written where no policy protects it, does not make an owner.
		if r := &records.Addresses[i]; r.Allocated && uses[r.IP] == shown {
			uses[r.IP], acquisitions[r.IP] = acquired, r.Acquired
		}
	}
	delete(uses, "")
	return uses, acquisitions
}

// leave notes that a Service does not exist any more. It has its addresses until it is cleaned up, and removed.
func (b *book) leave(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.services[uid]; e != nil {
		e.Leaving = true
	}
}

// remove deletes a Service from the book.
func (b *book) remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.services, uid)
}

// settle ends the reservations of a Service: its status and records say what it has.
func (b *book) settle(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.services[uid]; e != nil {
		e.acquiring = false
		maps.DeleteFunc(e.uses, func(_, kind string) bool { return kind == reserved })
	}
}

// holders returns the Services that have an address, the owner first: the one that acquired it, then the oldest.
func (b *book) holders(address string) (out []plan.Holder) {
	var users []*entry
	for _, e := range b.services {
		if e.uses[address] != "" {
			users = append(users, e)
		}
	}
	slices.SortFunc(users, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(y.uses[address], x.uses[address]), x.created.Compare(y.created), cmp.Compare(x.UID, y.UID))
	})
	for _, e := range users {
		h := e.Holder
		h.Acquired = evidence.InstantOf(e.acquisitions[address])
		out = append(out, h)
	}
	return out
}

// Holders implements plan.Book.
func (b *book) Holders(address string) []plan.Holder {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holders(address)
}

// find returns the Service that is meant, nil without one; of two the one that still exists.
func (b *book) find(meant func(*entry) bool) (found *plan.Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.services {
		if meant(e) && (found == nil || found.Leaving) {
			found = new(e.Holder)
		}
	}
	return found
}

// ByUID implements observe.Book.
func (b *book) ByUID(uid string) (found *plan.Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.services[types.UID(uid)]; e != nil {
		found = new(e.Holder)
	}
	return found
}

// ByLoadBalancer implements observe.Book.
func (b *book) ByLoadBalancer(name string) *plan.Holder {
	return b.find(func(e *entry) bool { return plan.LBName(e.UID) == name })
}

// ByName implements observe.Book.
func (b *book) ByName(namespace, name string) *plan.Holder {
	return b.find(func(e *entry) bool { return e.Namespace == namespace && e.Name == name })
}

// Reserve implements plan.Book.
func (b *book) Reserve(uid, address string, limit int) (held int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.services[types.UID(uid)]
	if e == nil {
		return 0, nil // it is being removed, and uses nothing new
	}
	if _, has := e.uses[address]; has && address != "" {
		return 0, nil
	}
	if owners := b.holders(address); len(owners) > 0 && !owners[0].Admits(e.Namespace) { // nobody has the address ""
		return 0, loadbalancer.ErrNotShared
	}
	if limit >= 0 {
		held, counted := b.held(e, address)
		if !counted && held >= limit {
			return held, loadbalancer.ErrTooMany
		}
	}
	if address == "" {
		e.acquiring = true
		return 0, nil
	}
	e.uses[address] = reserved
	return 0, nil
}

// held counts the addresses that Services of the entry's namespace have, share or are about to acquire. counted reports
// whether the given one is among them.
func (b *book) held(of *entry, address string) (n int, counted bool) {
	addresses := map[string]bool{}
	for _, e := range b.services {
		if e.Namespace != of.Namespace {
			continue
		}
		unknown := e.acquiring
		for _, p := range e.pending {
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

// ReservePorts implements plan.Book.
func (b *book) ReservePorts(uid string, n, limit int) (held int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.services[types.UID(uid)]
	if e == nil || limit < 0 {
		return 0, true
	}
	for _, other := range b.services {
		if other != e && other.Namespace == e.Namespace {
			held += other.ports()
		}
	}
	if n > e.ports() && held+n > limit {
		return held, false
	}
	e.reservedPorts = n
	return held, true
}

// ports are how many ports the Service has or is about to have.
func (e *entry) ports() int { return max(e.shownPorts, e.reservedPorts) }
