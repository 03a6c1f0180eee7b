// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence represents what is known about a CloudStack object that should exist: a VM of a Node, a member of a
// rule, an address, or an object to delete. It is pure: no calls, no clock.
//
// That an object does not exist needs proof. One answer without the object is no proof: it may come from another
// project, from an account that has lost permissions, or from a server that is starting.
package evidence

import (
	"cmp"
	"errors"
	"time"
)

// Pause is the shortest time between the two answers after which a Service gives up its address.
const Pause = 5 * time.Second

// doubtAge is how long a first proof is remembered. It is longer than the longest pause between two attempts.
const doubtAge = 15 * time.Minute

// Evidence is what is known of one object. The zero value is unknown.
type Evidence struct {
	present bool
	proof   string // what shows that the object is absent; empty unless it is
	err     error  // why nothing is known
}

// Present returns the Evidence that CloudStack shows the object.
func Present() Evidence { return Evidence{present: true} }

// Absent returns the Evidence that the object does not exist; proof says what shows it. Without proof it is unknown.
func Absent(proof string) Evidence { return Evidence{proof: proof} }

// Unknown returns the Evidence that the object may or may not exist; err says why that is not known.
func Unknown(err error) Evidence { return Evidence{err: err} }

// Present reports whether the object exists.
func (e Evidence) Present() bool { return e.present }

// Absent reports whether the object is proven not to exist.
func (e Evidence) Absent() bool { return e.proof != "" }

// Err returns why nothing is known about the object; nil if it is present or absent.
func (e Evidence) Err() error {
	if e.Present() || e.Absent() {
		return nil
	}
	return cmp.Or(e.err, errors.New("nothing is known about it")) // the latter for the zero value
}

// Proof returns what shows that the object is absent; empty for any other Evidence.
func (e Evidence) Proof() string { return e.proof }

// Missing returns the Evidence of a complete answer, to a query for the object's ID, that does not contain the object.
// contradicts names something that could not exist without the object. proof names an object of ours in the same
// project and account, which proves that the query went to the right place. Both may be empty.
func Missing(contradicts, proof string) Evidence {
	switch {
	case contradicts != "":
		return Unknown(errors.New("CloudStack does not show it, but shows " + contradicts))
	case proof == "":
		return Unknown(errors.New("CloudStack shows neither it nor anything else of this cluster there: " +
			"project-id or the API key in the cloud-config may be wrong"))
	}
	return Absent("CloudStack does not show it, but shows " + proof)
}

// Doubts records when objects were first found absent, by ID.
type Doubts map[string]time.Time

// Twice requires a second proof of absence, at least a Pause after the first one. Until then it returns unknown and how
// long to wait.
func (d Doubts) Twice(id string, e Evidence, now time.Time) (Evidence, time.Duration) {
	if !e.Absent() {
		delete(d, id)
		return e, 0
	}

	first, doubted := d[id]
	if !doubted || now.Sub(first) > doubtAge {
		d[id], first = now, now
	}

	if wait := Pause - now.Sub(first); wait > 0 {
		return Unknown(errors.New(e.proof + "; checking again")), wait
	}
	d[id] = now.Add(-Pause) // if the next step fails, the next attempt does not wait again
	return e, 0
}
