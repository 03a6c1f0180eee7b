// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// recordUser records the event of a login or logout.
func (s *Simulator) recordUser(u *store.User, kind, text string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.AddEvent(&store.Event{
		Entity: store.Entity{Created: now}, Kind: kind, State: store.EventCompleted, Text: text, Owner: u.Account, User: u, Resource: store.Resource{Kind: "User", UUID: u.UUID, Name: u.Username},
	})
}
