// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"github.com/csccm/csccm/test/cloud/must"
)

// acquireForNow acquires an address by hand, which is released at the end of the scenario.
func (e *env) acquireForNow() string {
	ip, id := e.acquire()
	e.cleanup(func() {
		if e.addresses()[ip] == id {
			e.release(id)
		}
	})
	return ip
}

// ownAddress uses an address that an operator acquired; it is never released.
func ownAddress(e *env) string {
	ip := e.acquireForNow()
	got := e.served("web", set("address", ip))
	must.Be(got == ip, "served at %s, want %s", got, ip)
	e.serves(ip, "80")
	e.remove("web")
	must.Be(e.addresses()[ip] != "", "the controller released %s, which an operator had acquired", ip)
	left := len(e.rules(ip))
	must.Be(left == 0, "%d rules are left at %s", left, ip)
	return "used, its rules removed, not released"
}

// sharedAndKept shares an address in a namespace and with another one, and keeps it when its Service goes.
func sharedAndKept(e *env) string {
	other := &env{place: e.place, ctx: e.ctx, namespace: e.namespace[:min(len(e.namespace), 56)] + "-other"}
	other.makeNamespace()
	e.cleanup(func() {
		other.ctx = e.ctx
		other.removeAll()
	})
	ip := e.served("first", set("keep-ip", "true"))
	e.served("second", set("address", ip), ports(443))
	other.create("third", set("address", ip), ports(8443))
	other.event("third", "NotAllowed")
	e.edit("first", set("share-with", other.namespace))
	// A change of the Service ends its wait for the next attempt.
	other.edit("third", ports(8443, 8444))
	other.address("third")
	e.serves(ip, "80", "443", "8443", "8444")
	other.remove("third")
	e.remove("second", "first")
	kept := e.addresses()[ip]
	must.Be(kept != "", "%s was to be kept, and is released", ip)
	again := e.served("again", set("address", ip))
	must.Be(again == ip, "the kept address %s became %s", ip, again)
	e.remove("again")
	if e.addresses()[ip] != "" {
		e.release(kept)
	}
	return "two Services of a namespace, a third with leave; kept, used again"
}

// addressChanges moves a living Service from one address to another.
func addressChanges(e *env) string {
	ip := e.served("web")
	to := e.acquireForNow()
	e.edit("web", set("address", to))
	e.until("the Service to be at "+to, func() {
		in := e.ingress("web")
		must.Be(len(in) == 1 && in[0].IP == to, "ingress is %v", in)
	})
	e.serves(to, "80")
	e.released(ip)
	e.remove("web")
	return "the new address serves, the old one is released"
}
