// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// armedFault is a fault with its counters.
type armedFault struct {
	Fault
	id         int
	seen, hits int
}

// ArmedFault is an armed fault with the number of calls that matched and that it hit.
type ArmedFault struct {
	ID    int    `json:"id"`
	Fault string `json:"fault"` // in the format of ParseFault
	Seen  int    `json:"seen"`  // matching calls since it was armed
	Hits  int    `json:"hits"`  // of these, the calls that the fault hit
}

// faultSet holds the armed faults.
type faultSet struct {
	count atomic.Int32 // number of armed faults, to skip the lock if it is 0

	mu     sync.Mutex
	random *rand.Rand
	next   int
	armed  []*armedFault
}

// seed starts the random sequence for probabilities.
func (s *faultSet) seed(n uint64) { s.random = rand.New(rand.NewPCG(n, 0)) } //nolint:gosec // must be repeatable, not secret

// inject arms a fault; remove disarms it.
func (s *faultSet) inject(f Fault) *armedFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	a := &armedFault{Fault: f, id: s.next}
	s.armed = append(s.armed, a)
	s.count.Store(int32(len(s.armed))) //nolint:gosec // there are only a few faults
	return a
}

// remove disarms the fault with the id, or all faults if id is 0, and returns their number.
func (s *faultSet) remove(id int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.armed)
	s.armed = slices.DeleteFunc(s.armed, func(a *armedFault) bool { return id == 0 || a.id == id })
	s.count.Store(int32(len(s.armed))) //nolint:gosec // there are only a few faults
	return before - len(s.armed)
}

func (s *faultSet) list() []ArmedFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]ArmedFault, 0, len(s.armed))
	for _, a := range s.armed {
		out = append(out, ArmedFault{ID: a.id, Fault: a.String(), Seen: a.seen, Hits: a.hits})
	}
	return out
}

// match counts the call for every matching fault and returns the faults that hit it. who returns the caller's name;
// it is called only if a fault needs the name.
func (s *faultSet) match(command string, api *apiSpec, who func() string) []*Fault {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit []*Fault
	for _, a := range s.armed {
		if !a.matchesCommand(command) || !a.affects(api) || a.Caller != "" && a.Caller != who() {
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

func pick(faults []*Fault, kind FaultKind) *Fault {
	for _, f := range faults {
		if f.Kind == kind {
			return f
		}
	}
	return nil
}

// Inject arms a fault until remove is called.
func (s *Simulator) Inject(f Fault) (remove func()) {
	a := s.faults.inject(f)
	return func() { s.faults.remove(a.id) }
}

// Faults returns the armed faults in the order in which they were armed.
func (s *Simulator) Faults() []ArmedFault { return s.faults.list() }
