// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence says what is known of an object of CloudStack that should exist: a VM of a Node, a member of a rule,
// an address, what a deletion is to remove. It is pure: values in, values out.
//
// "Not there" needs proof. One answer without the object is none: it may come from another project, from an account
// that sees less than it did, or from a server that is starting.
package evidence

import (
	"cmp"
	"errors"
	"time"
)

// Pause is the least time between the two answers that a Service loses its address by.
const Pause = 5 * time.Second

// doubtAge is how long a first proof counts. It is longer than the longest wait between two attempts.
const doubtAge = 15 * time.Minute

// Evidence is what is known of one object. The zero value is unknown.
type Evidence struct {
	verdict verdict
	proof   string // that the object is absent
	err     error  // why nothing is known
}

type verdict int

const (
	unknown verdict = iota
	present
	absent
)

// Present says that CloudStack shows the object.
func Present() Evidence { return Evidence{verdict: present} }

// Absent says that the object does not exist; proof says what shows it.
func Absent(proof string) Evidence { return Evidence{verdict: absent, proof: proof} }

// Unknown says that the object may exist or not, and why that is not known.
func Unknown(err error) Evidence { return Evidence{err: err} }

// Present reports whether the object exists.
func (e Evidence) Present() bool { return e.verdict == present }

// Absent reports whether the object is proven not to exist.
func (e Evidence) Absent() bool { return e.verdict == absent }

// Err is why nothing is known of the object; nil when it is present or absent.
func (e Evidence) Err() error {
	if e.verdict != unknown {
		return nil
	}
	return cmp.Or(e.err, errNothing)
}

// errNothing is why the zero Evidence knows nothing.
var errNothing = errors.New("nothing is known of it")

// Proof is what shows that the object is absent; empty for any other.
func (e Evidence) Proof() string { return e.proof }

// errElsewhere is why an object is unknown that is looked for where nothing of the cluster is shown.
var errElsewhere = errors.New("CloudStack shows neither it nor anything else of this cluster there: project-id or " +
	"the API key in the cloud-config may be wrong")

// Missing judges a complete answer, to a question for the object by its id, that does not show it. contradicts names
// something that would not be there without the object. witness names something of ours that the same project and
// account shows, so that the question was put in the right place. Both are empty for nothing.
func Missing(contradicts, witness string) Evidence {
	switch {
	case contradicts != "":
		return Unknown(errors.New("CloudStack does not show it, but shows " + contradicts))
	case witness == "":
		return Unknown(errElsewhere)
	}
	return Absent("CloudStack does not show it, but shows " + witness)
}

// Doubts remembers objects that were found absent once, by id, and when.
type Doubts map[string]time.Time

// Twice asks for a second proof, at least a Pause after the first one. Until then it returns unknown and how long to
// wait.
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
	d[id] = now.Add(-Pause) // what follows may fail: the next attempt does not wait again
	return e, 0
}
