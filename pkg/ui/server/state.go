// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/ui/model"
)

// state is the last snapshot. Each stream sends the difference to the snapshot that it sent before, so a slow browser
// gets one larger patch rather than a queue of small ones.
type state struct {
	again chan struct{}

	mu sync.Mutex
	// read is the last snapshot that the source returned. shown is the one to display: the same, and if the source has
	// failed since, with the reason.
	read, shown model.Snapshot
	known       bool
	changed     chan struct{} // closed by the next set
}

func newState() *state {
	return &state{again: make(chan struct{}, 1), changed: make(chan struct{})}
}

// set stores what the source returned.
func (s *state) set(snapshot model.Snapshot, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.read = snapshot.Sorted()
		s.shown = s.read
	} else {
		s.shown = unread(s.read, err).Sorted()
		s.shown.At = now
	}
	s.known = true
	close(s.changed)
	s.changed = make(chan struct{})
}

// get returns the last snapshot and a channel that is closed when there is a newer one. It waits for the first
// snapshot.
func (s *state) get(ctx context.Context) (model.Snapshot, <-chan struct{}, error) {
	for {
		s.mu.Lock()
		shown, known, changed := s.shown, s.known, s.changed
		s.mu.Unlock()
		if known {
			return shown, changed, nil
		}
		select {
		case <-ctx.Done():
			return shown, changed, ctx.Err()
		case <-changed:
		}
	}
}

// readAgain makes the server read the source soon.
func (s *state) readAgain() {
	select {
	case s.again <- struct{}{}:
	default: // a read is already requested
	}
}
