// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence represents what is known about the existence of an object in CloudStack: the VM of a Node, a member
// of a rule, an address, or what a deletion should remove. It makes no calls.
//
// That an object does not exist needs a proof. One answer without the object is none: it may come from another project,
// from an account that sees less than before, or from a server that is starting.
package evidence

import (
	"cmp"
	"errors"
	"time"
)

// Pause is the minimum time between the two answers after which a Service loses its address.
const Pause = 5 * time.Second

// doubtAge is how long a first proof remains valid. It is longer than the longest wait between two attempts.
const doubtAge = 15 * time.Minute

// Evidence is what is known about one object. The zero value is unknown.
type Evidence struct {
	verdict verdict
	proof   string // what shows that the object is absent
	err     error  // why nothing is known
}

type verdict int

const (
	unknown verdict = iota
	present
	absent
)

// Present returns the evidence that CloudStack shows the object.
func Present() Evidence { return Evidence{verdict: present} }

// Absent returns the evidence that the object does not exist; proof says what shows that.
func Absent(proof string) Evidence { return Evidence{verdict: absent, proof: proof} }

// Unknown returns the evidence of an object that may exist or not; err says why that is not known.
func Unknown(err error) Evidence { return Evidence{err: err} }

// Present reports whether the object exists.
func (e Evidence) Present() bool { return e.verdict == present }

// Absent reports whether the object is proven not to exist.
func (e Evidence) Absent() bool { return e.verdict == absent }

// Err returns why nothing is known about the object; nil if it is present or absent.
func (e Evidence) Err() error {
	if e.verdict != unknown {
		return nil
	}
	return cmp.Or(e.err, errNothing)
}

// errNothing is the error of the zero Evidence.
var errNothing = errors.New("nothing is known of it")

// Proof returns what shows that the object is absent; empty if it is not.
func (e Evidence) Proof() string { return e.proof }

// errElsewhere is the error for an object whose project shows nothing of the cluster.
var errElsewhere = errors.New("CloudStack shows neither it nor anything else of this cluster there: project-id or " +
	"the API key in the cloud-config may be wrong")

// Missing returns the evidence from a complete answer that does not show the object although its id was asked for.
// contradicts names something that could not exist without the object. witness names something of ours that the same
// project and account shows, which proves that the right place was asked. Each is empty if there is no such thing.
func Missing(contradicts, witness string) Evidence {
	switch {
	case contradicts != "":
		return Unknown(errors.New("CloudStack does not show it, but shows " + contradicts))
	case witness == "":
		return Unknown(errElsewhere)
	}
	return Absent("CloudStack does not show it, but shows " + witness)
}

// Doubts are the objects that were found absent once, by id, and when that was.
type Doubts map[string]time.Time

// Twice requires a second proof, at least a Pause after the first one. Until then it returns unknown evidence and how
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
		return Unknown(errors.New(e.proof + "; it is asked for again")), wait
	}
	// If what follows fails, the next attempt need not wait again.
	d[id] = now.Add(-Pause)
	return e, 0
}
