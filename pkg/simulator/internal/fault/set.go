// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
)

// Entry is a fault with its counters.
type Entry struct {
	Fault
	ID         int
	seen, hits int
}

// Armed is an armed fault with the number of calls that matched and that it hit.
type Armed struct {
	ID    int    `json:"id"`
	Fault string `json:"fault"` // in the format of ParseFault
	Seen  int    `json:"seen"`  // matching calls since it was armed
	Hits  int    `json:"hits"`  // of these, the calls that the fault hit
}

// Set holds the armed faults.
type Set struct {
	Count atomic.Int32 // number of armed faults, to skip the lock if it is 0

	mu     sync.Mutex
	random *rand.Rand
	next   int
	armed  []*Entry
}

// Seed starts the random sequence for probabilities.
func (s *Set) Seed(n uint64) { s.random = rand.New(rand.NewPCG(n, 0)) } //nolint:gosec // must be repeatable, not secret

// Inject arms a fault; remove disarms it.
func (s *Set) Inject(f Fault) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	a := &Entry{Fault: f, ID: s.next}
	s.armed = append(s.armed, a)
	s.Count.Store(int32(len(s.armed))) //nolint:gosec // there are only a few faults
	return a
}

// Remove disarms the fault with the id, or all faults if id is 0, and returns their number.
func (s *Set) Remove(id int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.armed)
	s.armed = slices.DeleteFunc(s.armed, func(a *Entry) bool { return id == 0 || a.ID == id })
	s.Count.Store(int32(len(s.armed))) //nolint:gosec // there are only a few faults
	return before - len(s.armed)
}

// List returns the armed faults in the order in which they were armed.
func (s *Set) List() []Armed {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Armed, 0, len(s.armed))
	for _, a := range s.armed {
		out = append(out, Armed{ID: a.ID, Fault: a.String(), Seen: a.seen, Hits: a.hits})
	}
	return out
}

// Match counts the call for every matching fault and returns the faults that hit it. who returns the caller's name;
// it is called only if a fault needs the name.
func (s *Set) Match(command string, api *catalogue.API, who func() string) []*Fault {
	if s.Count.Load() == 0 {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	var hit []*Fault
	for _, a := range s.armed {
		if !a.MatchesCommand(command) || !a.affects(api) || a.Caller != "" && a.Caller != who() {
			continue
		}
		a.seen++
		limit := a.Count
		if limit == 0 && a.Nth > 0 {
			limit = 1
		}
		switch {
		case a.seen < a.Nth, limit > 0 && a.hits >= limit:
		case a.Probability > 0 && s.random.Float64() >= a.Probability:
		default:
			a.hits++
			f := a.Fault
			hit = append(hit, &f)
		}
	}

	return hit
}

// Pick returns the first fault of a kind, or nil.
func Pick(faults []*Fault, kind Kind) *Fault {
	for _, f := range faults {
		if f.Kind == kind {
			return f
		}
	}
	return nil
}
